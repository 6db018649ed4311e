//! Executes one coordinator's part in the election: asks etcd, keeps the time, begins and ends terms.
//!
//! What is decided stands in [`election`](evenkeel_coordinator_core::election); here is the clock that it is asked by, which goes
//! on while the machine is suspended, and the task that does what it says. Each action is a task of its own, so
//! that a state that takes long to read keeps no lease from being renewed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel_runtime::since_boot;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::etcd::{Etcd, EtcdStore, EtcdView};
use crate::shared_core::{Leadership, SharedCore, new_lineage};
use evenkeel_coordinator_core::election::{Action, Cause, Election, Input, Phase};
use evenkeel_coordinator_core::{CoordinatorConfig, CoordinatorCore};
use tracing::{info, warn};

/// Longest time for reading the state: 16 MiB over a slow network.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// What is told of the election.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ElectionView {
    /// This coordinator's address.
    pub(crate) address: String,
    /// See [`Phase::as_str`].
    pub(crate) phase: &'static str,
    /// Whether it leads at this moment.
    pub(crate) leads: bool,
    /// Its token while it has the leader's key, or that of the leader it knows; 0 when there is neither.
    pub(crate) token: u64,
    /// Address of the leader, be it this one.
    pub(crate) leader: Option<String>,
    /// How much longer it may lead without a renewal.
    pub(crate) lease_left_ms: u64,
    /// Times that it became the leader.
    pub(crate) won: u64,
    /// Times that it gave up, by cause, each present.
    pub(crate) given_up: BTreeMap<&'static str, u64>,
    pub(crate) last_cause: Option<&'static str>,
    /// Why the state could last not be read.
    pub(crate) state_error: Option<String>,
    pub(crate) etcd: EtcdView,
}

/// One coordinator in the election.
#[derive(Debug)]
pub(crate) struct Elector {
    election: Mutex<Election>,
    etcd: Arc<Etcd>,
    address: String,
    config: CoordinatorConfig,
    /// Rung when something has happened beside the actions.
    bell: Notify,
    state_error: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Elector {
    /// A coordinator that others reach at `address`.
    pub(crate) fn new(etcd: Etcd, address: String, config: CoordinatorConfig) -> Self {
        Elector {
            election: Mutex::new(Election::new(&address, since_boot())),
            etcd: Arc::new(etcd),
            address,
            config,
            bell: Notify::new(),
            state_error: Mutex::new(None),
        }
    }

    /// Where it stands at this moment.
    pub(crate) fn leadership(&self) -> Leadership {
        let now = since_boot();
        let election = lock(&self.election);
        if let Some(token) = election.leads(now) {
            return Leadership::Leads(token);
        }
        if let Some(leader) = election.leader(now) {
            return Leadership::Follows(leader.address.clone());
        }
        drop(election);
        let failed = lock(&self.state_error).clone();
        let why = failed.or_else(|| self.etcd.view().last_error.map(|error| error.to_string()));
        Leadership::Leaderless(match why {
            Some(why) => format!("no coordinator is known to lead; the last trouble: {why}"),
            None => "no coordinator is known to lead yet".to_owned(),
        })
    }

    /// What is to be told of it.
    pub(crate) fn view(&self) -> ElectionView {
        let now = since_boot();
        let state_error = lock(&self.state_error).clone();
        let etcd = self.etcd.view();
        let election = lock(&self.election);
        let leads = election.leads(now).is_some();
        let other = election.leader(now).filter(|_| !leads);
        let given_up = election.counts().given_up;
        ElectionView {
            address: self.address.clone(),
            phase: election.phase().as_str(),
            leads,
            token: other.map_or(election.token(), |leader| leader.token),
            leader: match leads {
                true => Some(self.address.clone()),
                false => other.map(|leader| leader.address.clone()),
            },
            lease_left_ms: u64::try_from(election.lease_left(now).as_millis()).unwrap_or(u64::MAX),
            won: election.counts().won,
            given_up: Cause::ALL
                .map(|cause| (cause.as_str(), given_up[cause as usize]))
                .into(),
            last_cause: election.last_cause().map(Cause::as_str),
            state_error,
            etcd,
        }
    }

    /// Takes part until [`stop`](Self::stop) was called and everything is given back.
    pub(crate) async fn run(self: Arc<Self>, shared: Arc<SharedCore>) {
        let mut under_way = JoinSet::new();
        let mut told = (Phase::Following, 0);
        let mut ttl = evenkeel_coordinator_core::election::LEASE;
        loop {
            let (actions, deadline) = self.next_actions();
            for action in actions {
                under_way.spawn(Arc::clone(&self).execute(action, ttl, Arc::clone(&shared)));
            }
            self.tell(&mut told, &shared);
            if lock(&self.election).is_over() {
                return;
            }
            let now = since_boot();
            let wait = deadline.map_or(Duration::from_secs(1), |deadline| deadline.since(now));
            tokio::select! {
                Some(done) = under_way.join_next() => {
                    let input = match done {
                        Ok(input) => input,
                        // Nothing cancels an action. What went wrong is not known: better no coordinator than one
                        // that takes part no more and does not say so.
                        Err(error) => std::panic::resume_unwind(error.into_panic()),
                    };
                    if let Input::Granted { ttl: granted, .. } = &input {
                        ttl = *granted;
                    }
                    lock(&self.election).handle(since_boot(), input);
                }
                () = tokio::time::sleep(wait) => {}
                () = self.bell.notified() => {}
            }
        }
    }

    /// Gives everything back, so that another can lead at once.
    pub(crate) fn stop(&self) {
        lock(&self.election).handle(since_boot(), Input::Stop);
        self.bell.notify_one();
    }

    fn next_actions(&self) -> (Vec<Action>, Option<evenkeel_types::Instant>) {
        let now = since_boot();
        let mut election = lock(&self.election);
        election.handle_timeout(now);
        let actions = std::iter::from_fn(|| election.poll_action(now)).collect();
        (actions, election.poll_deadline())
    }

    /// Says on standard error that a term has begun or ended, and ends it in the shared core.
    fn tell(&self, told: &mut (Phase, u64), shared: &Arc<SharedCore>) {
        let (phase, token, cause) = {
            let election = lock(&self.election);
            (election.phase(), election.token(), election.last_cause())
        };
        let (before, held) = std::mem::replace(told, (phase, token));
        if before == Phase::Leading && phase != Phase::Leading {
            let cause = cause.map_or("unknown", Cause::as_str);
            warn!("leads no more ({cause})");
        }
        if before != Phase::Leading && phase == Phase::Leading {
            info!("leads with token {token}");
        }
        if held > token {
            let shared = Arc::clone(shared);
            // It may have to wait for a save under way, and renewals must not wait for it.
            tokio::spawn(async move { shared.end_term(held).await });
        }
    }

    async fn execute(
        self: Arc<Self>,
        action: Action,
        ttl: Duration,
        shared: Arc<SharedCore>,
    ) -> Input {
        match action {
            Action::Look => self.etcd.look().await,
            Action::Grant => self.etcd.grant().await,
            Action::Campaign { lease } => self.etcd.campaign(lease, &self.address).await,
            Action::Renew { lease, token } => self.etcd.renew(lease, token, ttl).await,
            Action::Revoke { lease } => self.etcd.revoke(lease).await,
            Action::Load { token } => self.load(token, &shared).await,
        }
    }

    /// Reads the state and begins a term with it.
    async fn load(self: &Arc<Self>, token: u64, shared: &SharedCore) -> Input {
        let begun = tokio::time::timeout(LOAD_TIMEOUT, self.begin_term(token, shared)).await;
        let begun = begun.unwrap_or_else(|_| Err("reading it took too long".to_owned()));
        let mut state_error = lock(&self.state_error);
        match begun {
            Ok(()) => {
                *state_error = None;
                Input::Loaded { token }
            }
            Err(what) => {
                if state_error.as_ref() != Some(&what) {
                    warn!("cannot lead: {what}");
                }
                *state_error = Some(what);
                Input::NotLoaded { token }
            }
        }
    }

    async fn begin_term(self: &Arc<Self>, token: u64, shared: &SharedCore) -> Result<(), String> {
        let elector = Arc::clone(self);
        let on_failure = Box::new(move || {
            lock(&elector.election).handle(since_boot(), Input::Unsaved { token });
            elector.bell.notify_one();
        });
        let opened = EtcdStore::open(Arc::clone(&self.etcd), token, on_failure).await;
        let (store, state) = opened.map_err(|error| error.to_string())?;
        let is_kept = state.is_some();
        let now = shared.now().monotonic;
        let mut core = match state {
            Some(state) => CoordinatorCore::restore(self.config.clone(), state, now)
                .map_err(|error| format!("cannot {error}"))?,
            None => CoordinatorCore::new(self.config.clone(), new_lineage(), now)
                .map_err(|error| format!("cannot {error}"))?,
        };
        core.lead_as(token);
        shared
            .begin_term(core, Box::new(store), is_kept, token)
            .await;
        if !is_kept {
            // The lineage must be in etcd before anybody hears of it.
            let saved = shared.decide(|_, _| ()).await;
            saved.map_err(|_| "the first state cannot be saved in etcd".to_owned())?;
        }
        Ok(())
    }
}
