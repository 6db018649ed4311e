//! What the page is told each second: one snapshot, made once for all who look, as server-sent events.
//!
//! Nothing is made while nobody looks. Who reads too slowly misses snapshots and never gets an old one; who reads nothing at all is
//! [given up](crate::patient).

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::MissedTickBehavior;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;

use crate::answer::{Shared, error};
use crate::desk::{Desk, Unsaved};
use evenkeel_coordinator_core::Snapshot;

/// Time between two snapshots: that between two columns of the history.
const INTERVAL: Duration = Duration::from_secs(1);

/// Viewers at one time: each screen of a team. A snapshot of a hundred servers has some 200 KB, so that all of them take 13 MB a second.
pub(crate) const VIEWERS_MAX: usize = 64;

/// All who look.
#[derive(Debug)]
pub(crate) struct Audience {
    seats: Arc<Semaphore>,
    /// The newest event; `None` while nobody looks.
    newest: Mutex<Option<watch::Sender<Bytes>>>,
}

impl Audience {
    pub(crate) fn new() -> Self {
        Audience {
            seats: Arc::new(Semaphore::new(VIEWERS_MAX)),
            newest: Mutex::default(),
        }
    }

    /// How many look.
    pub(crate) fn len(&self) -> usize {
        VIEWERS_MAX - self.seats.available_permits()
    }

    fn take_seat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.seats).try_acquire_owned().ok()
    }

    /// What comes from now on, beginning with the newest event, and whether somebody has to begin to make events.
    fn join(&self) -> (watch::Receiver<Bytes>, bool) {
        let mut newest = self.lock();
        if let Some(sender) = &*newest {
            return (sender.subscribe(), false);
        }
        let (sender, receiver) = watch::channel(Bytes::new());
        *newest = Some(sender);
        (receiver, true)
    }

    /// Whether anybody still looks. Where nobody does, whoever joins next has events made anew.
    fn is_there(&self) -> bool {
        let mut newest = self.lock();
        newest.take_if(|sender| sender.receiver_count() == 0);
        newest.is_some()
    }

    fn tell(&self, event: Bytes) {
        if let Some(sender) = &*self.lock() {
            sender.send_replace(event);
        }
    }

    /// Ends all streams.
    fn dismiss(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<watch::Sender<Bytes>>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Snapshots until the viewer hangs up, or this coordinator does not lead any more.
pub(crate) async fn snapshots(State(desk): Shared) -> Response {
    let Some(seat) = desk.audience().take_seat() else {
        desk.count_refused_viewer();
        let message = format!("{VIEWERS_MAX} look already; close a page somewhere");
        return error(StatusCode::SERVICE_UNAVAILABLE, "too_many_viewers", message);
    };
    let (receiver, is_first) = desk.audience().join();
    if is_first {
        tokio::spawn(make_events(desk));
    }
    let events = WatchStream::new(receiver).filter_map(move |event| {
        let _kept_until_the_end = &seat;
        (!event.is_empty()).then_some(Ok::<_, Infallible>(event))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    (headers, Body::from_stream(events)).into_response()
}

/// Makes events for as long as anybody looks.
async fn make_events(desk: Arc<Desk>) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if !desk.audience().is_there() {
            return;
        }
        match desk.look(|core, now| core.snapshot(now)).await {
            Ok(snapshot) => desk.audience().tell(event(&snapshot)),
            Err(Unsaved) => return desk.audience().dismiss(),
        }
    }
}

/// A server-sent event. JSON has no line breaks of its own.
fn event(snapshot: &Snapshot) -> Bytes {
    let json = serde_json::to_string(snapshot).unwrap_or_default();
    format!("data: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_made_only_while_somebody_looks() {
        let audience = Audience::new();
        assert!(!audience.is_there());
        let (first, begins) = audience.join();
        assert!(begins && audience.is_there());
        let (second, begins) = audience.join();
        assert!(!begins);
        audience.tell("one".into());
        assert_eq!(&**first.borrow(), b"one");
        // Who comes later sees the newest at once.
        assert_eq!(&**audience.join().0.borrow(), b"one");
        drop(first);
        assert!(audience.is_there());
        drop(second);
        assert!(!audience.is_there());
        assert!(audience.join().1);
    }

    #[test]
    fn seats_are_few_and_free_again_when_somebody_goes() {
        let audience = Audience::new();
        let mut seats: Vec<_> = (0..VIEWERS_MAX).map(|_| audience.take_seat()).collect();
        assert!(seats.iter().all(Option::is_some));
        assert_eq!(
            (audience.len(), audience.take_seat().is_some()),
            (64, false)
        );
        seats.pop();
        assert_eq!((audience.len(), audience.take_seat().is_some()), (63, true));
    }

    #[test]
    fn all_streams_end_with_the_term() {
        let audience = Audience::new();
        let (receiver, _) = audience.join();
        audience.dismiss();
        assert!(receiver.has_changed().is_err());
        assert!(audience.join().1);
    }
}
