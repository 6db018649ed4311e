//! What the command line and a file say about the log of requests.

use super::reader::{Reader, Section};
use crate::args::Args;
use crate::limits::timeout;
use crate::recorder::Target;
use evenkeel_proxy_core::RequestLogConfig;
use std::path::PathBuf;
use std::time::Duration;

/// The keys of a file that are about it.
pub const LOG_KEYS: [&str; 4] = [
    "request_log",
    "request_log_sample",
    "request_log_slow",
    "request_log_hash_keys",
];

/// Of this many requests one is logged where nothing is said: a busy worker then writes some hundred lines a
/// second.
const SAMPLE: u32 = 1000;

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPlan {
    file: Option<PathBuf>,
    sample: Option<u32>,
    slow: Option<Duration>,
    hash_keys: bool,
}

impl LogPlan {
    /// What the flags say, and of the rest what a file says.
    pub fn merged(args: &Args, file: LogPlan) -> Self {
        LogPlan {
            file: args.request_log.clone().or(file.file),
            sample: args.request_log_sample.or(file.sample),
            slow: args.request_log_slow.or(file.slow),
            hash_keys: args.request_log_hash_keys || file.hash_keys,
        }
    }

    /// Where the log goes; `None` without one.
    pub fn target(&self) -> Option<Target> {
        self.file.as_deref().map(Target::of)
    }

    /// What is logged; `None` without a log.
    pub fn config(&self) -> Option<RequestLogConfig> {
        self.file.as_ref().map(|_| RequestLogConfig {
            sample: self.sample.unwrap_or(SAMPLE),
            slow: self.slow,
            hash_keys: self.hash_keys,
        })
    }
}

/// What a file says.
pub fn request_log(reader: &mut Reader, section: &Section<'_>) -> LogPlan {
    let [file_key, sample_key, slow_key, hash_key] = LOG_KEYS;
    let is_stdout = reader
        .text(section, file_key)
        .is_some_and(|at| at.value == "-");
    let file = if is_stdout {
        Some(PathBuf::from("-"))
    } else if section.has(file_key) {
        reader.path(section, file_key).map(|at| at.value)
    } else {
        None
    };
    let sample = reader.number(section, sample_key, 0..=u32::MAX.into());
    LogPlan {
        file,
        sample: sample.and_then(|at| u32::try_from(at.value).ok()),
        slow: reader.parsed(section, slow_key, timeout).map(|at| at.value),
        hash_keys: reader.flag(section, hash_key),
    }
}
