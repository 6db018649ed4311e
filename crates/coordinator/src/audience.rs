//! Who look at the page, and the newest event that they are told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use tokio::sync::watch;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Viewers at one time: the screens of several teams. Each is sent all of a snapshot every second.
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

    /// A place, if there is one, until it is dropped.
    pub(crate) fn take_seat(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.seats).try_acquire_owned().ok()
    }

    /// What comes from now on, beginning with the newest event, and whether somebody has to begin to make events.
    pub(crate) fn join(&self) -> (watch::Receiver<Bytes>, bool) {
        let mut newest = self.lock();
        if let Some(sender) = &*newest {
            return (sender.subscribe(), false);
        }
        let (sender, receiver) = watch::channel(Bytes::new());
        *newest = Some(sender);
        (receiver, true)
    }

    /// Whether anybody still looks. Where nobody does, anyone who joins next has events made anew.
    pub(crate) fn is_there(&self) -> bool {
        let mut newest = self.lock();
        newest.take_if(|sender| sender.receiver_count() == 0);
        newest.is_some()
    }

    /// What all are told next.
    pub(crate) fn tell(&self, event: Bytes) {
        if let Some(sender) = &*self.lock() {
            sender.send_replace(event);
        }
    }

    /// Ends all streams.
    pub(crate) fn dismiss(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<watch::Sender<Bytes>>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
