//! Where everything meets the core: one lock, one clock, and saving before telling.
//!
//! The lock is held from a decision until what it changed is saved, so that nobody is told of a state that
//! a crash could still take back, and states are saved in the order in which they were made. What counts
//! and tells without the core has locks of its own, and never waits for a save.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_control::access::Denial;
use evenkeel_coordinator_core::limits::TICKS_PER_SILENCE;
use evenkeel_types::map::ServerEntry;
use evenkeel_types::{Instant, Now};
use tokio::sync::OwnedMutexGuard;

use crate::audience::Audience;
use crate::logged::Logged;
use crate::map_text::MapText;
use crate::reach::Reach;
use crate::store::StateStore;
use evenkeel_coordinator_core::{CoordinatorCore, Heartbeat, HeartbeatAnswer, Refusal};
use tracing::{info, warn};

/// A coordinator without a term looks again after this long whether it has one: a core is called that often in
/// its shortest silence.
const TERM_LOOK: std::time::Duration = std::time::Duration::from_millis(30);

/// The coordinator's core with its clock and the place where its state is kept.
#[derive(Debug)]
pub(crate) struct SharedCore {
    start: std::time::Instant,
    slot: Arc<tokio::sync::Mutex<TermSlot>>,
    /// `None`: there is one coordinator, which leads.
    elector: Option<Arc<crate::elector::Elector>>,
    tally: Arc<Mutex<Tally>>,
    reach: Reach,
    audience: Audience,
    map_text: MapText,
}

/// Where a coordinator stands for those who ask it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leadership {
    /// It decides, with this token; 0 when it is the only one.
    Leads(u64),
    /// Another does, at this address.
    Follows(String),
    /// Nobody is known to; why, as far as that is known.
    Leaderless(String),
}

/// What this coordinator decides by, while it leads.
#[derive(Debug, Default)]
struct TermSlot {
    term: Option<Term>,
    /// Greatest token of a term that has begun.
    newest: u64,
}

/// The core, and how far it is saved.
#[derive(Debug)]
struct Term {
    core: CoordinatorCore,
    store: Box<dyn StateStore>,
    /// [`CoordinatorCore::revision`] that the store has; `None` before the first save.
    saved: Option<u64>,
    /// Whether the last save failed.
    failing: bool,
    /// What of it was logged.
    logged: Logged,
}

/// Counts of states saved.
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
    FromPage,
    ForeignHost,
    NotFound,
    BadMethod,
    Timeout,
}

impl BadRequest {
    pub(crate) const ALL: [BadRequest; 8] = [
        BadRequest::BadJson,
        BadRequest::TooLong,
        BadRequest::NotJson,
        BadRequest::FromPage,
        BadRequest::ForeignHost,
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
            BadRequest::FromPage => "from_page",
            BadRequest::ForeignHost => "foreign_host",
            BadRequest::NotFound => "not_found",
            BadRequest::BadMethod => "bad_method",
            BadRequest::Timeout => "timeout",
        }
    }
}

/// The state could not be written, or this coordinator has none: nothing that depends on it may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsaved;

/// What is counted beside the core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) saves: Saves,
    bad_requests: [u64; BadRequest::ALL.len()],
    denials: [u64; Denial::ALL.len()],
    /// Connections on which TLS failed.
    pub(crate) failed_handshakes: u64,
    /// Connections given up whose peers did not read.
    pub(crate) stalled_connections: u64,
    /// Who look at the page now.
    pub(crate) viewers: usize,
    /// Who were one too many.
    pub(crate) refused_viewers: u64,
}

impl Tally {
    /// Requests that never reached the core, by kind.
    pub(crate) fn bad_requests(&self) -> impl Iterator<Item = (BadRequest, u64)> {
        let counts = self.bad_requests;
        BadRequest::ALL
            .into_iter()
            .map(move |kind| (kind, counts[kind as usize]))
    }

    /// Calls of those who did not show what they should, by what that was.
    pub(crate) fn denials(&self) -> impl Iterator<Item = (Denial, u64)> {
        let counts = self.denials;
        Denial::ALL
            .into_iter()
            .map(move |denial| (denial, counts[denial as usize]))
    }
}

impl SharedCore {
    /// A shared core without a term yet.
    pub(crate) fn new() -> Self {
        SharedCore {
            start: std::time::Instant::now(),
            slot: Arc::default(),
            elector: None,
            tally: Arc::default(),
            reach: Reach::new(),
            audience: Audience::new(),
            map_text: MapText::default(),
        }
    }

    /// The same, of a coordinator that is elected.
    pub(crate) fn elected(elector: Arc<crate::elector::Elector>) -> Self {
        SharedCore {
            elector: Some(elector),
            ..SharedCore::new()
        }
    }

    /// Where this coordinator stands at this moment.
    pub(crate) fn leadership(&self) -> Leadership {
        if let Some(elector) = &self.elector {
            return elector.leadership();
        }
        Leadership::Leads(0)
    }

    /// The election, if there is one.
    pub(crate) fn elector(&self) -> Option<&Arc<crate::elector::Elector>> {
        self.elector.as_ref()
    }

    /// Decides by this core from now on, whose state the store has if it `is_saved`. Nothing happens when a term
    /// with a greater token has begun already.
    pub(crate) async fn begin_term(
        &self,
        core: CoordinatorCore,
        store: Box<dyn StateStore>,
        is_saved: bool,
        token: u64,
    ) {
        let mut slot = self.slot.lock().await;
        if token < slot.newest {
            return;
        }
        slot.newest = token;
        slot.term = Some(Term {
            saved: is_saved.then(|| core.revision()),
            core,
            store,
            failing: false,
            logged: Logged::default(),
        });
    }

    /// Decides nothing any more by a term with this token or an older one. What was not saved is forgotten.
    pub(crate) async fn end_term(&self, token: u64) {
        let mut slot = self.slot.lock().await;
        if slot.newest <= token {
            slot.term = None;
        }
    }

    /// Does something with the core and saves what it changed, before the result is handed out.
    ///
    /// # Errors
    ///
    /// The state cannot be saved now, or this coordinator does not lead. What was done stays done and is saved
    /// with the next call that succeeds, unless the term ends before.
    pub(crate) async fn decide<T>(
        &self,
        decide: impl FnOnce(&mut CoordinatorCore, Now) -> T,
    ) -> Result<T, Unsaved> {
        let mut slot = Arc::clone(&self.slot).lock_owned().await;
        let term = slot.term.as_mut().ok_or(Unsaved)?;
        // Read under the lock, so that the core never sees time go backwards.
        let now = self.now();
        let result = decide(&mut term.core, now);
        if term.saved == Some(term.core.revision()) {
            term.logged.catch_up(&term.core);
            return Ok(result);
        }
        // On a task of its own: anyone who asked may hang up in the middle, and half a save must not be
        // left behind for that.
        let tally = Arc::clone(&self.tally);
        let saving = tokio::spawn(save(slot, tally));
        // A save that panics has not said that it is done.
        saving.await.unwrap_or(Err(Unsaved))?;
        Ok(result)
    }

    /// Takes a member's report, once it is known that its process is there.
    ///
    /// # Errors
    ///
    /// As [`decide`](Self::decide).
    pub(crate) async fn handle(
        &self,
        heartbeat: &Heartbeat,
    ) -> Result<Result<HeartbeatAnswer, Refusal>, Unsaved> {
        let is_doubted =
            |core: &CoordinatorCore, now: Now| core.is_doubted(now.monotonic, heartbeat);
        if self.look(is_doubted).await?
            && let Err(refusal) = self.reach.look_for(heartbeat.into()).await
        {
            let count = |core: &mut CoordinatorCore, _| core.count_refusal(&refusal);
            self.decide(count).await?;
            return Ok(Err(refusal));
        }
        self.decide(|core, now| core.handle_heartbeat(now, heartbeat))
            .await
    }

    /// Says hello to a server that is not heard of, and tells the core of its answer.
    async fn reach(&self, server: ServerEntry) {
        if self.reach.look_for((&server).into()).await.is_ok() {
            let reached = |core: &mut CoordinatorCore, now: Now| {
                core.handle_reached(now.monotonic, server.id, server.boot);
            };
            // A term that is over has no use for it.
            let _ = self.decide(reached).await;
        }
    }

    /// Says hello to the servers that are not heard of, each on a task of its own: nobody waits for them. Gives the time
    /// until that is to be done again.
    pub(crate) async fn reach_unheard(self: &Arc<Self>) -> std::time::Duration {
        let looked = self.look(|core, now| {
            let unheard: Vec<ServerEntry> = core.unheard(now.monotonic).cloned().collect();
            (unheard, core.config().silent / TICKS_PER_SILENCE)
        });
        let Ok((unheard, again)) = looked.await else {
            return TERM_LOOK;
        };
        for server in unheard {
            let shared = Arc::clone(self);
            tokio::spawn(async move { shared.reach(server).await });
        }
        again
    }

    /// Looks at the core, be it saved or not: for whom nothing depends on it.
    ///
    /// # Errors
    ///
    /// This coordinator does not lead.
    pub(crate) async fn look<T>(
        &self,
        look: impl FnOnce(&CoordinatorCore, Now) -> T,
    ) -> Result<T, Unsaved> {
        let slot = self.slot.lock().await;
        let term = slot.term.as_ref().ok_or(Unsaved)?;
        Ok(look(&term.core, self.now()))
    }

    /// What was counted so far.
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            viewers: self.audience.len(),
            ..*lock(&self.tally)
        }
    }

    /// The newest map as it is told.
    pub(crate) fn map_text(&self) -> &MapText {
        &self.map_text
    }

    /// Who look at the page.
    pub(crate) fn audience(&self) -> &Audience {
        &self.audience
    }

    /// Counts a request that never reached the core.
    pub(crate) fn count(&self, kind: BadRequest) {
        lock(&self.tally).bad_requests[kind as usize] += 1;
    }

    /// Counts a call of somebody who did not show what it takes.
    pub(crate) fn count_denial(&self, denial: Denial) {
        lock(&self.tally).denials[denial as usize] += 1;
    }

    /// Counts a connection on which TLS failed.
    pub(crate) fn count_failed_handshake(&self) {
        lock(&self.tally).failed_handshakes += 1;
    }

    /// Counts a connection that was given up because its peer did not read.
    pub(crate) fn count_stalled_connection(&self) {
        lock(&self.tally).stalled_connections += 1;
    }

    /// Counts somebody who wanted to look at the page and was one too many.
    pub(crate) fn count_refused_viewer(&self) {
        lock(&self.tally).refused_viewers += 1;
    }

    /// How long until the core wants to be called; without a core, until there may be one.
    pub(crate) async fn until_deadline(&self) -> std::time::Duration {
        match self
            .look(|core, now| core.poll_deadline().since(now.monotonic))
            .await
        {
            Ok(wait) => wait,
            Err(Unsaved) => TERM_LOOK,
        }
    }

    pub(crate) fn now(&self) -> Now {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Now {
            monotonic: Instant(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            unix: since_1970.map_or(0, |d| u32::try_from(d.as_secs()).unwrap_or(u32::MAX)),
        }
    }
}

/// Counts and boards are sound between any two statements, and a coordinator that answers is better than
/// one that is stuck.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Saves the core's state; the first failure in a row and the end of failures are said on standard error.
async fn save(
    mut slot: OwnedMutexGuard<TermSlot>,
    tally: Arc<Mutex<Tally>>,
) -> Result<(), Unsaved> {
    let term = slot.term.as_mut().ok_or(Unsaved)?;
    let revision = term.core.revision();
    let was_failing = term.failing;
    let result = term.store.save(&term.core.saved_state()).await;
    term.failing = result.is_err();
    let place = term.store.place();
    match result {
        Ok(()) => {
            lock(&tally).saves.done += 1;
            term.saved = Some(revision);
            term.logged.catch_up(&term.core);
            if was_failing {
                info!("{place} is saved again");
            }
            Ok(())
        }
        Err(error) => {
            lock(&tally).saves.failed += 1;
            if !was_failing {
                warn!(
                    "cannot save {place}: {error}; \
                     no heartbeat is answered until it can be"
                );
            }
            Err(Unsaved)
        }
    }
}

/// Differs between any two coordinators that ever serve one cluster, unless they start within a
/// microsecond. Below 2^53, so that every JSON reader keeps it exact.
pub(crate) fn new_lineage() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since_1970.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX));
    micros % (1 << 53)
}
