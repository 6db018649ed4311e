//! What is shown of changes, and what they wait for in words.

use core::time::Duration;

use evenkeel_schemes::change::Follower;
use evenkeel_schemes::stage::Stage;
use evenkeel_schemes::warmth::{WARM_SHARE, WINDOW_HITS_MIN};
use evenkeel_types::{BootId, Instant};
use serde::{Deserialize, Serialize};

use super::words::named;
use super::{Changes, Led, ServerOrder};
use crate::duration::millis;

/// All changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesView {
    /// Of the pools that are followed or were, by name.
    pub changes: Vec<ChangeView>,
}

/// The change of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeView {
    /// The pool's name.
    pub pool: String,
    /// What its proxies are to work by.
    pub stage: Stage,
    /// How far it is to go.
    pub goal: Stage,
    /// The number of the present step.
    pub version: u64,
    /// Milliseconds for which the step has stood, as far as this coordinator process knows.
    pub since_ms: u64,
    /// Who follows, by name.
    pub proxies: Vec<FollowerView>,
    /// In `warming`: of a million reads that found something, this many were answered by the former servers; absent before
    /// [enough](evenkeel_schemes::warmth::WINDOW_HITS_MIN) have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_hits_ppm: Option<u32>,
    /// In a pool whose hash space follows the load: the plan of its ring that goes through the stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<PlanView>,
    /// Names of those that have not acknowledged the present step.
    pub waits_for: Vec<String>,
    /// What it waits for and what to do, in one sentence for people.
    pub hint: String,
}

/// The plan of a ring, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanView {
    /// Its number, from 1.
    pub number: u64,
    /// How many parts move by it.
    pub moves: usize,
    /// How many are to move by the next one, which waits for its end.
    pub waiting: usize,
    /// The server that comes or goes by the plan that is under way, or else by the one that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<PlanServerView>,
}

/// A server that comes or goes by a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanServerView {
    /// What it is known by.
    pub name: String,
    /// What is done with it.
    pub what: ServerOrder,
}

/// A proxy that follows a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowerView {
    /// Its name.
    pub name: String,
    /// Its present life.
    pub boot: BootId,
    /// The newest version that it has acknowledged, as far as this coordinator process has heard. 0 for none.
    pub acknowledged: u64,
    /// Milliseconds since its last heartbeat.
    pub silent_ms: u64,
    /// Whether this coordinator process would find out by itself that the proxy's process has ended: see
    /// [`ControlAsk`](super::ControlAsk).
    pub end_would_show: bool,
    /// After how many milliseconds of silence it is gone; absent where it has not said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_after_ms: Option<u64>,
}

/// How far a change is to go, and how many proxies there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BeginRequest {
    /// `warming` or `done`.
    pub goal: Stage,
    /// How many proxies have the pool, as the operator knows. At least 1.
    pub proxies: usize,
    /// On the way to `done` it waits in `warming` until the pool is [warm](evenkeel_schemes::warmth::WARM_SHARE), and for this many seconds at
    /// the latest: 1 to [`WHEN_WARM_MAX_S`](crate::limits::WHEN_WARM_MAX_S). Without it, it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_warm_s: Option<u64>,
}

impl BeginRequest {
    /// It waits for nothing.
    pub fn at_once(goal: Stage, proxies: usize) -> Self {
        BeginRequest {
            goal,
            proxies,
            when_warm_s: None,
        }
    }
}

/// A pool of which nothing is known any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenPoolView {
    /// Its name.
    pub pool: String,
}

/// A proxy that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedProxyView {
    /// Its name.
    pub proxy: String,
    /// Pools that it followed, and that do not wait for it any more.
    pub pools: Vec<String>,
}

impl Changes {
    /// All of them, to be shown. O(pools · proxies).
    pub(crate) fn views(&self, now: Instant) -> ChangesView {
        let pools = self.pools.iter();
        let view = |(pool, led): (&String, &Led)| self.view_of(now, pool, led);
        ChangesView {
            changes: pools.map(view).collect(),
        }
    }

    /// One of them, to be shown.
    pub(crate) fn view(&self, now: Instant, pool: &str) -> Option<ChangeView> {
        let led = self.pools.get(pool)?;
        Some(self.view_of(now, pool, led))
    }

    fn view_of(&self, now: Instant, pool: &str, led: &Led) -> ChangeView {
        let change = &led.change;
        let proxy = |(name, follower): (&String, &Follower)| FollowerView {
            name: name.clone(),
            boot: follower.boot,
            acknowledged: follower.acknowledged,
            silent_ms: millis(self.silence_of(now, name)),
            end_would_show: self.end_would_show(name),
            gone_after_ms: self.gone_after(name).map(millis),
        };
        ChangeView {
            pool: pool.to_owned(),
            stage: change.step().stage,
            goal: change.goal(),
            version: change.step().version,
            since_ms: millis(now.since(led.since)),
            proxies: change.followers().iter().map(proxy).collect(),
            former_hits_ppm: led.warmth.share().map(|share| (share * 1e6) as u32),
            ring: led.ring.as_ref().map(|ring| PlanView {
                number: ring.plan.number,
                moves: ring.plan.moves.len(),
                waiting: ring.waiting.as_ref().map_or(0, |plan| plan.moves.len()),
                server: ring.server_under_way(change.is_under_way()),
            }),
            waits_for: change.waits_for().map(str::to_owned).collect(),
            hint: self.hint(now, pool, led),
        }
    }

    fn gone_after(&self, proxy: &str) -> Option<Duration> {
        self.proxies.get(proxy)?.gone_after
    }

    fn silence_of(&self, now: Instant, proxy: &str) -> Duration {
        self.last_heard(proxy)
            .map_or(Duration::ZERO, |at| now.since(at))
    }

    /// What a change waits for.
    fn hint(&self, now: Instant, pool: &str, led: &Led) -> String {
        let change = &led.change;
        let stage = change.step().stage;
        let stranger = self.strangers.of(pool).filter(|_| led.has_plans());
        if let Some(proxy) = stranger {
            return format!(
                "proxy {proxy} works by a plan that is not known here: restore the coordinator's state; nothing begins until then"
            );
        }
        if change.followers().is_empty() {
            return format!(
                "no proxy follows the pool any more; when none has it in its file: evenkeel changes forget {pool}"
            );
        }
        if let Some(bundle) = &led.bundle {
            return self.bundle_hint(now, pool, led, bundle);
        }
        if led.is_taken_over {
            return taken_over(pool, stage);
        }
        if let Some(until) = led.warms_until() {
            return warms(until.since(now), led.warmth.share());
        }
        if let Some(waits) = self.wait(now, led) {
            return waits;
        }
        if let Some(copying) = led.copying(now) {
            return copying;
        }
        match stage {
            Stage::Former | Stage::Done if led.ring.is_some() && !change.is_under_way() => format!(
                "the ring stands; to move parts of it, N being the number of proxies that have the pool: evenkeel ring move {pool} --from SERVER --to SERVER --grains N --proxies N"
            ),
            _ if led.ring.is_some() => "the next step is about to be published".into(),
            Stage::Former => format!(
                "the former servers are asked; to go on, N being the number of proxies that have the pool: evenkeel changes begin {pool} --to warming --proxies N"
            ),
            Stage::Warming => format!(
                "what is not here yet is brought from the former servers; to go on when the pool is warm: evenkeel changes begin {pool} --to done --when-warm --proxies N"
            ),
            Stage::Done => "the former servers are not asked any more, and warm_from can be taken out of the proxies' files".into(),
            // Nothing rests there.
            Stage::Quiesced | Stage::Closing => "the next step is about to be published".into(),
        }
    }

    /// For whom it waits, if for anybody: who is silent, and otherwise who is behind.
    pub(super) fn wait(&self, now: Instant, led: &Led) -> Option<String> {
        let change = &led.change;
        let behind: Vec<&str> = change.waits_for().collect();
        let is_under_way = change.is_under_way();
        let unhurried = change
            .followers()
            .iter()
            .filter(|(_, f)| is_under_way && !f.hurries);
        let unhurried: Vec<&str> = unhurried.map(|(name, _)| name.as_str()).collect();
        let mut awaited = behind.iter().chain(&unhurried).copied();
        let silent = awaited.find(|name| self.is_silent(now, name));
        if let Some(name) = silent {
            let silence = self.silence_of(now, name);
            let seconds = silence.as_secs();
            let gone = self.gone_after(name).map_or(String::new(), |after| {
                format!(
                    " and is gone in {} s",
                    after.saturating_sub(silence).as_secs()
                )
            });
            return Some(format!(
                "waits for proxy {name}, which has been silent for {seconds} s{gone}; if its process has ended: evenkeel proxies remove {name}"
            ));
        }
        if !behind.is_empty() {
            return Some(format!(
                "waits for {} to end what began by the step before",
                named(&behind)
            ));
        }
        let waits = || format!("waits for {} to report more often", named(&unhurried));
        (!unhurried.is_empty()).then(waits)
    }
}

/// How long a change waits for its pool to be warm.
fn warms(at_most: Duration, share: Option<f64>) -> String {
    let found = match share {
        Some(share) => format!(
            "the former servers answer {:.2} % of what reads find",
            share * 100.0
        ),
        None => format!("{WINDOW_HITS_MIN} reads have yet to find something"),
    };
    format!(
        "{found}; it goes on to done when they answer less than {} %, and in {} s at the latest",
        WARM_SHARE * 100.0,
        at_most.as_secs()
    )
}

/// What to do with a change whose step was taken over.
fn taken_over(pool: &str, stage: Stage) -> String {
    let goal = match stage {
        Stage::Former | Stage::Quiesced => Stage::Warming,
        Stage::Warming | Stage::Closing => Stage::Done,
        Stage::Done => {
            return "done, by what a proxy has said: this coordinator had lost its state".into();
        }
    };
    let waiting = match stage {
        Stage::Quiesced => "; requests for the pool wait until then",
        _ => "",
    };
    format!(
        "this coordinator had lost its state and has the step from a proxy; it goes on when you say how many there are: evenkeel changes begin {pool} --to {goal} --proxies N{waiting}"
    )
}
