//! The log of requests: one of so many by chance, and each that took too long.
//!
//! A request is looked at when its server has answered it, or when it is given up: by then everything is
//! known of it, and its bytes are still there. What is to be logged is an [`Output`] for the driver, who knows
//! the client's address and the file. Without a log there is one look at [`ProxyCore::log`] for each answer.
//!
//! The quick way leaves a request that will be logged to the way proper ([`RequestLog::picks`]).

use crate::pipe::in_flight::{Progress, Question, Tag};
use crate::pool::{Pool, Servers};
use crate::show::Tally;
use crate::stats::listing::ProxyStats;
use crate::stats::per_route::RouteId;
use crate::under_way::again::Failure;
use crate::under_way::catch_up::parse_own;
use crate::{BackendId, ClientId, Output, ProxyCore};
use core::time::Duration;
use evenkeel_hotkeys::plain::NAME_PREFIX_LEN;
use evenkeel_protocol::Direction;
use evenkeel_protocol::KeyScratch;
use evenkeel_protocol::Meta;
use evenkeel_protocol::Request;
use evenkeel_protocol::StoreVerb;
use evenkeel_protocol::base64;
use evenkeel_types::Instant;
use evenkeel_types::KeyHash;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;
use serde::Serialize;

/// Most slow requests that one worker logs in a second: when a server stalls, all its requests are slow, and
/// the first hundred say what the others would.
pub const SLOW_LOGGED_PER_SECOND_MAX: u32 = 100;

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLogConfig {
    /// One of so many requests, on average; 0 for none by chance.
    pub sample: u32,
    /// Each that took so long or longer, within [`SLOW_LOGGED_PER_SECOND_MAX`].
    pub slow: Option<Duration>,
    /// Keys are not told, but their hashes.
    pub hash_keys: bool,
}

/// A request as it is logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoggedRequest {
    /// The connection of the application; not told as it is.
    #[serde(skip)]
    pub client: ClientId,
    /// `sample`, or `slow`.
    pub why: &'static str,
    /// As it was sent to the server.
    pub command: &'static str,
    /// The key as servers know it; of several the first. Absent if it is no UTF-8, or only its hash is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A key that is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_base64: Option<String>,
    /// XXH3 of the key (64 bits, seed 0), in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_hash: Option<String>,
    /// How many keys the line has.
    #[serde(skip_serializing_if = "is_one")]
    pub keys: usize,
    /// How many of several keys were found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hits: Option<usize>,
    /// Position of the route, from 1 on, or `others`.
    pub route: String,
    /// Name of the pool.
    pub pool: String,
    /// The server that answered; absent if none was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What became of it, in a word.
    pub outcome: &'static str,
    /// The words of an error of the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Length of the request as it was sent to the server.
    pub request_bytes: usize,
    /// Length of the server's answer.
    pub answer_bytes: usize,
    /// Microseconds until it was written to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_us: Option<u64>,
    /// Microseconds from then until the answer was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_us: Option<u64>,
    /// Both together, or how long an answer was waited for in vain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_us: Option<u64>,
    /// Identical gets that were answered with it.
    #[serde(skip_serializing_if = "is_zero")]
    pub collapsed: u32,
    /// How often it was put to a server again.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// It went to another server because its key's own is out of use.
    #[serde(skip_serializing_if = "is_false")]
    pub failover: bool,
    /// It was put to a replica of a hot key.
    #[serde(skip_serializing_if = "is_false")]
    pub replica: bool,
}

fn is_one(count: &usize) -> bool {
    *count == 1
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Why a request is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Sample,
    Slow,
}

impl Why {
    fn word(self) -> &'static str {
        match self {
            Why::Sample => "sample",
            Why::Slow => "slow",
        }
    }
}

/// A slow request is not logged because too many others were in this second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TooManySlow;

/// Decides which requests are logged.
#[derive(Debug)]
pub(crate) struct RequestLog {
    config: RequestLogConfig,
    /// The request that is logged by chance: the next one is 1, 0 none is.
    left: u32,
    /// The second in which slow requests are counted, and how many were logged in it.
    second: (u64, u32),
}

impl RequestLog {
    pub fn new(config: RequestLogConfig, random: &mut SplitMix64) -> Self {
        RequestLog {
            config,
            left: gap(config.sample, random),
            second: (0, 0),
        }
    }

    /// Whether the next request that is answered will be logged, if it took so long.
    #[inline]
    pub fn picks(&self, took: Option<Duration>) -> bool {
        self.left == 1 || self.is_slow(took)
    }

    /// A request was answered that [`RequestLog::picks`] did not say.
    #[inline]
    pub fn pass(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    #[inline]
    fn is_slow(&self, took: Option<Duration>) -> bool {
        let (Some(slow), Some(took)) = (self.config.slow, took) else {
            return false;
        };
        took >= slow
    }

    /// A request was answered, or given up: whether it is logged.
    fn decide(
        &mut self,
        now: Instant,
        took: Option<Duration>,
        random: &mut SplitMix64,
    ) -> Result<Option<Why>, TooManySlow> {
        let is_sample = self.left == 1;
        self.left = if is_sample {
            gap(self.config.sample, random)
        } else {
            self.left.saturating_sub(1)
        };
        if is_sample {
            return Ok(Some(Why::Sample));
        }
        if !self.is_slow(took) {
            return Ok(None);
        }
        let second = now.as_secs();
        if self.second.0 != second {
            self.second = (second, 0);
        }
        if self.second.1 >= SLOW_LOGGED_PER_SECOND_MAX {
            return Err(TooManySlow);
        }
        self.second.1 += 1;
        Ok(Some(Why::Slow))
    }
}

/// How many requests from one that is logged to the next: `mean` on average. Not always the same, or what an
/// application does regularly would be logged always or never.
fn gap(mean: u32, random: &mut SplitMix64) -> u32 {
    match u64::from(mean) {
        0 => 0,
        mean => u32::try_from(1 + random.next_u64() % (2 * mean - 1)).unwrap_or(u32::MAX),
    }
}

impl ProxyCore {
    /// Begins, goes on or ends to log as it is configured.
    pub(crate) fn take_over_log(&mut self, wanted: Option<&RequestLogConfig>) {
        if self.log.as_ref().map(|log| &log.config) != wanted {
            self.log = wanted.map(|config| RequestLog::new(*config, &mut self.random));
        }
    }

    /// The awaited request of a server is answered, and still there: logs it if it is to be.
    #[inline]
    pub(crate) fn log_answered(&mut self, id: BackendId) {
        if self.log.is_some() {
            self.look_at_answered(id);
        }
    }

    #[inline(never)]
    fn look_at_answered(&mut self, id: BackendId) {
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        let (took, asked, written) = (backend.took(self.now), backend.asked(), backend.written());
        let Some((question, request)) = backend.awaited() else {
            return;
        };
        let tag = request.tag;
        // Our own requests are nobody's.
        if tag.route == RouteId::NONE {
            return;
        }
        let Some(why) = decide(
            &mut self.log,
            &mut self.stats,
            self.now,
            took,
            &mut self.random,
        ) else {
            return;
        };
        let (hits, outcome) = match &request.progress {
            Progress::Group(group) if request.outcome != Tally::Refused => {
                let hits = group.hits();
                let outcome = match hits {
                    0 => Tally::GetMiss.word(),
                    hits if hits == group.keys.len() => Tally::GetHit.word(),
                    _ => "some",
                };
                (Some(hits), outcome)
            }
            _ => (None, request.outcome.word()),
        };
        let parts = asked.zip(written);
        let pool = self.pools.get(tag.pool.0);
        let is_plain = pool.is_some_and(Pool::is_plain);
        let line = Line::of(question, &tag, is_plain);
        let seen = Seen {
            why,
            server: None,
            outcome,
            hits,
            error: None,
            request_bytes: question.len(),
            answer_bytes: request.answer_bytes as usize,
            queue_us: parts.map(|(asked, written)| micros(written.since(asked))),
            answer_us: parts.map(|(_, written)| micros(self.now.since(written))),
            took_us: took.map(micros),
            collapsed: request.joined,
            failover: false,
        };
        let seen = Seen {
            server: Some(backend.full_name()),
            failover: self.is_elsewhere(id, &tag, &line),
            ..seen
        };
        self.log_line(line, &tag, seen);
    }

    /// A request is given up: logs it if it is to be.
    #[inline(never)]
    pub(crate) fn log_failed(&mut self, question: &Question, failure: &Failure, as_miss: bool) {
        let tag = question.tag;
        if tag.route == RouteId::NONE || self.log.is_none() {
            return;
        }
        let pool = self.pools.get(tag.pool.0);
        let timeout = pool.map(|pool| pool.settings.request_timeout);
        // One that was not asked has waited for nothing.
        let took = timeout.filter(|_| failure.was_asked()).map(|timeout| {
            let timeout = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            self.now
                .since(Instant(tag.give_up.0.saturating_sub(timeout)))
        });
        let Some(why) = decide(
            &mut self.log,
            &mut self.stats,
            self.now,
            took,
            &mut self.random,
        ) else {
            return;
        };
        let outcome = match as_miss && tag.is_read {
            true => Tally::GetUnavailable.word(),
            false => Tally::Failed.word(),
        };
        let collapsed = match &question.progress {
            Progress::Shared(others) => u32::try_from(others.len()).unwrap_or(u32::MAX),
            _ => 0,
        };
        let seen = Seen {
            why,
            server: failure.server().map(str::to_owned),
            outcome,
            hits: None,
            error: Some(failure.to_string()),
            request_bytes: question.bytes.len(),
            answer_bytes: 0,
            queue_us: None,
            answer_us: None,
            took_us: took.map(micros),
            collapsed,
            failover: false,
        };
        let is_plain = pool.is_some_and(Pool::is_plain);
        let line = Line::of(&question.bytes, &tag, is_plain);
        self.log_line(line, &tag, seen);
    }

    fn log_line(&mut self, line: Line, tag: &Tag, seen: Seen) {
        let hash_keys = self.log.as_ref().is_some_and(|log| log.config.hash_keys);
        let pool = self.pools.get(tag.pool.0);
        let key_hash = hash_keys.then(|| format!("{:016x}", KeyHash::of(&line.key).0));
        let (key, key_base64) = match String::from_utf8(line.key) {
            _ if hash_keys => (None, None),
            Ok(key) => (Some(key), None),
            Err(error) => {
                let mut encoded = Vec::new();
                base64::encode(error.as_bytes(), &mut encoded);
                (None, String::from_utf8(encoded).ok())
            }
        };
        let logged = LoggedRequest {
            client: tag.client,
            why: seen.why.word(),
            command: line.command,
            key,
            key_base64,
            key_hash,
            keys: line.keys,
            hits: seen.hits,
            route: self.name_of_route(tag.route),
            pool: pool.map_or_else(String::new, |pool| pool.name.to_string()),
            server: seen.server,
            outcome: seen.outcome,
            error: seen.error,
            request_bytes: seen.request_bytes,
            answer_bytes: seen.answer_bytes,
            queue_us: seen.queue_us,
            answer_us: seen.answer_us,
            took_us: seen.took_us,
            collapsed: seen.collapsed,
            retries: tag.retries.into(),
            failover: seen.failover,
            replica: tag.is_replica,
        };
        self.outputs.push_back(Output::Log(Box::new(logged)));
    }

    /// Whether the key of a request in a pool of plain servers is at home somewhere else.
    fn is_elsewhere(&self, id: BackendId, tag: &Tag, line: &Line) -> bool {
        let pool = self.pools.get(tag.pool.0);
        match pool.map(|pool| &pool.servers) {
            Some(Servers::Memcached(servers)) => !tag.is_replica && servers.home(&line.key) != id,
            Some(Servers::Evenkeel(_)) | None => false,
        }
    }

    /// Its position in the configuration, from 1 on; `gone` after a reload without it.
    fn name_of_route(&self, id: RouteId) -> String {
        if id == RouteId::OTHERS {
            return "others".to_owned();
        }
        let position = self.ways.iter().position(|way| way.route() == id);
        position.map_or_else(|| "gone".to_owned(), |at| (at + 1).to_string())
    }
}

/// Whether a request is logged, and counts slow ones that are not.
fn decide(
    log: &mut Option<RequestLog>,
    stats: &mut ProxyStats,
    now: Instant,
    took: Option<Duration>,
    random: &mut SplitMix64,
) -> Option<Why> {
    match log.as_mut()?.decide(now, took, random) {
        Ok(why) => why,
        Err(TooManySlow) => {
            stats.proxy_request_log_slow_dropped += 1;
            None
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What is seen of a request when it is over.
struct Seen {
    why: Why,
    server: Option<String>,
    outcome: &'static str,
    hits: Option<usize>,
    error: Option<String>,
    request_bytes: usize,
    answer_bytes: usize,
    queue_us: Option<u64>,
    answer_us: Option<u64>,
    took_us: Option<u64>,
    collapsed: u32,
    failover: bool,
}

/// What a request asks.
struct Line {
    command: &'static str,
    /// The first key, as it is stored.
    key: Vec<u8>,
    keys: usize,
}

impl Line {
    /// Reads a request that the proxy has composed for a pool of plain servers, or of Evenkeel servers.
    fn of(question: &[u8], tag: &Tag, is_plain: bool) -> Line {
        let one = |command, key: &[u8]| Line {
            command,
            key: key.to_vec(),
            keys: 1,
        };
        let mut own = Vec::new();
        let question = if tag.is_replica && is_plain {
            own.extend_from_slice(question);
            remove_name(&mut own);
            &own
        } else {
            question
        };
        let mut scratch = KeyScratch::default();
        let mut meta = |command, meta: &Meta<'_>| one(command, meta.key.decode(&mut scratch));
        match parse_own(question) {
            Some(Request::Get { keys, with_cas }) => Line {
                command: if with_cas { "gets" } else { "get" },
                key: keys.iter().next().unwrap_or_default().to_vec(),
                keys: keys.iter().count(),
            },
            Some(Request::GetAndTouch { keys, with_cas, .. }) => Line {
                command: if with_cas { "gats" } else { "gat" },
                key: keys.iter().next().unwrap_or_default().to_vec(),
                keys: keys.iter().count(),
            },
            Some(Request::Store(store)) => one(word_of(store.verb), store.key),
            Some(Request::Delete { key, .. }) => one("delete", key),
            Some(Request::Arithmetic { key, direction, .. }) => match direction {
                Direction::Incr => one("incr", key),
                Direction::Decr => one("decr", key),
            },
            Some(Request::Touch { key, .. }) => one("touch", key),
            Some(Request::MetaGet(request)) => meta("mg", &request),
            Some(Request::MetaSet(request)) => meta("ms", &request),
            Some(Request::MetaDelete(request)) => meta("md", &request),
            Some(Request::MetaArithmetic(request)) => meta("ma", &request),
            Some(Request::MetaDebug { key }) => one("me", key.decode(&mut scratch)),
            _ => one("other", b""),
        }
    }
}

/// Takes the name of a copy off the key, in front of which it stands.
fn remove_name(question: &mut Vec<u8>) {
    if let Some(space) = question.iter().position(|&byte| byte == b' ')
        && question.len() > space + NAME_PREFIX_LEN
    {
        question.drain(space + 1..=space + NAME_PREFIX_LEN);
    }
}

fn word_of(verb: StoreVerb) -> &'static str {
    match verb {
        StoreVerb::Set => "set",
        StoreVerb::Add => "add",
        StoreVerb::Replace => "replace",
        StoreVerb::Append => "append",
        StoreVerb::Prepend => "prepend",
        StoreVerb::Cas(_) => "cas",
    }
}

impl LoggedRequest {
    /// One line of JSON, newline included. The time is in milliseconds since 1970; the client is where it
    /// comes from, if that is known.
    pub fn write(&self, unix_ms: u64, client: Option<&str>, out: &mut Vec<u8>) {
        #[derive(Serialize)]
        struct Whole<'a> {
            /// Seconds since 1970.
            time: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            client: Option<&'a str>,
            #[serde(flatten)]
            request: &'a LoggedRequest,
        }
        let whole = Whole {
            time: unix_ms as f64 / 1000.0,
            client,
            request: self,
        };
        let before = out.len();
        if serde_json::to_writer(&mut *out, &whole).is_err() {
            // Nothing in it can fail; but half a line would spoil the next.
            out.truncate(before);
            return;
        }
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    fn log(sample: u32, slow_ms: Option<u64>) -> (RequestLog, SplitMix64) {
        let mut random = SplitMix64::seed_from_u64(3);
        let config = RequestLogConfig {
            sample,
            slow: slow_ms.map(Duration::from_millis),
            hash_keys: false,
        };
        (RequestLog::new(config, &mut random), random)
    }

    #[test]
    fn one_of_so_many_is_logged_and_never_in_step() {
        let (mut log, mut random) = log(10, None);
        let mut at = Vec::new();
        for n in 0..100_000 {
            let picked = log.picks(None);
            let why = log.decide(Instant(0), None, &mut random);
            assert_eq!(why, Ok(picked.then_some(Why::Sample)));
            if picked {
                at.push(n);
            }
        }
        // 10,000 are expected, with a standard deviation of some 60.
        assert!((9_600..10_400).contains(&at.len()), "{}", at.len());
        for step in 2..=10 {
            let in_step = at.iter().filter(|n| *n % step == 0).count();
            let expected = at.len() as f64 / f64::from(step);
            let off = (in_step as f64 - expected).abs() / expected;
            assert!(off < 0.2, "{in_step} of {expected} at each {step}");
        }
    }

    #[test]
    fn passing_by_and_deciding_count_alike() {
        let (mut passing, mut random) = log(50, None);
        let (mut deciding, mut other) = log(50, None);
        for _ in 0..10_000 {
            let picked = passing.picks(None);
            if picked {
                let why = passing.decide(Instant(0), None, &mut random);
                assert_eq!(why, Ok(Some(Why::Sample)));
            } else {
                passing.pass();
            }
            let why = deciding.decide(Instant(0), None, &mut other);
            assert_eq!(why, Ok(picked.then_some(Why::Sample)));
        }
    }

    #[test]
    fn slow_ones_are_logged_within_a_bound_for_each_second() {
        let (mut log, mut random) = log(0, Some(5));
        let took = |ms| Some(Duration::from_millis(ms));
        let mut decide = |second: u64, took| {
            let now = Instant::from_millis(1000 * second + 500);
            log.decide(now, took, &mut random)
        };
        assert_eq!(decide(1, took(4)), Ok(None));
        assert_eq!(decide(1, None), Ok(None));
        for _ in 0..SLOW_LOGGED_PER_SECOND_MAX {
            assert_eq!(decide(1, took(5)), Ok(Some(Why::Slow)));
        }
        assert_eq!(decide(1, took(5)), Err(TooManySlow));
        assert_eq!(decide(1, took(4)), Ok(None));
        assert_eq!(decide(2, took(5)), Ok(Some(Why::Slow)));
    }

    #[test]
    fn nothing_is_logged_by_chance_if_it_is_not_to_be() {
        let (mut log, mut random) = log(0, None);
        for _ in 0..1000 {
            assert!(!log.picks(Some(Duration::from_secs(9))));
            assert_eq!(log.decide(Instant(0), None, &mut random), Ok(None));
            log.pass();
        }
        let (log, _) = self::log(1, None);
        assert!(log.picks(None), "each");
    }
}
