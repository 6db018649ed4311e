//! Waking a worker that may be asleep in its poll, without a system call when it is not.

use mio::Waker;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::Sender;

/// The worker may be asleep, or will not look before it sleeps: anyone who notifies it wakes its poll.
const ASLEEP: u8 = 0;
/// The worker looks at its queues before it sleeps.
const AWAKE: u8 = 1;
/// Somebody has notified it since it last looked.
const NOTIFIED: u8 = 2;

/// Wakes one worker. Cheap to clone and to share.
///
/// The order matters: a sender first makes its message visible, then calls [`Notifier::notify`]; the
/// worker's [`Attention`] first takes the notification, then looks for messages, and asks before its
/// poll sleeps. So a message is seen by the look, or keeps the worker from sleeping, or wakes it:
///
/// ```text
///             notify, with a system call             is_called
///   ASLEEP ─────────────────────────────> NOTIFIED ─────────────> AWAKE
///     ▲                                       ▲                   │ │
///     │                                       └───── notify ──────┘ │
///     └───────────────────────── may_sleep ─────────────────────────┘
/// ```
#[derive(Clone, Debug)]
pub struct Notifier {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: AtomicU8,
    waker: Waker,
}

impl Notifier {
    /// Wraps the waker of a worker's poll.
    pub fn new(waker: Waker) -> Self {
        Notifier {
            shared: Arc::new(Shared {
                state: AtomicU8::new(ASLEEP),
                waker,
            }),
        }
    }

    /// Tells the worker to look at its queues. A system call only while it may be asleep.
    pub fn notify(&self) -> io::Result<()> {
        match self.shared.state.swap(NOTIFIED, Ordering::AcqRel) {
            ASLEEP => self.shared.waker.wake(),
            _ => Ok(()),
        }
    }
}

/// The other end of a [`Notifier`]: how its worker listens. A worker that is notified in turn after
/// turn, because others pass commands on to it, spares them the system call while it does not sleep.
#[derive(Debug)]
pub struct Attention {
    notifier: Notifier,
    /// It was notified before its last look.
    was_called: bool,
    /// The state may be [`AWAKE`].
    awake: bool,
}

impl Attention {
    /// Listens to what `notifier` and its clones say. There is one listener for each notifier.
    pub fn new(notifier: Notifier) -> Self {
        Attention {
            notifier,
            was_called: false,
            awake: false,
        }
    }

    /// Whether the worker was told to look at its queues since this was last asked. It must look now, if
    /// so, and ask [`Attention::may_sleep`] before it next sleeps. A plain load while nobody notifies.
    #[inline]
    pub fn is_called(&mut self) -> bool {
        let state = &self.notifier.shared.state;
        let take = || state.swap(AWAKE, Ordering::AcqRel) == NOTIFIED;
        let was_called = self.was_called;
        self.was_called = (was_called || state.load(Ordering::Acquire) == NOTIFIED) && take();
        self.awake |= was_called || self.was_called;
        self.was_called
    }

    /// Whether the worker may sleep in its poll. Not if it was notified since its last look.
    #[inline]
    pub fn may_sleep(&mut self) -> bool {
        let state = &self.notifier.shared.state;
        if self.awake {
            let slept = state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
            self.awake = slept.is_err();
        }
        !self.awake
    }
}

/// How the rest of a process reaches one of its workers: words `W` that the worker takes in its next
/// turn, and gauges `G` that it lets others read without asking it.
#[derive(Debug)]
pub struct WorkerHandle<W, G> {
    /// Its mailbox.
    pub control: Sender<W>,
    /// Wakes it.
    pub notifier: Notifier,
    /// What it shows.
    pub gauges: Arc<G>,
}

impl<W, G> Clone for WorkerHandle<W, G> {
    fn clone(&self) -> Self {
        WorkerHandle {
            control: self.control.clone(),
            notifier: self.notifier.clone(),
            gauges: self.gauges.clone(),
        }
    }
}

impl<W, G> WorkerHandle<W, G> {
    /// Says a word. A worker that is gone needs no more words.
    pub fn say(&self, word: W) {
        if self.control.send(word).is_ok() {
            // A failed wake-up means the poll is gone, and with it the worker.
            let _ = self.notifier.notify();
        }
    }
}
