//! Executes what autoscaling asks for: an actuator is asked, one thing after the other, and new servers are tried.
//!
//! What is done was saved before: the shared core hands nothing out that is not. Trials do not wait for the actuator, which may take a minute.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_coordinator_core::ScaleWork;
use evenkeel_coordinator_core::scale::{Act, Outcome};
use evenkeel_scaler::{Actuator, Failed};
use std::collections::BTreeMap;

use crate::shared_core::SharedCore;
use crate::trial;
use tracing::warn;

/// Distance of looks whether there is anything to do, and of trials of a server.
const LOOK: Duration = Duration::from_millis(100);

/// An actuator that one thread at a time asks.
type Shared = Arc<Mutex<Box<dyn Actuator>>>;

/// What it runs: addresses by name.
type Listed = BTreeMap<String, String>;

/// Does what the core asks for, where there is an actuator. Never ends.
pub(crate) async fn run(shared: &SharedCore, actuator: Option<Box<dyn Actuator>>) {
    match actuator {
        Some(actuator) => {
            let actuator = Arc::new(Mutex::new(actuator));
            tokio::join!(ask_actuator(shared, &actuator), try_newcomers(shared));
        }
        None => std::future::pending().await,
    }
}

async fn ask_actuator(shared: &SharedCore, actuator: &Shared) {
    let mut was_failing = false;
    loop {
        // Who does not lead, or cannot save, has nothing to do.
        match shared
            .decide(|core, now| core.scale_work(now.monotonic))
            .await
        {
            Ok(Some(work)) => {
                let (acted, listed) = execute(actuator, work).await;
                let is_failing = listed.is_err();
                if let Err(why) = &listed
                    && !was_failing
                {
                    warn!("it is not known which servers run: {why}");
                }
                was_failing = is_failing;
                let told = shared.decide(|core, now| {
                    core.handle_listed(now.monotonic, listed.ok());
                    if let Some((pool, outcome)) = acted {
                        core.handle_acted(now, &pool, outcome);
                    }
                });
                // What is not heard is asked for again.
                let _ = told.await;
            }
            Ok(None) | Err(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Gives what came of an act, with its pool, and what the actuator runs since.
async fn execute(
    actuator: &Shared,
    work: ScaleWork,
) -> (Option<(String, Outcome)>, Result<Listed, String>) {
    let actuator = Arc::clone(actuator);
    let asked = tokio::task::spawn_blocking(move || {
        let mut actuator = actuator.lock().unwrap_or_else(PoisonError::into_inner);
        let acted = match work {
            ScaleWork::List => None,
            ScaleWork::Act { pool, act } => Some((pool, outcome_of(&mut **actuator, act))),
        };
        (acted, actuator.list().map_err(|why| why.to_string()))
    });
    // An actuator that panics has said nothing.
    asked
        .await
        .unwrap_or_else(|why| (None, Err(why.to_string())))
}

fn outcome_of(actuator: &mut dyn Actuator, act: Act) -> Outcome {
    let failed = |act: &Act, why: Failed| Outcome::Failed(act.clone(), why.to_string());
    match &act {
        Act::Start { name } => match actuator.add(name) {
            Ok(address) => Outcome::Started {
                name: name.clone(),
                address,
            },
            Err(why) => failed(&act, why),
        },
        Act::Stop { name } => match actuator.remove(name) {
            Ok(()) => Outcome::Done(act),
            Err(why) => failed(&act, why),
        },
        Act::Try { .. } | Act::Join { .. } | Act::Drain { .. } => {
            unreachable!("the core asks an actuator for nothing else")
        }
    }
}

async fn try_newcomers(shared: &SharedCore) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Ok(trials) = shared.decide(|core, _| core.scale_trials()).await else {
            continue;
        };
        for (pool, address) in trials {
            let answer = trial::try_server(&address).await;
            let act = Act::Try { address };
            let outcome = match answer {
                Ok(()) => Outcome::Done(act),
                Err(why) => Outcome::Failed(act, why),
            };
            // What is not heard is tried again.
            let _ = shared
                .decide(|core, now| core.handle_acted(now, &pool, outcome))
                .await;
        }
    }
}
