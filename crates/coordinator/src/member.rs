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
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use evenkeel_policy::placement::map::ClusterMap;
use evenkeel_types::{BootId, Epoch, ServerId};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::api::limits::LOAD_RPS_MAX;
use evenkeel_roles::hot_keys_view::HotKeysNews;

use crate::access::{Access, Line};
use crate::api::{Heartbeat, HeartbeatAnswer, LoadReport, MemberKind, MigrationReport, Settings};
use crate::endpoint::{BadEndpoint, CallError, Endpoint, REQUEST_TIMEOUT};
use crate::http::NOT_LEADER;

/// Bounds on the interval that a coordinator may ask for.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Interval until a coordinator has said otherwise: members show up quickly.
const INTERVAL_FIRST: Duration = Duration::from_millis(100);

/// While coordinators answer that nobody leads, an election is under way, which mostly ends within this many times
/// the [first interval](INTERVAL_FIRST). After that the member asks less and less often, as ever.
const ELECTION_TURNS: u32 = 40;

/// Longest wait between attempts while nobody answers. Short enough that a cluster is whole again
/// within five seconds of its coordinator's return.
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Attempts in a row without an answer until the program is told; one lost answer is no news.
pub(crate) const LOST_AFTER: u32 = 3;

/// Reason of a refusal: the answer came from a leader that is none any more.
const FORMER_LEADER: &str = "former_leader";

/// Most coordinators in a list. One works at a time; the others are there to take over.
pub(crate) const COORDINATORS_MAX: usize = 16;

/// Most coordinators that a caller is sent on to, one after the other: one that says where the leader is may be
/// behind by one change of leaders.
pub(crate) const REDIRECTS_MAX: usize = 2;

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
    /// Whether the server can split and merge its cachelets as the map says.
    pub splits: bool,
    /// Whether the server is overloaded and cannot help itself.
    pub asks_for_moves: bool,
    /// How far the migrations of a server have come.
    pub migrations: Vec<MigrationReport>,
    /// A server: that it serves under leases only.
    pub leased: bool,
}

/// What the program is told, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberEvent {
    /// A server has its id. Again only if the id changes.
    Registered {
        /// The id.
        server_id: ServerId,
    },
    /// A map newer than all before.
    Map(Arc<ClusterMap>),
    /// The cluster's mean requests per second of a worker, when it has changed.
    ClusterLoad(f64),
    /// The operator's choices: at first, and when they have changed.
    Settings(Settings),
    /// Whether the coordinator moves cachelets between servers by itself: at first, and when that has changed.
    Balances(bool),
    /// A server's heartbeat was answered, whatever is new; told after what is.
    Answered {
        /// When the heartbeat was sent.
        sent: Instant,
        /// Epoch of the coordinator's map.
        epoch: Epoch,
        /// How long the server may serve from then on. Absent where the coordinator knows nothing of leases.
        lease: Option<Duration>,
    },
    /// No coordinator has answered for a while. Go on with what you have.
    Lost,
    /// A coordinator has answered: the first time, and after [`Lost`](Self::Lost).
    Found,
    /// The coordinator refuses this member, or its answers make no sense. Told once for each reason
    /// in a row; the thread keeps trying.
    Refused {
        /// One of the API's words.
        reason: String,
        /// One line for people.
        message: String,
    },
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
        self.orders.give(|order| order.hurry = true);
    }

    /// Ends the membership. Waits for a call under way, a second for each coordinator at most.
    pub fn stop(mut self) {
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

/// What the program wants of the thread.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    order: Mutex<Order>,
    given: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(crate) stop: bool,
    pub(crate) hurry: bool,
}

impl Orders {
    pub(crate) fn give(&self, change: impl FnOnce(&mut Order)) {
        change(&mut self.lock());
        self.given.notify_all();
    }

    /// Whether to stop.
    pub(crate) fn stopped(&self) -> bool {
        self.lock().stop
    }

    /// Waits for an order, at most so long. Returns whether to stop.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        let mut order = self.lock();
        while !order.stop && !order.hurry {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.given.wait_timeout(order, left);
            order = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        order.hurry = false;
        order.stop
    }

    fn lock(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When to send the next heartbeat.
#[derive(Debug)]
pub(crate) struct Pace {
    pub(crate) interval: Duration,
    /// Rounds in a row in which nobody gave a usable answer.
    pub(crate) failures: u32,
    /// Rounds in a row in which coordinators answered that nobody leads.
    leaderless: u32,
    random: Xoshiro256PlusPlus,
}

impl Pace {
    pub(crate) fn new(seed: u64) -> Self {
        Pace {
            interval: INTERVAL_FIRST,
            failures: 0,
            leaderless: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// The wait until the next round: a tenth less than the interval at most, so that members do
    /// not report in step; after failures twice as long each time, anywhere in the upper half. The end of an
    /// election is awaited with short steps.
    pub(crate) fn next_wait(&mut self) -> Duration {
        let fraction = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if self.failures == 0 {
            return self.interval.mul_f64(0.9 + 0.1 * fraction);
        }
        if (1..=ELECTION_TURNS).contains(&self.leaderless) {
            return INTERVAL_FIRST.mul_f64(0.5 + 0.5 * fraction);
        }
        let doubled = self.interval.saturating_mul(1 << self.failures.min(16));
        let longest = doubled.min(RETRY_MAX.max(self.interval));
        longest.mul_f64(0.5 + 0.5 * fraction)
    }
}

/// What the program has been told already.
#[derive(Debug, Default)]
struct View {
    server_id: Option<ServerId>,
    lineage: Option<u64>,
    /// Greatest token of a leader that has answered in this lineage.
    leader: u64,
    epoch: Epoch,
    cluster_load: Option<f64>,
    balances: Option<bool>,
    settings: Option<Settings>,
    found: bool,
    lost: bool,
    refused: Option<String>,
}

impl View {
    /// What is new in an answer; nothing of an answer that makes no sense is used.
    fn take(
        &mut self,
        kind: MemberKind,
        answer: HeartbeatAnswer,
    ) -> Result<Vec<MemberEvent>, (&'static str, String)> {
        let bad = |what: &str| Err(("bad_answer", what.to_owned()));
        if (kind == MemberKind::Server) != answer.server_id.is_some() {
            return bad("a server must be given an id, and nobody else");
        }
        if !(0.0..=LOAD_RPS_MAX).contains(&answer.mean_worker_load) {
            return bad("the mean load is no load");
        }
        let foreign = self.lineage.is_some_and(|known| known != answer.lineage);
        if foreign && self.epoch > Epoch(0) {
            let message = "the coordinator does not know the map that this member works by; \
                           restore its state file or restart the member";
            return Err(("foreign_map", message.to_owned()));
        }
        if !foreign && answer.leader < self.leader {
            let message = "the coordinator answered as a leader that another has followed since";
            return Err((FORMER_LEADER, message.to_owned()));
        }
        if answer.epoch < self.epoch {
            return bad("the coordinator's map is older than one that it gave before");
        }
        if answer
            .map
            .as_ref()
            .is_some_and(|map| map.epoch() != answer.epoch)
        {
            return bad("the map has another epoch than the answer says");
        }

        let mut events = Vec::new();
        self.lineage = Some(answer.lineage);
        self.leader = answer.leader;
        if let Some(server_id) = answer.server_id
            && self.server_id.replace(server_id) != Some(server_id)
        {
            events.push(MemberEvent::Registered { server_id });
        }
        if self.settings.replace(answer.settings) != Some(answer.settings) {
            events.push(MemberEvent::Settings(answer.settings));
        }
        if self.balances.replace(answer.balances) != Some(answer.balances) {
            events.push(MemberEvent::Balances(answer.balances));
        }
        if let Some(map) = answer.map
            && map.epoch() > self.epoch
        {
            self.epoch = map.epoch();
            events.push(MemberEvent::Map(map));
        }
        let load = answer.mean_worker_load;
        if self.cluster_load.replace(load) != Some(load) {
            events.push(MemberEvent::ClusterLoad(load));
        }
        Ok(events)
    }
}

/// The thread.
struct Member<R, E> {
    endpoints: Vec<Endpoint>,
    /// The coordinator that answered last, if it is to be asked first.
    preferred: Option<Endpoint>,
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
                return;
            }
        }
    }

    /// One heartbeat to the first coordinator that answers.
    fn round(&mut self) {
        let Report {
            epoch,
            load,
            hot_keys,
            migrates,
            splits,
            asks_for_moves,
            migrations,
            leased,
        } = (self.report)();
        self.heartbeat.hot_keys = hot_keys;
        self.heartbeat.migrates = migrates;
        self.heartbeat.splits = splits;
        self.heartbeat.asks_for_moves = asks_for_moves;
        self.heartbeat.migrations = migrations;
        self.heartbeat.leased = leased;
        self.heartbeat.epoch = epoch;
        self.heartbeat.load = load;
        self.heartbeat.lineage = self.view.lineage;
        let Ok(body) = serde_json::to_vec(&self.heartbeat) else {
            let message = "the member's report cannot be written as JSON".to_owned();
            return self.handle_refusal("bad_report", message);
        };
        let mut unable = None;
        let mut turns = self.turns();
        let mut redirects = 0;
        while let Some(endpoint) = turns.pop_front() {
            let sent = Instant::now();
            match endpoint.post(&self.line, "/api/v1/heartbeat", &body) {
                Ok(answer) => match self.handle_answer(sent, answer) {
                    Ok(()) => {
                        self.preferred = Some(endpoint);
                        return;
                    }
                    // Its successor may be among the others.
                    Err((FORMER_LEADER, message)) => {
                        unable = Some((FORMER_LEADER.to_owned(), message));
                    }
                    Err((reason, message)) => return self.handle_refusal(reason, message),
                },
                Err(CallError::Unreachable(_)) => {}
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
            None => self.handle_silence(),
        }
    }

    /// Whom to ask in this round: the one that answered last, which need not be in the list, and then the list
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
        let events = self.view.take(self.heartbeat.kind, answer)?;
        self.pace.failures = 0;
        self.pace.leaderless = 0;
        self.pace.interval = interval.clamp(INTERVAL_MIN, INTERVAL_MAX);
        self.view.refused = None;
        self.view.lost = false;
        if !std::mem::replace(&mut self.view.found, true) {
            (self.on_event)(MemberEvent::Found);
        }
        events.into_iter().for_each(&mut self.on_event);
        if self.heartbeat.kind == MemberKind::Server {
            (self.on_event)(MemberEvent::Answered { sent, epoch, lease });
        }
        Ok(())
    }

    fn handle_refusal(&mut self, reason: &str, message: String) {
        self.pace.failures = self.pace.failures.saturating_add(1);
        self.pace.leaderless = match reason {
            NOT_LEADER => self.pace.leaderless.saturating_add(1),
            _ => 0,
        };
        if self.view.refused.as_deref() != Some(reason) {
            self.view.refused = Some(reason.to_owned());
            (self.on_event)(MemberEvent::Refused {
                reason: reason.to_owned(),
                message,
            });
        }
    }

    fn handle_silence(&mut self) {
        self.pace.failures = self.pace.failures.saturating_add(1);
        if self.pace.failures >= LOST_AFTER && !std::mem::replace(&mut self.view.lost, true) {
            self.view.found = false;
            (self.on_event)(MemberEvent::Lost);
        }
    }
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
        lineage: None,
        load: LoadReport::default(),
        hot_keys: None,
        migrates: false,
        splits: false,
        asks_for_moves: false,
        migrations: Vec::new(),
        leased: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Mode;
    use evenkeel_policy::placement::map::{MapDocument, ServerEntry};
    use evenkeel_types::{CacheletId, WorkerRef};

    fn map(epoch: u64) -> Arc<ClusterMap> {
        let server = ServerEntry {
            id: ServerId(0),
            name: "s".into(),
            host: "h".into(),
            port: 1,
            worker_ports: vec![2],
            rack: None,
            boot: BootId(1),
            up: true,
            since: Epoch(0),
        };
        let document = MapDocument {
            epoch: Epoch(epoch),
            servers: vec![server],
            virtual_nodes: vec![CacheletId(0)],
            cachelets: vec![Some(WorkerRef::default())],
            since: Vec::new(),
            stay: Vec::new(),
            merged: Vec::new(),
            migrations: Vec::new(),
        };
        Arc::new(ClusterMap::new(document).unwrap())
    }

    fn answer(epoch: u64) -> HeartbeatAnswer {
        HeartbeatAnswer {
            server_id: None,
            epoch: Epoch(epoch),
            lineage: 7,
            leader: 0,
            map: Some(map(epoch)),
            mean_worker_load: 10.0,
            balances: false,
            settings: Settings::default(),
            interval_ms: 500,
            lease_ms: None,
        }
    }

    #[test]
    fn only_what_is_new_is_told() {
        let mut view = View::default();
        let first = view.take(MemberKind::Proxy, answer(3)).unwrap();
        let expected = [
            MemberEvent::Settings(Settings::default()),
            MemberEvent::Balances(false),
            MemberEvent::Map(map(3)),
            MemberEvent::ClusterLoad(10.0),
        ];
        assert_eq!(first, expected);
        assert_eq!(view.take(MemberKind::Proxy, answer(3)).unwrap(), []);
        let off = Settings {
            hot_keys: Mode::Off,
        };
        let changed = HeartbeatAnswer {
            settings: off,
            balances: true,
            ..answer(4)
        };
        let expected = [
            MemberEvent::Settings(off),
            MemberEvent::Balances(true),
            MemberEvent::Map(map(4)),
        ];
        assert_eq!(view.take(MemberKind::Proxy, changed).unwrap(), expected);
    }

    #[test]
    fn a_server_is_told_its_id_once() {
        let mut view = View::default();
        let registered = HeartbeatAnswer {
            server_id: Some(ServerId(4)),
            ..answer(1)
        };
        let events = view.take(MemberKind::Server, registered.clone()).unwrap();
        let expected = MemberEvent::Registered {
            server_id: ServerId(4),
        };
        assert_eq!(events[0], expected);
        assert_eq!(view.take(MemberKind::Server, registered).unwrap(), []);
    }

    #[test]
    fn answers_that_make_no_sense_are_not_used() {
        type Break = fn(&mut HeartbeatAnswer);
        let cases: [(Break, &str); 9] = [
            (|a| a.server_id = Some(ServerId(1)), "bad_answer"),
            (|a| a.mean_worker_load = f64::NAN, "bad_answer"),
            (|a| a.mean_worker_load = f64::INFINITY, "bad_answer"),
            (|a| a.mean_worker_load = -1.0, "bad_answer"),
            (|a| a.map = Some(map(6)), "bad_answer"),
            (|a| a.epoch = Epoch(9), "bad_answer"),
            (|a| *a = answer(4), "bad_answer"),
            (|a| (a.map, a.epoch) = (None, Epoch(4)), "bad_answer"),
            (|a| a.lineage = 8, "foreign_map"),
        ];
        let mut view = View::default();
        view.take(MemberKind::Proxy, answer(5)).unwrap();
        for (break_it, reason) in cases {
            let mut bad = answer(5);
            break_it(&mut bad);
            assert_eq!(view.take(MemberKind::Proxy, bad).unwrap_err().0, reason);
        }
        assert_eq!(view.take(MemberKind::Proxy, answer(5)).unwrap(), []);
    }

    #[test]
    fn a_former_leader_is_not_believed_whatever_it_says() {
        let of = |leader, lineage| HeartbeatAnswer {
            leader,
            lineage,
            ..answer(5)
        };
        let mut view = View::default();
        view.take(MemberKind::Proxy, of(20, 7)).unwrap();
        assert_eq!(view.take(MemberKind::Proxy, of(31, 7)), Ok(vec![]));
        let late = HeartbeatAnswer {
            settings: Settings {
                hot_keys: Mode::Off,
            },
            epoch: Epoch(9),
            map: Some(map(9)),
            ..of(20, 7)
        };
        for former in [late, of(30, 7), of(0, 7)] {
            let refused = view.take(MemberKind::Proxy, former).unwrap_err();
            assert_eq!(refused.0, FORMER_LEADER);
        }
        let foreign = view.take(MemberKind::Proxy, of(40, 8)).unwrap_err();
        assert_eq!(
            foreign.0, "foreign_map",
            "tokens of two lineages say nothing"
        );
        assert_eq!(view.take(MemberKind::Proxy, of(31, 7)), Ok(vec![]));
    }

    /// Whatever order leaders' answers arrive in, those that are taken have tokens that never fall, and what a
    /// leader says first that is newer than all before is always taken.
    #[test]
    fn tokens_of_answers_taken_never_fall() {
        let seed = std::env::var("EVENKEEL_SEED").ok();
        let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(1);
        println!("EVENKEEL_SEED={seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..200 {
            let mut view = View::default();
            let mut newest = 0;
            for _ in 0..50 {
                let token = random.next_u64() % 20;
                let said = HeartbeatAnswer {
                    leader: token,
                    ..answer(5)
                };
                let is_taken = view.take(MemberKind::Proxy, said).is_ok();
                assert_eq!(is_taken, token >= newest, "{token} after {newest}");
                newest = newest.max(token);
            }
        }
    }

    #[test]
    fn before_the_first_map_any_coordinator_will_do() {
        let mut view = View::default();
        let mapless = HeartbeatAnswer {
            map: None,
            epoch: Epoch(0),
            ..answer(1)
        };
        view.take(MemberKind::Proxy, mapless).unwrap();
        let other = HeartbeatAnswer {
            lineage: 99,
            ..answer(2)
        };
        assert!(view.take(MemberKind::Proxy, other).is_ok());
    }

    #[test]
    fn heartbeats_are_never_late_and_retries_grow_to_a_bound() {
        let mut pace = Pace::new(1);
        pace.interval = Duration::from_millis(500);
        let waits: Vec<_> = (0..100).map(|_| pace.next_wait()).collect();
        let in_range = |w: &Duration| (450..=500).contains(&w.as_millis());
        assert!(waits.iter().all(in_range), "{waits:?}");
        assert!(waits.windows(2).any(|w| w[0] != w[1]), "spread");
        for failures in 1..100 {
            pace.failures = failures;
            let most = RETRY_MAX.min(Duration::from_millis(500 << failures.min(10)));
            let wait = pace.next_wait();
            assert!(wait >= most / 2 && wait <= most, "{failures}: {wait:?}");
        }
    }

    #[test]
    fn the_end_of_an_election_is_awaited_with_short_steps_for_a_while() {
        let mut pace = Pace::new(1);
        pace.interval = Duration::from_millis(500);
        pace.failures = 9;
        for leaderless in 1..=ELECTION_TURNS {
            pace.leaderless = leaderless;
            assert!((50..=100).contains(&pace.next_wait().as_millis()));
        }
        pace.leaderless = ELECTION_TURNS + 1;
        assert!(pace.next_wait() >= RETRY_MAX / 2);
    }

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
