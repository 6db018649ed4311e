//! The ring: hands operations to the kernel and says what their completions mean.

use super::buffers::{GROUP, Piece, ReceiveBuffers};
use super::setup::{self, Refused, RingConfig};
use super::socket::{
    Event, GENERATION_MASK, Holder, Kind, NOBODY, Place, Receiving, Sending, Socket, Urgency,
    outcome, parse_user_data, user_data,
};
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, shutdown};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Buffers of completed sends kept for the next ones.
const SPARES_MAX: usize = 64;

/// A spare buffer larger than this is given back to the allocator.
const SPARE_BYTES_MAX: usize = 64 * 1024;

/// A longer send goes out in parts of this size: the kernel counts in 32 bits.
const SEND_BYTES_MAX: usize = 1 << 30;

/// How often [`Ring::drop`] waits for operations to end before it gives up and leaks their memory.
const DROP_WAITS: usize = 100;

/// One of those waits.
const DROP_WAIT: Duration = Duration::from_millis(20);

/// Counters of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStats {
    /// System calls: one for each turn, if all goes well.
    pub enters: u64,
    /// Receives that found no free buffer and were asked for again, since [`Ring::take_starved`].
    pub starved: u64,
    /// Times that a send had to wait for room in its socket.
    pub blocked: u64,
}

/// An io_uring and the sockets it serves. Belongs to one thread.
pub struct Ring {
    /// Comes first: it goes before the memory that it uses.
    kernel: IoUring,
    buffers: ReceiveBuffers,
    places: Vec<Place>,
    free: Vec<u32>,
    /// Places whose receive is to be asked for in the next wait.
    lapsed: Vec<u32>,
    /// Completions taken from the kernel and not yet looked at.
    completions: VecDeque<cqueue::Entry>,
    /// Operations that found the submission queue full.
    backlog: VecDeque<squeue::Entry>,
    watched: Option<OwnedFd>,
    /// The watch is under way.
    watching: bool,
    /// It has ended, and nobody was told yet.
    watch_ended: bool,
    /// Receives, sends and watches that have been asked for and have not ended.
    under_way: usize,
    /// Sends of this turn that complete while they are handed over, and that nobody waits for.
    silent: usize,
    spares: Vec<Vec<u8>>,
    stats: RingStats,
    enabled: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("sockets", &(self.places.len() - self.free.len()))
            .field("under_way", &self.under_way)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// Makes a ring, on any thread.
    ///
    /// # Errors
    /// [`Refused`] says why there is none.
    pub fn new(config: RingConfig) -> Result<Ring, Refused> {
        let (kernel, buffers) = setup::make(config)?;
        Ok(Ring {
            kernel,
            buffers,
            places: Vec::new(),
            free: Vec::new(),
            lapsed: Vec::new(),
            completions: VecDeque::new(),
            backlog: VecDeque::new(),
            watched: None,
            watching: false,
            watch_ended: false,
            under_way: 0,
            silent: 0,
            spares: Vec::new(),
            stats: RingStats::default(),
            enabled: false,
        })
    }

    /// Takes the ring into use: from here on it belongs to the calling thread.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn enable(&mut self) -> io::Result<()> {
        self.kernel.submitter().register_enable_rings()?;
        self.enabled = true;
        Ok(())
    }

    /// Has [`Ring::wait`] return, and [`Ring::take_watched`] say so, when the descriptor has something
    /// to read. There is one at most.
    ///
    /// # Errors
    /// When the descriptor cannot be duplicated.
    pub fn watch(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        self.watched = Some(descriptor.try_clone_to_owned()?);
        Ok(())
    }

    /// Takes a connected socket. Its events carry the tag.
    pub fn add(&mut self, descriptor: OwnedFd, tag: u32) -> Socket {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                holder: None,
            });
            u32::try_from(self.places.len() - 1).expect("descriptors are counted in 31 bits")
        });
        let entry = &mut self.places[place as usize];
        entry.holder = Some(Holder {
            descriptor,
            tag,
            receiving: Receiving::Off,
            sending: None,
            closing: false,
        });
        Socket {
            place,
            generation: entry.generation,
        }
    }

    /// Asks for whatever the peer sends, until [`Ring::pause`].
    pub fn receive(&mut self, socket: Socket) {
        let Some(holder) = self.holder(socket) else {
            return;
        };
        match holder.receiving {
            Receiving::Off => {
                holder.receiving = Receiving::Lapsed;
                self.lapsed.push(socket.place);
            }
            Receiving::Stopping { .. } => holder.receiving = Receiving::Stopping { again: true },
            Receiving::On | Receiving::Lapsed => {}
        }
    }

    /// Asks for no more bytes. Some may still come: those that the kernel had received already.
    pub fn pause(&mut self, socket: Socket) {
        let Some(holder) = self.holder(socket) else {
            return;
        };
        match holder.receiving {
            Receiving::On => {
                holder.receiving = Receiving::Stopping { again: false };
                self.cancel(Kind::Receive, socket);
            }
            Receiving::Stopping { .. } => holder.receiving = Receiving::Stopping { again: false },
            Receiving::Lapsed => holder.receiving = Receiving::Off,
            Receiving::Off => {}
        }
    }

    /// Sends all of `bytes`. Nothing may be under way: an earlier send was reported as done.
    ///
    /// # Panics
    /// When a send is under way.
    pub fn send(&mut self, socket: Socket, bytes: Vec<u8>, urgency: Urgency) {
        let Some(holder) = self.holder(socket).filter(|_| !bytes.is_empty()) else {
            return;
        };
        assert!(holder.sending.is_none(), "one send at a time");
        holder.sending = Some(Sending { bytes, sent: 0 });
        self.silent += usize::from(urgency == Urgency::Whenever);
        // Completes at once, with what the socket has room for.
        self.push_send(socket, SendFlags::DONTWAIT);
    }

    /// An empty buffer to compose the next send in: that of an earlier one, if there is one.
    pub fn spare(&mut self) -> Vec<u8> {
        self.spares.pop().unwrap_or_default()
    }

    /// Keeps a buffer, whose bytes are of no more use, for [`Ring::spare`].
    pub fn keep_spare(&mut self, mut bytes: Vec<u8>) {
        if (1..=SPARE_BYTES_MAX).contains(&bytes.capacity()) && self.spares.len() < SPARES_MAX {
            bytes.clear();
            self.spares.push(bytes);
        }
    }

    /// Ends a socket: nothing is reported of it any more. What was to be sent and has not been taken by
    /// the kernel is lost.
    pub fn close(&mut self, socket: Socket) {
        self.pause(socket);
        let Some(holder) = self.holder(socket) else {
            return;
        };
        holder.closing = true;
        if holder.sending.is_some() {
            self.cancel(Kind::Send, socket);
        }
        self.release_if_idle(socket.place);
    }

    /// Hands over what was asked for, and waits until something has happened, at most for `timeout`.
    ///
    /// # Errors
    /// Those of the kernel that concern the ring itself.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        self.ask_again();
        loop {
            let whole = self.fill_submissions();
            let news = self.watch_ended || !self.completions.is_empty();
            let want = match whole && !news && !timeout.is_zero() {
                // The silent sends complete while they are handed over, so that one more completion
                // is news.
                true => core::mem::take(&mut self.silent) + 1,
                false => 0,
            };
            if want > 0 || self.has_work() {
                self.enter(want, timeout)?;
            }
            self.take_completions();
            if whole {
                self.silent = 0;
                return Ok(());
            }
        }
    }

    /// Whether the watched descriptor had something to read. It is watched again from the next wait on,
    /// so that what is left in it then is reported again.
    pub fn take_watched(&mut self) -> bool {
        core::mem::take(&mut self.watch_ended)
    }

    /// What has happened, in the order in which the kernel says so. Call until `None`.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let completion = self.completions.pop_front()?;
            if let Some(event) = self.understand(&completion) {
                return Some(event);
            }
        }
    }

    /// Received bytes.
    ///
    /// # Panics
    /// When they were recycled already.
    #[inline]
    pub fn bytes(&self, piece: Piece) -> &[u8] {
        self.buffers.bytes(piece)
    }

    /// Gives the buffer of received bytes back.
    ///
    /// # Panics
    /// When it was given back already.
    #[inline]
    pub fn recycle(&mut self, piece: Piece) {
        self.buffers.recycle(piece);
    }

    /// How many receives found no free buffer since the last call, and were asked for again.
    #[inline]
    pub fn take_starved(&mut self) -> u64 {
        core::mem::take(&mut self.stats.starved)
    }

    /// Counters.
    pub fn stats(&self) -> RingStats {
        self.stats
    }

    /// Sockets that are open, or whose last operation has not ended yet.
    pub fn sockets(&self) -> usize {
        self.places.len() - self.free.len()
    }

    fn open_sockets(&self) -> Vec<Socket> {
        (0..)
            .zip(&self.places)
            .filter(|(_, entry)| entry.holder.is_some())
            .map(|(place, entry)| Socket {
                place,
                generation: entry.generation,
            })
            .collect()
    }

    fn holder(&mut self, socket: Socket) -> Option<&mut Holder> {
        let place = self.places.get_mut(socket.place as usize)?;
        let holder = place.holder.as_mut()?;
        (place.generation == socket.generation && !holder.closing).then_some(holder)
    }

    /// Asks for the receives that lapsed, and for the watch.
    fn ask_again(&mut self) {
        let mut lapsed = core::mem::take(&mut self.lapsed);
        for place in lapsed.drain(..) {
            let entry = &mut self.places[place as usize];
            let generation = entry.generation;
            let Some(holder) = &mut entry.holder else {
                continue;
            };
            // Paused or closed since, or in the list twice.
            if holder.receiving != Receiving::Lapsed {
                continue;
            }
            holder.receiving = Receiving::On;
            let receive = opcode::RecvMulti::new(Fd(holder.descriptor.as_raw_fd()), GROUP).build();
            self.under_way += 1;
            self.push(receive, Kind::Receive, Socket { place, generation });
        }
        self.lapsed = lapsed;
        if let Some(watched) = self.watched.as_ref().filter(|_| !self.watching) {
            let events = u32::from(rustix::event::PollFlags::IN.bits());
            let poll = opcode::PollAdd::new(Fd(watched.as_raw_fd()), events).build();
            self.watching = true;
            self.under_way += 1;
            self.push(poll, Kind::Watch, NOBODY);
        }
    }

    /// Asks for the rest of a socket's send.
    fn push_send(&mut self, socket: Socket, flags: SendFlags) {
        let Some(place) = self.places.get(socket.place as usize) else {
            return;
        };
        let Some((descriptor, sending)) = place
            .holder
            .as_ref()
            .and_then(|holder| Some((holder.descriptor.as_raw_fd(), holder.sending.as_ref()?)))
        else {
            return;
        };
        let rest = &sending.bytes[sending.sent..];
        let len = rest.len().min(SEND_BYTES_MAX) as u32;
        let flags = flags | SendFlags::NOSIGNAL;
        let send = opcode::Send::new(Fd(descriptor), rest.as_ptr(), len)
            .flags(flags.bits() as i32)
            .build();
        self.under_way += 1;
        self.push(send, Kind::Send, socket);
    }

    fn cancel(&mut self, kind: Kind, socket: Socket) {
        let cancel = opcode::AsyncCancel::new(user_data(kind, socket)).build();
        self.push(cancel, Kind::Cancel, socket);
    }

    fn push(&mut self, operation: squeue::Entry, kind: Kind, socket: Socket) {
        let operation = operation.user_data(user_data(kind, socket));
        if !self.backlog.is_empty() || !self.submit_entry(&operation) {
            self.backlog.push_back(operation);
        }
    }

    /// Puts an operation into the submission queue. False when it is full.
    fn submit_entry(&mut self, operation: &squeue::Entry) -> bool {
        // SAFETY: what an operation uses must stay valid until it has ended. Those made in this file
        // are: a receive, into buffers of the group, which live until `drop` has seen every operation
        // end, or for ever; a send, from a vector that its holder keeps untouched until the send's
        // completion (`Sending` is taken out in `sent` alone, a holder is released only without one,
        // and `drop` treats both like the buffers); a poll and a cancel, which use no memory. Their
        // descriptors are owned by `self` for as long.
        unsafe { self.kernel.submission().push(operation) }.is_ok()
    }

    /// True when nothing is left in the backlog.
    fn fill_submissions(&mut self) -> bool {
        while let Some(operation) = self.backlog.pop_front() {
            if !self.submit_entry(&operation) {
                self.backlog.push_front(operation);
                return false;
            }
        }
        true
    }

    /// Whether the kernel has to be entered although there is nothing to wait for.
    fn has_work(&mut self) -> bool {
        let submission = self.kernel.submission();
        !submission.is_empty() || submission.taskrun() || submission.cq_overflow()
    }

    fn enter(&mut self, want: usize, timeout: Duration) -> io::Result<()> {
        self.stats.enters += 1;
        let timeout = Timespec::from(timeout);
        let arguments = SubmitArgs::new().timespec(&timeout);
        match self.kernel.submitter().submit_with_args(want, &arguments) {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                // Time is up, a signal, or more completions than there is room for until those that
                // are there have been taken.
                Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    fn take_completions(&mut self) {
        for completion in self.kernel.completion() {
            if parse_user_data(completion.user_data()).0 == Kind::Watch {
                self.under_way -= 1;
                self.watching = false;
                self.watch_ended = true;
            } else {
                self.completions.push_back(completion);
            }
        }
    }

    fn understand(&mut self, completion: &cqueue::Entry) -> Option<Event> {
        let (kind, socket) = parse_user_data(completion.user_data());
        match kind {
            Kind::Receive => self.received(socket, completion),
            Kind::Send => self.sent(socket, completion.result()),
            Kind::Cancel => {
                self.cancelled(socket, completion.result());
                None
            }
            Kind::Watch => unreachable!("taken out with the completions"),
        }
    }

    fn received(&mut self, socket: Socket, completion: &cqueue::Entry) -> Option<Event> {
        let result = outcome(completion.result());
        let piece = match (&result, cqueue::buffer_select(completion.flags())) {
            (Ok(len @ 1..), Some(buffer)) => Some(self.buffers.lend(buffer, *len)),
            (_, Some(buffer)) => {
                self.buffers.put_unused(buffer);
                None
            }
            (_, None) => None,
        };
        let last = !cqueue::more(completion.flags());
        self.under_way -= usize::from(last);
        let Some(holder) = self.places[socket.place as usize].holder.as_mut() else {
            unreachable!("a holder stays until its receive has ended");
        };
        let wanted = match holder.receiving {
            Receiving::On => true,
            Receiving::Stopping { again } => again,
            Receiving::Off | Receiving::Lapsed => unreachable!("no receive is under way"),
        };
        // What may come again when it is asked for again.
        let passing = match result {
            Ok(len) => len > 0,
            Err(Errno::NOBUFS) => {
                self.stats.starved += 1;
                true
            }
            Err(Errno::INTR | Errno::AGAIN) => true,
            Err(Errno::CANCELED) => holder.receiving != Receiving::On,
            Err(_) => false,
        };
        if last {
            let again = wanted && passing && !holder.closing;
            holder.receiving = if again {
                Receiving::Lapsed
            } else {
                Receiving::Off
            };
            if again {
                self.lapsed.push(socket.place);
            }
        }
        let (tag, closing) = (holder.tag, holder.closing);
        if closing {
            if let Some(piece) = piece {
                self.buffers.recycle(piece);
            }
            self.release_if_idle(socket.place);
            return None;
        }
        match (piece, result) {
            (Some(piece), _) => Some(Event::Received { tag, piece }),
            (None, Ok(_)) => Some(Event::Ended { tag }),
            (None, Err(_)) if passing => None,
            (None, Err(errno)) => Some(Event::Failed {
                tag,
                error: errno.into(),
            }),
        }
    }

    fn sent(&mut self, socket: Socket, result: i32) -> Option<Event> {
        self.under_way -= 1;
        let Some(holder) = self.places[socket.place as usize].holder.as_mut() else {
            unreachable!("a holder stays until its send has ended");
        };
        let Some(sending) = holder.sending.as_mut() else {
            unreachable!("the send that has ended was under way");
        };
        let tag = holder.tag;
        let result = outcome(result);
        if let Ok(count) = result {
            sending.sent += count as usize;
        }
        let done = sending.sent == sending.bytes.len();
        let goes_on =
            !holder.closing && !done && matches!(result, Ok(1..) | Err(Errno::AGAIN | Errno::INTR));
        if goes_on {
            self.stats.blocked += 1;
            // From now on it waits for room.
            self.push_send(socket, SendFlags::empty());
        } else {
            let closing = holder.closing;
            if let Some(sending) = holder.sending.take() {
                self.keep_spare(sending.bytes);
            }
            if closing {
                self.release_if_idle(socket.place);
                return None;
            }
        }
        match result {
            Ok(count @ 1..) => Some(Event::Sent {
                tag,
                bytes: count as usize,
                done,
            }),
            Err(Errno::AGAIN | Errno::INTR) => None,
            Ok(_) => Some(Event::Failed {
                tag,
                error: io::ErrorKind::WriteZero.into(),
            }),
            Err(errno) => Some(Event::Failed {
                tag,
                error: errno.into(),
            }),
        }
    }

    /// A cancellation that found nothing: the operation had just ended, and its completion says so, or
    /// it was at work that very moment. Shutting the socket down ends it in the second case.
    fn cancelled(&mut self, socket: Socket, result: i32) {
        if result >= 0 {
            return;
        }
        let place = &self.places[socket.place as usize];
        if let Some(holder) = &place.holder
            && place.generation == socket.generation
            && holder.closing
        {
            // It may be gone already; then its operations end by themselves.
            let _ = shutdown(&holder.descriptor, Shutdown::Both);
        }
    }

    /// Lets a closing socket go once none of its operations is under way.
    fn release_if_idle(&mut self, place: u32) {
        let entry = &mut self.places[place as usize];
        let idle = entry.holder.as_ref().is_some_and(|holder| {
            let receives = matches!(holder.receiving, Receiving::On | Receiving::Stopping { .. });
            holder.closing && !receives && holder.sending.is_none()
        });
        if idle {
            entry.holder = None;
            entry.generation = entry.generation.wrapping_add(1) & GENERATION_MASK;
            self.free.push(place);
        }
    }
}

impl Drop for Ring {
    /// Ends everything that is under way, so that the kernel uses none of the memory that goes. What
    /// does not end in time keeps its memory for ever.
    fn drop(&mut self) {
        for socket in self.open_sockets() {
            self.close(socket);
        }
        // Not watched again by the waits below, but open while an operation may name it.
        let _watched = self.watched.take();
        if self.watching {
            self.cancel(Kind::Watch, NOBODY);
        }
        for _ in 0..DROP_WAITS {
            // A ring that was never enabled was handed nothing.
            if self.under_way == 0 || !self.enabled || self.wait(DROP_WAIT).is_err() {
                break;
            }
            while let Some(event) = self.next_event() {
                if let Event::Received { piece, .. } = event {
                    self.buffers.recycle(piece);
                }
            }
        }
        let ended = self.under_way == 0 || !self.enabled;
        if setup::unmake(&self.kernel).is_err() || !ended {
            self.buffers.keep_for_ever();
            core::mem::forget(core::mem::take(&mut self.places));
        }
    }
}
