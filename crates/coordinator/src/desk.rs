//! Where everything meets the core: one lock, one clock, and saving before telling.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_types::{Instant, Now};
use tokio::sync::watch;

use crate::api::{CoordinatorCore, HotKeysBoard};
use crate::state_file::StateFile;

/// The coordinator's core with its clock and its state file.
#[derive(Debug)]
pub(crate) struct Desk {
    start: std::time::Instant,
    inner: Mutex<Inner>,
    /// Apart, because nothing of it is saved and nobody waits for it.
    hot_keys: Mutex<HotKeysBoard>,
    /// Changes with each change of a proxy configuration, once that is saved.
    proxy_config_news: watch::Sender<()>,
}

#[derive(Debug)]
struct Inner {
    core: CoordinatorCore,
    /// `None`: the state is kept in memory alone.
    file: Option<StateFile>,
    /// [`CoordinatorCore::revision`] that is in the file; `None` before the first save.
    saved: Option<u64>,
    saves: Saves,
    /// Whether the last save failed.
    failing: bool,
    bad_requests: [u64; BadRequest::ALL.len()],
    unusable_configs: u64,
}

/// Counts of state files written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saves {
    /// Written.
    pub(crate) done: u64,
    /// Failed.
    pub(crate) failed: u64,
}

/// A request that never reached the core, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadRequest {
    BadJson,
    TooLong,
    NotJson,
    NotFound,
    BadMethod,
    Timeout,
}

impl BadRequest {
    pub(crate) const ALL: [BadRequest; 6] = [
        BadRequest::BadJson,
        BadRequest::TooLong,
        BadRequest::NotJson,
        BadRequest::NotFound,
        BadRequest::BadMethod,
        BadRequest::Timeout,
    ];

    /// Its name in metrics and answers; stable.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            BadRequest::BadJson => "bad_json",
            BadRequest::TooLong => "too_long",
            BadRequest::NotJson => "not_json",
            BadRequest::NotFound => "not_found",
            BadRequest::BadMethod => "bad_method",
            BadRequest::Timeout => "timeout",
        }
    }
}

/// The state could not be written, so nothing that depends on it may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsaved;

/// What the metrics show besides the core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    pub(crate) saves: Saves,
    pub(crate) bad_requests: [(BadRequest, u64); BadRequest::ALL.len()],
    /// Configurations of proxies that their judge has turned down.
    pub(crate) unusable_configs: u64,
}

impl Desk {
    /// A desk whose clock began at `start`.
    pub(crate) fn new(
        core: CoordinatorCore,
        file: Option<StateFile>,
        start: std::time::Instant,
    ) -> Self {
        let inner = Inner {
            core,
            file,
            saved: None,
            saves: Saves::default(),
            failing: false,
            bad_requests: [0; BadRequest::ALL.len()],
            unusable_configs: 0,
        };
        Desk {
            start,
            inner: Mutex::new(inner),
            hot_keys: Mutex::default(),
            proxy_config_news: watch::Sender::new(()),
        }
    }

    /// Does something with the core and saves what it changed, before the result is handed out.
    ///
    /// # Errors
    ///
    /// The state cannot be saved now. What was done stays done and is saved with the next call that
    /// succeeds.
    pub(crate) fn decide<T>(
        &self,
        decide: impl FnOnce(&mut CoordinatorCore, Now) -> T,
    ) -> Result<T, Unsaved> {
        let mut inner = self.lock();
        // Read under the lock, so that the core never sees time go backwards.
        let now = self.now();
        let result = decide(&mut inner.core, now);
        inner.save()?;
        Ok(result)
    }

    /// Looks at the core, be it saved or not: for whom nothing depends on it.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&CoordinatorCore, Now, Tally) -> T) -> T {
        let inner = self.lock();
        let tally = Tally {
            saves: inner.saves,
            bad_requests: BadRequest::ALL.map(|kind| (kind, inner.bad_requests[kind as usize])),
            unusable_configs: inner.unusable_configs,
        };
        look(&inner.core, self.now(), tally)
    }

    /// Does something with what proxies tell of hot keys.
    pub(crate) fn share<T>(&self, share: impl FnOnce(&mut HotKeysBoard, Instant) -> T) -> T {
        let mut board = self.hot_keys.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now().monotonic;
        share(&mut board, now)
    }

    /// Tells those who wait for another proxy configuration.
    pub(crate) fn tell_proxy_config(&self) {
        self.proxy_config_news.send_replace(());
    }

    /// Where another proxy configuration is told of.
    pub(crate) fn proxy_config_news(&self) -> watch::Receiver<()> {
        self.proxy_config_news.subscribe()
    }

    /// Counts a request that never reached the core.
    pub(crate) fn count(&self, kind: BadRequest) {
        self.lock().bad_requests[kind as usize] += 1;
    }

    /// Counts a configuration of proxies that cannot be used.
    pub(crate) fn count_unusable_config(&self) {
        self.lock().unusable_configs += 1;
    }

    /// How long until the core wants to be called.
    pub(crate) fn until_deadline(&self) -> std::time::Duration {
        let deadline = self.lock().core.poll_deadline();
        deadline.since(self.now().monotonic)
    }

    fn now(&self) -> Now {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Now {
            monotonic: monotonic(self.start),
            unix: since_1970.map_or(0, |d| u32::try_from(d.as_secs()).unwrap_or(u32::MAX)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The core keeps its invariants between statements that can panic, and a coordinator that
        // answers is better than one that is stuck.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn save(&mut self) -> Result<(), Unsaved> {
        let revision = self.core.revision();
        let Some(file) = &self.file else {
            return Ok(());
        };
        if self.saved == Some(revision) {
            return Ok(());
        }
        let was_failing = self.failing;
        let result = file.save(&self.core.saved_state());
        self.failing = result.is_err();
        let path = file.path().display();
        match result {
            Ok(()) => {
                self.saves.done += 1;
                self.saved = Some(revision);
                if was_failing {
                    eprintln!("evenkeel coordinator: state file {path} is saved again");
                }
                Ok(())
            }
            Err(error) => {
                self.saves.failed += 1;
                if !was_failing {
                    eprintln!(
                        "evenkeel coordinator: cannot save state file {path}: {error}; \
                         no heartbeat is answered until it can be"
                    );
                }
                Err(Unsaved)
            }
        }
    }
}

/// The core's time on a clock that began at `start`.
pub(crate) fn monotonic(start: std::time::Instant) -> Instant {
    Instant(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
