//! Being a member: the background thread of a server or a proxy that reports to the coordinator.
//!
//! The thread asks its program what to report, sends it, and tells its program what has changed.
//! Nothing it does can hold up serving: when the coordinator is away, slow, or talks nonsense, the
//! program keeps the last map and the thread tries again, less and less often and never in step
//! with other members.
//!
//! ```text
//!              report() ──> ┌────────┐ ── POST heartbeat ──> coordinator
//!   program                 │ thread │
//!          <── on_event() ── └────────┘ <── id, map, load, settings
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use evenkeel_control::FollowedPool;
use evenkeel_control::hot_keys::HotKeysNews;
use evenkeel_types::{BootId, Epoch};

use crate::access::Access;
use crate::endpoint::{BadEndpoint, Endpoint};
use crate::event::MemberEvent;
use crate::line::{CallError, Line, REQUEST_TIMEOUT};
use crate::view::{FORMER_LEADER, View};
use evenkeel_control::http::NOT_LEADER;
use evenkeel_coordinator_core::{
    Heartbeat, HeartbeatAnswer, LoadReport, MapOffer, MemberKind, MigrationReport, Reason,
};

use crate::pace::{Orders, Pace};

/// Bounds on the interval that a coordinator may ask for.
const INTERVAL_MIN: Duration = Duration::from_millis(5);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Attempts in a row without an answer until the program is told; one lost answer is no news.
const LOST_AFTER: u32 = 3;

/// Most coordinators in a list. One works at a time; the others are there to take over.
const COORDINATORS_MAX: usize = 16;

/// Most coordinators that a caller is sent on to, one after the other: one that says where the leader is may be
/// behind by one change of leaders.
pub(crate) const REDIRECTS_MAX: usize = 2;

/// A member that was told for so long that its name is another's gives up: anyone who held it before a restart is known to have ended
/// much earlier, unless the coordinator is patient. Who starts it again and again does so at this pace.
const NAME_PATIENCE: Duration = Duration::from_secs(10);

/// What a member says of itself for as long as its process lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberConfig {
    /// Addresses, `host:port`, `http://host:port` or `https://host:port`. The one that answered last is asked first.
    pub coordinators: Vec<String>,
    /// What is shown to them.
    pub access: Access,
    /// Name of the cluster.
    pub cluster: String,
    /// What the member is.
    pub kind: MemberKind,
    /// Name that stays over restarts.
    pub name: String,
    /// This life of the process.
    pub boot: BootId,
    /// Where others reach the member: host name or IP address, no port.
    pub host: String,
    /// The ordinary port.
    pub port: u16,
    /// A server's port for each worker; empty for a proxy.
    pub worker_ports: Vec<u16>,
    /// Locality domain.
    pub rack: Option<String>,
    /// See [`Heartbeat::gone_after_ms`].
    pub gone_after: Option<Duration>,
    /// Seed of the random spread of heartbeats, different for each member.
    pub seed: u64,
}

/// What a member reports at the moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Newest map that the whole member works by. A server names a map only when each of its
    /// workers has let go of every cachelet that this map does not give to it, contents included:
    /// then the coordinator may give them to others. 0 before the first map.
    pub epoch: Epoch,
    /// Load of each worker.
    pub load: LoadReport,
    /// What is new of a server's hot keys, if anything.
    pub hot_keys: Option<HotKeysNews>,
    /// Whether the server can pass cachelets on with their contents, and take them.
    pub migrates: bool,
    /// Whether the server is overloaded and cannot help itself.
    pub asks_for_moves: bool,
    /// How far the migrations of a server have come.
    pub migrations: Vec<MigrationReport>,
    /// A server: that it serves under leases only.
    pub leased: bool,
    /// A server: that its process was told to end, and serves until others have what it has.
    pub ending: bool,
    /// A proxy: fingerprint of the file that it works by.
    pub config_hash: Option<String>,
    /// A proxy that follows pools: see [`Heartbeat::control_port`]. 0 for none.
    pub control_port: u16,
    /// A proxy: the pools whose changes it follows here.
    pub pools: Vec<FollowedPool>,
}

/// Why a member cannot start.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// An address is none.
    #[error(transparent)]
    BadEndpoint(#[from] BadEndpoint),
    /// No coordinator, or too many.
    #[error("{count} coordinators were given, not 1 to {COORDINATORS_MAX}")]
    BadCount {
        /// How many.
        count: usize,
    },
    /// What the member says of itself would be refused.
    #[error("the coordinator would refuse this member: {0}")]
    BadMember(String),
    /// The thread cannot be started.
    #[error("cannot start the thread that reports to the coordinator: {0}")]
    Thread(#[from] std::io::Error),
}

/// A running membership. Ends when stopped or dropped.
#[derive(Debug)]
pub struct MemberHandle {
    orders: Arc<Orders>,
    thread: Option<JoinHandle<()>>,
}

/// Has a membership's next heartbeat sent, for threads that do not hold it. Does nothing once it has ended.
#[derive(Clone, Debug)]
pub struct Hurrier(Arc<Orders>);

impl Hurrier {
    /// As [`MemberHandle::hurry`].
    pub fn hurry(&self) {
        self.0.give(|order| order.hurry = true);
    }
}

impl MemberHandle {
    /// Starts to report. `report` is asked before each heartbeat; `on_event` is called on the same
    /// thread. Neither should block: they would hold up the next heartbeat.
    ///
    /// # Errors
    ///
    /// The configuration is unusable, or there is no thread to be had. That nobody answers is no
    /// error.
    pub fn start(
        config: MemberConfig,
        report: impl FnMut() -> Report + Send + 'static,
        on_event: impl FnMut(MemberEvent) + Send + 'static,
    ) -> Result<Self, MemberError> {
        let count = config.coordinators.len();
        if !(1..=COORDINATORS_MAX).contains(&count) {
            return Err(MemberError::BadCount { count });
        }
        let endpoints: Result<Vec<_>, _> = config
            .coordinators
            .iter()
            .map(|c| config.access.endpoint(c))
            .collect();
        let heartbeat = first_heartbeat(&config);
        heartbeat
            .validate()
            .map_err(|refusal| MemberError::BadMember(refusal.to_string()))?;
        let orders = Arc::new(Orders::default());
        let member = Member {
            endpoints: endpoints?,
            preferred: None,
            followed: None,
            line: Line::new(&config.access, REQUEST_TIMEOUT),
            heartbeat,
            orders: orders.clone(),
            view: View::default(),
            pace: Pace::new(config.seed),
            report,
            on_event,
        };
        let thread = thread::Builder::new()
            .name("coordinator".to_owned())
            .spawn(move || member.run())?;
        Ok(MemberHandle {
            orders,
            thread: Some(thread),
        })
    }

    /// Sends the next heartbeat now: there is something to tell, like a map that is in use.
    pub fn hurry(&self) {
        self.hurrier().hurry();
    }

    /// What can [`hurry`](Self::hurry) from elsewhere.
    pub fn hurrier(&self) -> Hurrier {
        Hurrier(Arc::clone(&self.orders))
    }

    /// Ends the membership. Waits for a call under way, a second for each coordinator at most.
    pub fn stop(mut self) {
        self.end();
    }

    /// Ends the membership and tells the coordinator that answered last that the process ends. Takes a second longer than
    /// [`stop`](Self::stop) at most.
    pub fn leave(mut self) {
        self.orders.give(|order| order.leave = true);
        self.end();
    }

    fn end(&mut self) {
        self.orders.give(|order| order.stop = true);
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the program's own closures has been reported on that thread.
            let _ = thread.join();
        }
    }
}

impl Drop for MemberHandle {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread.
struct Member<R, E> {
    endpoints: Vec<Endpoint>,
    /// The coordinator that answered last, if it is to be asked first.
    preferred: Option<Endpoint>,
    /// The coordinator that was followed last: no other is offered its map, as it could still be alive.
    followed: Option<Endpoint>,
    line: Line,
    /// The next heartbeat, but for the report.
    heartbeat: Heartbeat,
    orders: Arc<Orders>,
    view: View,
    pace: Pace,
    report: R,
    on_event: E,
}

impl<R: FnMut() -> Report, E: FnMut(MemberEvent)> Member<R, E> {
    fn run(mut self) {
        loop {
            self.round();
            let wait = self.pace.next_wait();
            if self.orders.wait(wait) {
                if self.orders.leaves() {
                    self.say_goodbye();
                }
                return;
            }
        }
    }

    /// The last heartbeat: nothing is new in it but that it is the last. Who does not hear it finds out by silence.
    fn say_goodbye(&mut self) {
        self.heartbeat.leaves = true;
        if let Some(endpoint) = &self.preferred
            && let Ok(body) = serde_json::to_vec(&self.heartbeat)
        {
            let _: Result<HeartbeatAnswer, CallError> =
                self.line.post(endpoint, "/api/v1/heartbeat", &body);
        }
    }

    /// One heartbeat to the first coordinator that answers.
    fn round(&mut self) {
        let Report {
            epoch,
            load,
            hot_keys,
            migrates,
            asks_for_moves,
            migrations,
            leased,
            ending,
            config_hash,
            control_port,
            pools,
        } = (self.report)();
        self.heartbeat.hot_keys = hot_keys;
        self.heartbeat.migrates = migrates;
        self.heartbeat.asks_for_moves = asks_for_moves;
        self.heartbeat.migrations = migrations;
        self.heartbeat.leased = leased;
        self.heartbeat.ending = ending;
        self.heartbeat.config_hash = config_hash;
        self.heartbeat.control_port = control_port;
        self.heartbeat.pools = pools;
        self.heartbeat.epoch = epoch;
        self.heartbeat.load = load;
        self.heartbeat.told = self.view.epoch;
        self.heartbeat.lineage = self.view.lineage;
        let Ok(body) = serde_json::to_vec(&self.heartbeat) else {
            let message = "the member's report cannot be written as JSON".to_owned();
            return self.handle_refusal("bad_report", message);
        };
        let mut unable = None;
        let mut unreached = Vec::new();
        let mut turns = self.turns();
        let mut redirects = 0;
        while let Some(endpoint) = turns.pop_front() {
            let sent = Instant::now();
            match self.line.post(&endpoint, "/api/v1/heartbeat", &body) {
                Ok(answer) => match self.handle_answer(sent, answer) {
                    Ok(()) => {
                        self.preferred = Some(endpoint.clone());
                        self.followed = Some(endpoint);
                        return;
                    }
                    // Its successor may be among the others.
                    Err((FORMER_LEADER, message)) => {
                        unable = Some((FORMER_LEADER.to_owned(), message));
                    }
                    Err((reason, message)) => return self.handle_refusal(reason, message),
                },
                Err(CallError::Unreachable(why)) => unreached.push(format!("{endpoint}: {why}")),
                Err(untrusted @ CallError::Untrusted(_)) => {
                    unable = Some(("untrusted".to_owned(), untrusted.to_string()));
                }
                Err(CallError::Refused {
                    leader,
                    reason,
                    message,
                    ..
                }) if reason == NOT_LEADER => {
                    unable = Some((reason, message));
                    let leader = leader.and_then(|leader| endpoint.leader(&leader));
                    if let Some(leader) = leader
                        && redirects < REDIRECTS_MAX
                    {
                        redirects += 1;
                        turns.retain(|other| *other != leader);
                        turns.push_front(leader);
                    }
                }
                Err(CallError::Refused {
                    reason, message, ..
                }) if reason == Reason::MapWanted.as_str() => {
                    self.offer_map(&endpoint);
                    self.preferred = Some(endpoint);
                    return self.handle_refusal(&reason, message);
                }
                // It cannot serve us now; another might.
                Err(CallError::Refused {
                    status: 500..,
                    reason,
                    message,
                    ..
                }) => unable = Some((reason, message)),
                Err(CallError::Refused {
                    reason, message, ..
                }) => {
                    self.preferred = Some(endpoint);
                    return self.handle_refusal(&reason, message);
                }
                Err(CallError::BadAnswer(message)) => {
                    return self.handle_refusal("bad_answer", message);
                }
            }
            if self.orders.stopped() {
                return;
            }
        }
        match unable {
            Some((reason, message)) => self.handle_refusal(&reason, message),
            None => self.handle_silence(&unreached),
        }
    }

    /// Gives a coordinator that has lost its state the map to go on from, where it was followed before.
    fn offer_map(&self, endpoint: &Endpoint) {
        let (Some(map), Some(lineage)) = (&self.view.map, self.view.lineage) else {
            return;
        };
        let offer = MapOffer {
            name: self.heartbeat.name.clone(),
            boot: self.heartbeat.boot,
            lineage,
            map: map.document().clone(),
        };
        if self.followed.as_ref() == Some(endpoint)
            && let Ok(body) = serde_json::to_vec(&offer)
        {
            // Where it does not arrive, the next heartbeat is asked for it again.
            let _: Result<serde_json::Value, CallError> =
                self.line.post(endpoint, "/api/v1/map", &body);
        }
    }

    /// The coordinators to ask in this round: the one that answered last, which need not be in the list, and then the list
    /// in turn from there on.
    fn turns(&self) -> VecDeque<Endpoint> {
        let preferred = self.preferred.as_ref();
        let at = preferred.and_then(|one| self.endpoints.iter().position(|e| e == one));
        let mut turns: VecDeque<_> = self.endpoints.iter().cloned().collect();
        turns.rotate_left(at.unwrap_or(0));
        if let (None, Some(elsewhere)) = (at, preferred) {
            turns.push_front(elsewhere.clone());
        }
        turns
    }

    fn handle_answer(
        &mut self,
        sent: Instant,
        answer: HeartbeatAnswer,
    ) -> Result<(), (&'static str, String)> {
        let interval = Duration::from_millis(answer.interval_ms);
        let (epoch, lease) = (answer.epoch, answer.lease_ms.map(Duration::from_millis));
        let may_end = answer.may_end;
        let events = self.view.take(self.heartbeat.kind, answer)?;
        self.pace.failures = 0;
        self.pace.waits = 0;
        self.pace.interval = interval.clamp(INTERVAL_MIN, INTERVAL_MAX);
        self.view.refused = None;
        self.view.lost = false;
        if !std::mem::replace(&mut self.view.found, true) {
            (self.on_event)(MemberEvent::Found);
        }
        let answered = MemberEvent::Answered { sent, epoch, lease };
        match self.heartbeat.kind {
            MemberKind::Proxy => {
                (self.on_event)(answered);
                events.into_iter().for_each(&mut self.on_event);
            }
            MemberKind::Server => {
                events.into_iter().for_each(&mut self.on_event);
                (self.on_event)(answered);
            }
        }
        if may_end && !std::mem::replace(&mut self.view.may_end, true) {
            (self.on_event)(MemberEvent::MayEnd);
        }
        Ok(())
    }

    fn handle_refusal(&mut self, reason: &str, message: String) {
        self.pace.failures = self.pace.failures.saturating_add(1);
        // What is so now is soon over: an election, and a former life of this server that is not known to have ended yet.
        let is_soon_over = reason == NOT_LEADER || reason == Reason::NameTaken.as_str();
        self.pace.waits = match is_soon_over {
            true => self.pace.waits.saturating_add(1),
            false => 0,
        };
        if self.view.refused.as_deref() != Some(reason) {
            self.view.refused = Some(reason.to_owned());
            self.view.refused_at = Some(Instant::now());
            (self.on_event)(MemberEvent::Refused {
                reason: reason.to_owned(),
                message: message.clone(),
            });
        }
        let is_patient = |at: Instant| at.elapsed() < NAME_PATIENCE;
        let is_lost = reason == Reason::DuplicateName.as_str()
            || reason == Reason::Forgotten.as_str()
            || reason == Reason::NameTaken.as_str()
                && !self.view.refused_at.is_some_and(is_patient);
        if is_lost && !std::mem::replace(&mut self.view.has_lost_name, true) {
            (self.on_event)(MemberEvent::NameLost { message });
        }
    }

    fn handle_silence(&mut self, unreached: &[String]) {
        self.pace.failures = self.pace.failures.saturating_add(1);
        if self.pace.failures >= LOST_AFTER && !std::mem::replace(&mut self.view.lost, true) {
            self.view.found = false;
            (self.on_event)(MemberEvent::Lost {
                why: unreached.join("; "),
                has_answered: self.followed.is_some(),
            });
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn first_heartbeat(config: &MemberConfig) -> Heartbeat {
    Heartbeat {
        cluster: config.cluster.clone(),
        kind: config.kind,
        name: config.name.clone(),
        boot: config.boot,
        host: config.host.clone(),
        port: config.port,
        worker_ports: config.worker_ports.clone(),
        rack: config.rack.clone(),
        epoch: Epoch(0),
        told: Epoch(0),
        lineage: None,
        load: LoadReport::default(),
        hot_keys: None,
        migrates: false,
        asks_for_moves: false,
        migrations: Vec::new(),
        leased: false,
        ending: false,
        config_hash: None,
        control_port: 0,
        gone_after_ms: config.gone_after.map(millis),
        pools: Vec::new(),
        leaves: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_configurations_do_not_start() {
        let good = MemberConfig {
            access: Access::default(),
            coordinators: vec!["127.0.0.1:1".into()],
            cluster: "c".into(),
            kind: MemberKind::Server,
            name: "s1".into(),
            boot: BootId(1),
            host: "127.0.0.1".into(),
            port: 1,
            worker_ports: vec![2],
            rack: None,
            gone_after: None,
            seed: 1,
        };
        type Break = fn(&mut MemberConfig);
        let breaks: [(Break, &str); 6] = [
            (|c| c.coordinators.clear(), "0 coordinators"),
            (
                |c| c.coordinators = vec!["h:1".into(); 99],
                "99 coordinators",
            ),
            (|c| c.coordinators.push("nowhere".into()), "host:port"),
            (|c| c.name = "a b".into(), "name"),
            (|c| c.worker_ports.clear(), "worker ports"),
            (|c| c.port = 0, "port 0"),
        ];
        for (break_it, expected) in breaks {
            let mut bad = good.clone();
            break_it(&mut bad);
            let error = MemberHandle::start(bad, Report::default, |_| {}).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
