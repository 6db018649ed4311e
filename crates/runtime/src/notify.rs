//! Waking a worker that may be asleep in its poll, without a system call when it is not.

use mio::Waker;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// Wakes one worker. Cheap to clone and to share.
///
/// The order matters: a sender first makes its message visible, then calls [`Notifier::notify`];
/// the worker first calls [`Notifier::take`], then looks for messages. So a message is either seen
/// by the look, or its notification finds the flag cleared and wakes the poll.
#[derive(Clone, Debug)]
pub struct Notifier {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// True from the first notification until the worker looks.
    notified: AtomicBool,
    waker: Waker,
}

impl Notifier {
    /// Wraps the waker of a worker's poll.
    pub fn new(waker: Waker) -> Self {
        Notifier {
            shared: Arc::new(Shared {
                notified: AtomicBool::new(false),
                waker,
            }),
        }
    }

    /// Tells the worker to look at its queues. One system call at most per look.
    pub fn notify(&self) -> io::Result<()> {
        if self.shared.notified.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.shared.waker.wake()
    }

    /// Whether the worker was told to look at its queues since it last asked. It must look now, if so;
    /// otherwise nothing new is there. A plain load while nobody notifies.
    #[inline]
    pub fn take(&self) -> bool {
        let notified = &self.shared.notified;
        notified.load(Ordering::Acquire) && notified.swap(false, Ordering::AcqRel)
    }

    /// The worker is about to look at its queues.
    pub fn clear(&self) {
        self.shared.notified.swap(false, Ordering::AcqRel);
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
