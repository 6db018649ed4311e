//! The log of requests: one of this many by chance, and each that took too long.
//!
//! A request is looked at when its server has answered it, or when it is given up: by then everything is
//! known of it, and its bytes are still there. What is to be logged is an [`Output`] for the driver, who knows
//! the client's address and the file. Without a log there is one look at [`ProxyCore::log`] for each answer.
//!
//! The quick way leaves a request that will be logged to the way proper ([`RequestLog::picks`]).

use crate::composed::parse_own;
use crate::config::RequestLogConfig;
use crate::logged::LoggedRequest;
use crate::pipe::in_flight::Tag;
use crate::random::Random;
use core::time::Duration;
use evenkeel_hotkeys::plain::NAME_PREFIX_LEN;
use evenkeel_protocol::{Direction, KeyScratch, Meta, Request, StoreVerb, base64};
use evenkeel_schemes::copies;
use evenkeel_schemes::generation::taken_apart;
use evenkeel_types::{Instant, KeyHash};

/// Most slow requests that one worker logs in a second: when a server stalls, all its requests are slow, and
/// the first hundred say what the others would.
pub const SLOW_LOGGED_PER_SECOND_MAX: u32 = 100;

/// Why a request is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
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
pub(crate) struct TooManySlow;

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
    pub fn new(config: RequestLogConfig, random: &mut Random) -> Self {
        RequestLog {
            config,
            left: gap(config.sample, random),
            second: (0, 0),
        }
    }

    /// How it is configured.
    pub fn config(&self) -> &RequestLogConfig {
        &self.config
    }

    /// Whether the next request that is answered will be logged, if it took this long.
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
    pub fn decide(
        &mut self,
        now: Instant,
        took: Option<Duration>,
        random: &mut Random,
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
fn gap(mean: u32, random: &mut Random) -> u32 {
    match u64::from(mean) {
        0 => 0,
        mean => u32::try_from(1 + random.u64() % (2 * mean - 1)).unwrap_or(u32::MAX),
    }
}

/// What is seen of a request when it is over.
#[derive(Debug)]
pub(crate) struct Seen {
    pub why: Why,
    pub server: Option<String>,
    pub outcome: &'static str,
    pub hits: Option<usize>,
    pub error: Option<String>,
    pub request_bytes: usize,
    pub answer_bytes: usize,
    pub queue: Option<Duration>,
    pub answer: Option<Duration>,
    pub took: Option<Duration>,
    pub collapsed: u32,
    pub failover: bool,
}

impl Seen {
    /// As it is logged.
    pub fn logged(
        self,
        asked: Asked,
        tag: &Tag,
        hash_keys: bool,
        (route, pool): (String, String),
    ) -> LoggedRequest {
        // Names of a ring and of copies are the proxy's affair.
        let key = match asked.key.split_at_checked(copies::PREFIX_LEN) {
            Some((prefix, key)) if copies::is_copy(prefix) => key,
            _ => taken_apart(&asked.key).1,
        };
        let key_hash = hash_keys.then(|| format!("{:016x}", KeyHash::of(key).0));
        let (key, key_base64) = match String::from_utf8(key.to_vec()) {
            _ if hash_keys => (None, None),
            Ok(key) => (Some(key), None),
            Err(error) => {
                let mut encoded = Vec::new();
                base64::encode(error.as_bytes(), &mut encoded);
                (None, String::from_utf8(encoded).ok())
            }
        };
        LoggedRequest {
            client: tag.client,
            why: self.why.word(),
            command: asked.command,
            key,
            key_base64,
            key_hash,
            keys: asked.keys,
            hits: self.hits,
            route,
            pool,
            server: self.server,
            outcome: self.outcome,
            error: self.error,
            request_bytes: self.request_bytes,
            answer_bytes: self.answer_bytes,
            queue_us: self.queue.map(micros),
            answer_us: self.answer.map(micros),
            took_us: self.took.map(micros),
            collapsed: self.collapsed,
            retries: tag.retries.into(),
            failover: self.failover,
            replica: tag.is_replica,
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What a request asks.
#[derive(Debug)]
pub(crate) struct Asked {
    command: &'static str,
    /// The first key, as it is stored.
    pub key: Vec<u8>,
    keys: usize,
}

impl Asked {
    /// Reads a request that the proxy has composed for a pool of plain servers, or of Evenkeel servers.
    pub fn of(question: &[u8], tag: &Tag, is_plain: bool) -> Asked {
        let one = |command, key: &[u8]| Asked {
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
            Some(Request::Get { keys, with_cas }) => Asked {
                command: if with_cas { "gets" } else { "get" },
                key: keys.iter().next().unwrap_or_default().to_vec(),
                keys: keys.iter().count(),
            },
            Some(Request::GetAndTouch { keys, with_cas, .. }) => Asked {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn log(sample: u32, slow_ms: Option<u64>) -> (RequestLog, Random) {
        let mut random = Random::new(3);
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
