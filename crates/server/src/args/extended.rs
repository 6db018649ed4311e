//! The options of `-o`: a list of names, some with a value, separated by commas.
//!
//! Each name of memcached 1.6.45 is in one of three families. What has a meaning here is in
//! [`Extended`]. What is a matter of slabs, LRU lists, hash table growth or external storage is
//! accepted with a warning, so that a command line that runs today runs here. What is neither stops
//! the start, as it does in memcached: a misspelled `ssl_verify_mode` must not pass for one.

use super::nearest::did_you_mean;
use crate::budget::{ANSWER_BYTES_MAX, INPUT_BYTES_MAX};
use evenkeel_runtime::{GivenOption, TlsOptions, UsageError};
use std::time::Duration;

/// Options without effect: slabs, LRU lists, the hash table, external storage.
const IGNORED: &[&str] = &[
    "hashpower",
    "hash_algorithm",
    "no_hashexpand",
    "tail_repair_time",
    "modern",
    "no_modern",
    "relaxed_privileges",
    "drop_privileges",
    "no_drop_privileges",
    "hot_lru_pct",
    "warm_lru_pct",
    "hot_max_factor",
    "warm_max_factor",
    "temporary_ttl",
    "inline_ascii_resp",
    "no_inline_ascii_resp",
    "no_lru_crawler",
    "no_lru_maintainer",
    "no_maxconns_reserved",
    "sock_cookie_id",
    "ssl_wbuf_size",
    "ssl_kernel_tls",
];

/// Families of options without effect.
const IGNORED_PREFIXES: &[&str] = &["slab_", "no_slab_", "lru_", "ext_"];

/// Options with an effect, for suggestions.
const HONOURED: &[&str] = &[
    "maxconns_fast",
    "no_maxconns_fast",
    "idle_timeout",
    "read_buf_mem_limit",
    "resp_obj_mem_limit",
    "track_sizes",
    "watcher_logbuf_size",
    "worker_logbuf_size",
    "ssl_chain_cert",
    "ssl_key",
    "ssl_keyformat",
    "ssl_ca_cert",
    "ssl_verify_mode",
    "ssl_min_version",
    "ssl_ciphers",
    "ssl_session_cache",
];

/// memcached's default of `-o watcher_logbuf_size`, in bytes.
const WATCHER_LOGBUF_BYTES: usize = 256 << 10;

/// memcached's default of `-o worker_logbuf_size`, in bytes.
const WORKER_LOGBUF_BYTES: usize = 64 << 10;

/// What `-o` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    /// Over the limit of `-c`, tell a client so and close it; otherwise it waits in the backlog.
    pub maxconns_fast: bool,
    /// Close a connection that has been idle for this long; zero never.
    pub idle_timeout: Duration,
    /// What `read_buf_mem_limit` says, in bytes.
    pub read_buf_limit: Option<usize>,
    /// What `resp_obj_mem_limit` says, in bytes.
    pub response_limit: Option<usize>,
    /// Keep the histogram of `stats sizes`.
    pub track_sizes: bool,
    /// Bytes that wait for one watcher.
    pub watcher_logbuf_bytes: usize,
    /// Bytes of log lines that wait in one worker.
    pub worker_logbuf_bytes: usize,
    /// TLS.
    pub tls: TlsOptions,
}

impl Default for Extended {
    fn default() -> Self {
        Extended {
            maxconns_fast: true,
            idle_timeout: Duration::ZERO,
            read_buf_limit: None,
            response_limit: None,
            track_sizes: false,
            watcher_logbuf_bytes: WATCHER_LOGBUF_BYTES,
            worker_logbuf_bytes: WORKER_LOGBUF_BYTES,
            tls: TlsOptions::default(),
        }
    }
}

impl Extended {
    /// Reads all `-o` of a command line, in order; a later one wins. Gives the warnings to print too.
    ///
    /// # Errors
    /// Names the option that is unknown or has no usable value.
    pub fn parse(lists: &[String]) -> Result<(Extended, Vec<String>), UsageError> {
        let mut extended = Extended::default();
        let mut warnings = Vec::new();
        let options = lists.iter().flat_map(|list| list.split(','));
        for option in options.map(str::trim).filter(|option| !option.is_empty()) {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (option, None),
            };
            if extended.take(name, value, &mut warnings)? {
                continue;
            }
            let ignored = IGNORED.contains(&name)
                || IGNORED_PREFIXES
                    .iter()
                    .any(|prefix| name.starts_with(prefix));
            if ignored {
                warnings.push(format!("-o {name} has no meaning here and is ignored"));
            } else {
                let known = HONOURED.iter().chain(IGNORED).copied();
                return Err(UsageError(format!(
                    "-o {name}: unknown option{}",
                    did_you_mean(name, known)
                )));
            }
        }
        Ok((extended, warnings))
    }

    /// Most bytes of input that all connections may hold; zero without limit. Items may have
    /// `item_size_max` bytes: two of the largest may be on their way at once.
    pub fn read_buf_bytes_max(&self, item_size_max: usize) -> usize {
        self.read_buf_limit
            .unwrap_or(INPUT_BYTES_MAX.max(2 * item_size_max))
    }

    /// Likewise of answers.
    pub fn response_bytes_max(&self, item_size_max: usize) -> usize {
        self.response_limit
            .unwrap_or(ANSWER_BYTES_MAX.max(2 * item_size_max))
    }

    /// Takes in one option. False when it has no meaning here.
    fn take(
        &mut self,
        name: &str,
        value: Option<&str>,
        warnings: &mut Vec<String>,
    ) -> Result<bool, UsageError> {
        let option = GivenOption { name, value };
        let tls = &mut self.tls;
        match name {
            "maxconns_fast" => self.maxconns_fast = true,
            "no_maxconns_fast" => self.maxconns_fast = false,
            "idle_timeout" => {
                self.idle_timeout = Duration::from_secs(option.number(0, u32::MAX.into())?);
            }
            "read_buf_mem_limit" => self.read_buf_limit = Some(option.megabytes()?),
            "resp_obj_mem_limit" => self.response_limit = Some(option.megabytes()?),
            "track_sizes" => self.track_sizes = true,
            "watcher_logbuf_size" => self.watcher_logbuf_bytes = option.kilobytes()?,
            "worker_logbuf_size" => self.worker_logbuf_bytes = option.kilobytes()?,
            _ => return tls.take(&option, warnings),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &str) -> Result<(Extended, Vec<String>), UsageError> {
        Extended::parse(&[options.to_owned()])
    }

    #[test]
    fn options_with_a_meaning_are_honoured_and_a_later_one_wins() {
        let (extended, warnings) = parse(
            "idle_timeout=5,no_maxconns_fast,track_sizes,read_buf_mem_limit=2,resp_obj_mem_limit=3,\
             watcher_logbuf_size=8,worker_logbuf_size=4,idle_timeout=7,ssl_verify_mode=2,\
             ssl_chain_cert=c.pem,ssl_key=k.pem,ssl_ca_cert=a.pem,ssl_session_cache,ssl_ciphers=X:Y",
        )
        .expect("sound");
        assert_eq!(warnings, Vec::<String>::new());
        let expected = Extended {
            maxconns_fast: false,
            idle_timeout: Duration::from_secs(7),
            read_buf_limit: Some(2 << 20),
            response_limit: Some(3 << 20),
            track_sizes: true,
            watcher_logbuf_bytes: 8 << 10,
            worker_logbuf_bytes: 4 << 10,
            tls: TlsOptions {
                chain_cert: Some("c.pem".into()),
                key: Some("k.pem".into()),
                ca_cert: Some("a.pem".into()),
                verify_mode: 2,
                min_version: None,
                ciphers: Some("X:Y".into()),
                session_cache: true,
            },
        };
        assert_eq!(extended, expected);
    }

    #[test]
    fn options_without_a_meaning_warn_once_each() {
        let (extended, warnings) =
            parse("slab_reassign,no_slab_reassign,hashpower=20,ext_path=/x:1G,lru_crawler,modern")
                .expect("accepted");
        assert_eq!(extended, Extended::default());
        assert_eq!(warnings.len(), 6);
    }

    #[test]
    fn old_versions_of_tls_are_raised_with_a_warning() {
        let (extended, warnings) = parse("ssl_min_version=0").expect("accepted");
        assert_eq!((extended.tls.min_version, warnings.len()), (Some(2), 1));
        let (extended, warnings) = parse("ssl_min_version=3").expect("accepted");
        assert_eq!((extended.tls.min_version, warnings.len()), (Some(3), 0));
    }

    #[test]
    fn unknown_options_stop_the_start_with_a_suggestion() {
        let error = parse("idle_timout=5").expect_err("misspelled");
        assert!(error.0.contains("idle_timout"), "{error}");
        assert!(error.0.contains("did you mean idle_timeout?"), "{error}");
    }

    #[test]
    fn values_that_cannot_be_used_are_named() {
        for option in [
            "idle_timeout",
            "idle_timeout=x",
            "idle_timeout=-1",
            "ssl_verify_mode=4",
            "ssl_min_version=4",
            "ssl_chain_cert",
            "ssl_chain_cert=",
            "ssl_keyformat=DER",
            "watcher_logbuf_size=0",
            "read_buf_mem_limit=99999999999",
        ] {
            let name = option.split('=').next().expect("a name");
            let error = parse(option).expect_err(option);
            assert!(error.0.contains(name), "{option}: {error}");
        }
    }
}
