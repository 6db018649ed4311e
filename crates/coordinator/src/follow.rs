//! Following a configuration: the background thread of a proxy whose pools and routes a coordinator keeps.
//!
//! The thread asks whether there is another configuration than the one that its program has looked at, with
//! a call that the coordinator answers when there is one. It hands that to the program, whose next report
//! says what came of it. When the coordinator is away, the program goes on by what it has.
//!
//! ```text
//!              report() ──> ┌────────┐ ── POST follow, answered when there is news ──> coordinator
//!   program                 │ thread │ ── GET the text ─────────────────────────────>
//!          <── on_event() ── └────────┘
//! ```

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use evenkeel_types::BootId;

use crate::access::Access;
use crate::api::proxy_config::{ProxyConfigId, ProxyConfigReport, RefusedProxyConfig};
use crate::client::{ApiClient, ClientError, ProxyConfigDocument};
use crate::endpoint::BadEndpoint;
use crate::member::{COORDINATORS_MAX, LOST_AFTER, Orders, Pace};

/// How long a call may wait for another configuration. The proxy counts as alive for that long.
const WAIT: Duration = Duration::from_secs(5);

/// Pause between two calls, so that a coordinator that answers at once is not asked in a circle.
const PAUSE: Duration = Duration::from_millis(100);

/// Who follows what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowConfig {
    /// Addresses, `host:port` or `http://host:port`. The one that answered last is asked first.
    pub coordinators: Vec<String>,
    /// What is shown to them.
    pub access: Access,
    /// The configuration's name.
    pub config: String,
    /// The proxy's name.
    pub proxy: String,
    /// This life of the process.
    pub boot: BootId,
    /// Where the proxy is reached.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Seed of the random spread of attempts, different for each proxy.
    pub seed: u64,
}

/// What the program has made of what it was offered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// What it works by.
    pub in_force: Option<ProxyConfigId>,
    /// The newest that it has looked at.
    pub seen: Option<ProxyConfigId>,
    /// What it could not use, if that is the newest.
    pub refused: Option<RefusedProxyConfig>,
}

/// What the program is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowEvent {
    /// A configuration that it has not looked at.
    Offered(ProxyConfigDocument),
    /// A coordinator has answered, and there was nothing else.
    Nothing,
    /// No coordinator has answered for a while; why.
    Lost(String),
    /// A coordinator answers again.
    Found,
}

/// Coordinators of which one is asked at a time: the one that answered last, or the next that answers.
#[derive(Debug)]
pub struct Coordinators {
    clients: Vec<ApiClient>,
    preferred: usize,
}

/// Why there is nobody to ask.
#[derive(Debug, thiserror::Error)]
pub enum BadCoordinators {
    /// An address is none.
    #[error(transparent)]
    BadEndpoint(#[from] BadEndpoint),
    /// None, or too many.
    #[error("{count} coordinators were given, not 1 to {COORDINATORS_MAX}")]
    BadCount {
        /// How many.
        count: usize,
    },
}

impl Coordinators {
    /// Those at these addresses. Does not connect yet.
    ///
    /// # Errors
    /// An address is none, or there are too few or too many.
    pub fn new(addresses: &[String], access: &Access) -> Result<Self, BadCoordinators> {
        let count = addresses.len();
        if !(1..=COORDINATORS_MAX).contains(&count) {
            return Err(BadCoordinators::BadCount { count });
        }
        let clients: Result<Vec<_>, _> = addresses
            .iter()
            .map(|address| ApiClient::with_access(address, access))
            .collect();
        Ok(Coordinators {
            clients: clients?,
            preferred: 0,
        })
    }

    /// What the first says that answers, be it a refusal; one that cannot serve us now is passed over.
    ///
    /// # Errors
    /// Its refusal, or why the last one does not answer.
    pub fn ask<T>(
        &mut self,
        ask: impl Fn(&ApiClient) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let count = self.clients.len();
        let mut turn = 0;
        loop {
            let position = (self.preferred + turn) % count;
            turn += 1;
            match ask(&self.clients[position]) {
                Err(
                    ClientError::Unreachable { .. } | ClientError::Refused { status: 500.., .. },
                ) if turn < count => {}
                answered => {
                    if answered.is_ok() {
                        self.preferred = position;
                    }
                    return answered;
                }
            }
        }
    }
}

/// A thread that follows. Ends some seconds after it was dropped: a call under way is not waited for.
#[derive(Debug)]
pub struct Follower {
    orders: Arc<Orders>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.orders.give(|order| order.stop = true);
    }
}

impl Follower {
    /// Starts to follow. `report` is asked before each call; both are called on the thread.
    ///
    /// # Errors
    /// The addresses cannot be used, or there is no thread to be had.
    pub fn start(
        config: FollowConfig,
        report: impl FnMut() -> Followed + Send + 'static,
        on_event: impl FnMut(FollowEvent) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let coordinators = Coordinators::new(&config.coordinators, &config.access)?;
        let orders = Arc::new(Orders::default());
        let following = Following {
            coordinators,
            orders: Arc::clone(&orders),
            pace: Pace::new(config.seed),
            is_lost: false,
            config,
            report,
            on_event,
        };
        thread::Builder::new()
            .name("config".to_owned())
            .spawn(move || following.run())?;
        Ok(Follower { orders })
    }
}

struct Following<R, E> {
    coordinators: Coordinators,
    orders: Arc<Orders>,
    pace: Pace,
    is_lost: bool,
    config: FollowConfig,
    report: R,
    on_event: E,
}

impl<R: FnMut() -> Followed, E: FnMut(FollowEvent)> Following<R, E> {
    fn run(mut self) {
        loop {
            let outcome = self.round();
            if self.orders.stopped() {
                return;
            }
            let wait = match outcome {
                Ok(event) => {
                    self.pace.failures = 0;
                    if std::mem::replace(&mut self.is_lost, false) {
                        (self.on_event)(FollowEvent::Found);
                    }
                    (self.on_event)(event);
                    PAUSE
                }
                Err(error) => {
                    self.pace.failures = self.pace.failures.saturating_add(1);
                    let is_news = self.pace.failures >= LOST_AFTER && !self.is_lost;
                    if is_news {
                        self.is_lost = true;
                        (self.on_event)(FollowEvent::Lost(error.to_string()));
                    }
                    self.pace.next_wait()
                }
            };
            if self.orders.wait(wait) {
                return;
            }
        }
    }

    fn round(&mut self) -> Result<FollowEvent, ClientError> {
        let followed = (self.report)();
        let report = ProxyConfigReport {
            config: self.config.config.clone(),
            proxy: self.config.proxy.clone(),
            boot: self.config.boot,
            host: self.config.host.clone(),
            port: self.config.port,
            in_force: followed.in_force,
            refused: followed.refused,
            seen: followed.seen,
            wait_ms: WAIT.as_millis() as u64,
        };
        let news = self
            .coordinators
            .ask(|client| client.follow_proxy_config(&report, WAIT))?;
        // A configuration that is gone changes nothing.
        if news.newest.is_none() || news.newest == followed.seen {
            return Ok(FollowEvent::Nothing);
        }
        let name = &self.config.config;
        let document = self.coordinators.ask(|client| client.proxy_config(name))?;
        Ok(match Some(document.id) == followed.seen {
            true => FollowEvent::Nothing,
            false => FollowEvent::Offered(document),
        })
    }
}
