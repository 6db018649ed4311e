//! The queues between workers: a bounded single-producer, single-consumer ring for each ordered
//! pair, so that no two producers ever meet on a cache line.
//!
//! A full ring refuses the message; the sender keeps it and tries again in a later turn. A worker
//! never blocks on another, so two workers that fill each other's rings both go on draining.

use crate::Notifier;
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::io;

/// One worker's ends of all queues to and from the other workers.
#[derive(Debug)]
pub struct MeshPort<M> {
    /// To worker `i`; `None` at this worker's own index.
    to: Vec<Option<Producer<M>>>,
    /// From worker `i`; `None` at this worker's own index.
    from: Vec<Option<Consumer<M>>>,
    notifiers: Vec<Notifier>,
    /// Workers that were sent something since the last [`MeshPort::notify`].
    unnotified: Vec<bool>,
}

/// Makes the queues between `notifiers.len()` workers, each with room for `capacity` messages.
/// The port at index `i` belongs to the worker that `notifiers[i]` wakes.
pub fn mesh<M>(notifiers: &[Notifier], capacity: usize) -> Vec<MeshPort<M>> {
    let count = notifiers.len();
    let mut ports: Vec<MeshPort<M>> = (0..count)
        .map(|_| MeshPort {
            to: (0..count).map(|_| None).collect(),
            from: (0..count).map(|_| None).collect(),
            notifiers: notifiers.to_vec(),
            unnotified: vec![false; count],
        })
        .collect();
    for sender in 0..count {
        for receiver in (0..count).filter(|&receiver| receiver != sender) {
            let (producer, consumer) = RingBuffer::new(capacity);
            ports[sender].to[receiver] = Some(producer);
            ports[receiver].from[sender] = Some(consumer);
        }
    }
    ports
}

impl<M> MeshPort<M> {
    /// Puts a message into the queue to a worker, or gives it back when the queue is full.
    ///
    /// # Panics
    /// When `worker` is this worker itself or does not exist.
    pub fn send(&mut self, worker: usize, message: M) -> Result<(), M> {
        let producer = self.to[worker]
            .as_mut()
            .expect("a worker sends only to other workers");
        self.unnotified[worker] = true;
        producer
            .push(message)
            .map_err(|PushError::Full(message)| message)
    }

    /// Wakes every worker that was sent something since the last call. Once for each turn.
    pub fn notify(&mut self) -> io::Result<()> {
        for (worker, pending) in self.unnotified.iter_mut().enumerate() {
            if core::mem::take(pending) {
                self.notifiers[worker].notify()?;
            }
        }
        Ok(())
    }

    /// Takes the next message of one sender, if there is one.
    pub fn receive(&mut self, from: usize) -> Option<M> {
        self.from.get_mut(from)?.as_mut()?.pop().ok()
    }

    /// Number of workers in the mesh, this one included.
    pub fn workers(&self) -> usize {
        self.to.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Attention;
    use mio::{Events, Poll, Token, Waker};
    use std::time::Duration;

    const COUNT: u64 = 20_000;

    /// Two workers send each other numbers through tiny rings, sleeping in their polls when there
    /// is nothing to do: nothing is lost, nothing changes order, nobody sleeps through a message.
    #[test]
    fn two_workers_exchange_messages_in_order_and_wake_each_other() {
        let polls: Vec<Poll> = (0..2).map(|_| Poll::new().expect("a poll")).collect();
        let notifiers: Vec<Notifier> = polls
            .iter()
            .map(|poll| Notifier::new(Waker::new(poll.registry(), Token(0)).expect("a waker")))
            .collect();
        let ports = mesh::<u64>(&notifiers, 8);
        let threads: Vec<_> = ports
            .into_iter()
            .zip(polls)
            .enumerate()
            .map(|(me, (mut port, mut poll))| {
                let mut attention = Attention::new(notifiers[me].clone());
                std::thread::spawn(move || {
                    let other = 1 - me;
                    let mut events = Events::with_capacity(4);
                    let (mut sent, mut received) = (0, 0);
                    while received < COUNT || sent < COUNT {
                        while sent < COUNT && port.send(other, sent).is_ok() {
                            sent += 1;
                        }
                        port.notify().expect("a wake-up");
                        attention.is_called();
                        let before = received;
                        while let Some(message) = port.receive(other) {
                            assert_eq!(message, received);
                            received += 1;
                        }
                        // A full ring is tried again without being woken: only its reader knows.
                        let waits = before == received && sent == COUNT && received < COUNT;
                        if waits && attention.may_sleep() {
                            poll.poll(&mut events, Some(OVERSLEPT)).expect("poll");
                            assert!(!events.is_empty(), "slept through a message");
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic in a worker");
        }
    }

    /// A worker that is still asleep after this time missed a wake-up.
    const OVERSLEPT: Duration = Duration::from_secs(60);

    #[test]
    fn a_full_queue_gives_the_message_back() {
        let poll = Poll::new().expect("a poll");
        let waker = Notifier::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        let mut ports = mesh::<u8>(&[waker.clone(), waker], 1);
        assert_eq!(ports[0].send(1, 7), Ok(()));
        assert_eq!(ports[0].send(1, 8), Err(8));
        assert_eq!(ports[1].receive(0), Some(7));
        assert_eq!(ports[0].send(1, 8), Ok(()));
    }
}
