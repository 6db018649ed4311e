//! Asking: where a request goes, and putting it into the queue of a backend.
//!
//! A request is written straight into the queue. At an Evenkeel worker it ends in our own flags:
//! the epoch we route by, the cachelet we believe the key to be in, and whether the replica is meant.
//! Where they stand is remembered, so that the same request can be put to another worker with other
//! flags.

use crate::answer::shared::COUNT_FLAG;
use crate::client::{Show, Slot, State};
use crate::pipe::backend::{Link, Peer, Refused};
use crate::pipe::in_flight::{Ask, Progress, Question, Tag};
use crate::pool::hot::Sent;
use crate::pool::{Pool, PoolId, Servers};
use crate::routes::RenameId;
use crate::stats::per_route::RouteId;
use crate::under_way::again::Failure;
use crate::{BackendId, ClientId, ProxyCore};
use evenkeel_hotkeys::client::ReadTicket;
use evenkeel_hotkeys::client::Route;
use evenkeel_hotkeys::client::WriteTicket;
use evenkeel_hotkeys::plain::NamePrefix;
use evenkeel_protocol::LINE_LEN_MAX;
use evenkeel_protocol::StoreMode;
use evenkeel_types::CacheletId;
use evenkeel_types::Epoch;
use evenkeel_types::Instant;
use evenkeel_types::KeyHash;

/// What a request does with its key, as far as leases and repetition are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    /// A read that a replica can answer.
    Read,
    /// A read that only the home can answer.
    ReadAtHome,
    /// A read that changes the item, or may, but not its value.
    ReadAndWrite,
    /// What gives the key a value, or takes it.
    Write,
    /// Sets an exptime and nothing else.
    Touch,
    /// Neither reads a value nor changes one, and has no room for our own flags: `me`.
    Look,
}

/// What the answer to a write tells of the version that the key has then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tells {
    /// Nothing that could be made use of.
    Nothing,
    /// Of an `ms`: that of what it stored, if it is asked for it.
    Stored,
    /// Of an `md`: how new the miss is, if the key has replicas.
    Removed,
}

impl Tells {
    /// Of a store in this mode. The version of what was put together at the server says nothing without the value.
    pub fn of_store(mode: StoreMode) -> Self {
        match mode {
            StoreMode::Append | StoreMode::Prepend => Tells::Nothing,
            _ => Tells::Stored,
        }
    }
}

/// A request that is about to be asked for the first time.
#[derive(Debug)]
pub(crate) struct Draft<'k> {
    pub client: ClientId,
    /// The pool that it goes to.
    pub pool: PoolId,
    /// The server that it goes to instead of its key's own.
    pub place: Option<BackendId>,
    /// What the servers call the key.
    pub rename: RenameId,
    pub route: RouteId,
    /// The key as it is stored.
    pub key: &'k [u8],
    pub show: Show,
    pub ask: Ask,
    pub intent: Intent,
    /// Whether it is an `mg` that a copy of a hot key of a plain pool can answer.
    pub copies: bool,
    /// What the answer to a write tells of the version that the key has then.
    pub tells: Tells,
    /// Bytes of the request behind our own flags: the end of the line, and what follows it.
    pub behind_flags: usize,
}

impl Draft<'_> {
    /// Whether it is a read whose answer is the same for all who ask for it in the same words.
    fn is_shared(&self) -> bool {
        self.intent == Intent::Read && matches!(self.show, Show::Value { .. } | Show::Binary(_))
    }
}

/// Our own flags, as they stand in a request. Empty for servers that do not know them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteFlags {
    text: [u8; ROUTE_FLAGS_LEN_MAX],
    len: usize,
}

/// `c`, `Y` and 20 digits, `U` and 5 digits, `G` or `W` and 20 digits, `H` and 20 digits, four spaces.
const ROUTE_FLAGS_LEN_MAX: usize = 2 + 1 + 20 + 1 + 1 + 5 + 1 + 1 + 20 + COUNT_FLAG.len() + 20;

/// What comes before our own flags where the answer is to tell a version that the application did not ask for.
const ASKS_VERSION: &[u8] = b"c ";

impl Default for RouteFlags {
    fn default() -> Self {
        RouteFlags {
            text: [0; ROUTE_FLAGS_LEN_MAX],
            len: 0,
        }
    }
}

impl RouteFlags {
    /// Of a request for a copy at a shadow worker, or with this mark at its home; 0 for none.
    pub fn new(epoch: Epoch, cachelet: CacheletId, replica: bool, mark: u64) -> Self {
        RouteFlags::default().and(epoch, cachelet, replica, mark)
    }

    /// The same of a write that is to be answered with its version.
    fn asking_version(epoch: Epoch, cachelet: CacheletId, mark: u64) -> Self {
        let mut flags = RouteFlags::default();
        flags.push(ASKS_VERSION);
        flags.and(epoch, cachelet, false, mark)
    }

    fn and(self, epoch: Epoch, cachelet: CacheletId, replica: bool, mark: u64) -> Self {
        let mut flags = self;
        flags.push(b"Y");
        flags.push(itoa::Buffer::new().format(epoch.0).as_bytes());
        flags.push(b" U");
        flags.push(itoa::Buffer::new().format(cachelet.0).as_bytes());
        if replica {
            flags.push(b" G");
        } else if mark > 0 {
            flags.push(b" W");
            flags.push(itoa::Buffer::new().format(mark).as_bytes());
        }
        flags
    }

    /// The same of a read, with how many others were answered with what was read before and are not told of.
    fn counting(mut self, others: u64) -> Self {
        if others > 0 {
            self.push(COUNT_FLAG);
            self.push(itoa::Buffer::new().format(others).as_bytes());
        }
        self
    }

    #[inline]
    fn push(&mut self, text: &[u8]) {
        self.text[self.len..self.len + text.len()].copy_from_slice(text);
        self.len += text.len();
    }

    #[inline]
    pub fn text(&self) -> &[u8] {
        &self.text[..self.len]
    }

    /// Where the flags, with the space before them, stand in a request of that length.
    #[inline]
    fn place(&self, request_len: usize, behind: usize) -> (usize, usize) {
        match self.len {
            0 => (0, 0),
            len => (request_len - behind - len - 1, request_len - behind),
        }
    }
}

/// Where a new request goes.
#[derive(Debug)]
struct Placed {
    /// Placement hash of the key, where the pool needs it.
    hash: KeyHash,
    target: Result<BackendId, Failure>,
    flags: RouteFlags,
    ticket: Option<ReadTicket>,
    /// What the copy of a plain pool's hot key is called that is asked.
    name: Option<NamePrefix>,
    /// What a write of a leased key is to come back with.
    write: Option<WriteTicket>,
}

impl ProxyCore {
    /// Asks a new request whose bytes `write` appends, given our own flags. It gets a slot among the
    /// client's answers; if it cannot be asked, the slot holds the failure.
    pub(crate) fn ask_new(
        &mut self,
        now: Instant,
        draft: &Draft<'_>,
        write: impl Fn(&mut Vec<u8>, &[u8]),
    ) {
        let Placed {
            hash,
            target,
            flags,
            ticket,
            name,
            write: write_ticket,
        } = self.place(now, draft);
        let write = |out: &mut Vec<u8>, flags: &[u8]| {
            let start = out.len();
            write(out, flags);
            Sent::put_name(name.as_ref(), out, start);
        };
        let is_replica = matches!(
            ticket.as_ref().map(ReadTicket::route),
            Some(Route::Shadow { .. })
        );
        let has_ticket = ticket.is_some();
        let Some(client) = self.clients.get_mut(draft.client.0) else {
            return;
        };
        let slot = client.push(Slot {
            show: draft.show,
            state: State::Waiting,
            ticket: ticket.map(|ticket| (draft.pool, ticket)),
            rename: draft.rename,
            route: draft.route,
        });
        let mut tag = Tag {
            hash,
            is_read: !matches!(
                draft.intent,
                Intent::Write | Intent::Touch | Intent::ReadAndWrite
            ),
            is_replica,
            // What plain servers are asked on this way, without flags of ours, may change the item.
            shared_by: (draft.is_shared() && !flags.text().is_empty()).then_some(hash.0),
            route: draft.route,
            write: write_ticket,
            ..Tag::new(draft.client, draft.pool, slot, draft.ask, now)
        };
        let len_max = LINE_LEN_MAX + draft.behind_flags;
        let home = target.as_ref().ok().copied();
        match target.and_then(|to| self.admit(to, len_max)) {
            Ok(to) => self.put(now, to, tag, Progress::Nothing, |out| {
                let before = out.len();
                write(out, flags.text());
                flags.place(out.len() - before, draft.behind_flags)
            }),
            Err(failure) => {
                if let (Intent::Write, Failure::Unavailable(_), Some(home)) =
                    (draft.intent, &failure, home)
                {
                    self.note_refused(home, draft.key);
                }
                let awaits_reads = failure == Failure::BehindReads;
                let waits = awaits_reads
                    || (failure == Failure::NoOwner && !tag.is_read)
                    || self.may_wait_for_map(&tag, &failure);
                let mut bytes = Vec::new();
                // Nobody looks at the bytes of a request that can neither be asked again nor be
                // answered with an echo.
                if waits || has_ticket || matches!(draft.show, Show::Meta { .. }) {
                    write(&mut bytes, flags.text());
                    tag.flags = flags.place(bytes.len(), draft.behind_flags);
                }
                let question = Question {
                    tag,
                    bytes,
                    progress: Progress::Nothing,
                };
                if awaits_reads {
                    self.await_reads(now, question);
                } else if waits {
                    self.await_owner(now, question);
                } else {
                    self.fail(question, &failure);
                }
                self.release(now, draft.client);
            }
        }
    }

    /// Finds out where a new request goes. In an Evenkeel pool it also tells the pool's CSM cache of
    /// it, which decides whether a read goes to a replica.
    #[inline]
    fn place(&mut self, now: Instant, draft: &Draft<'_>) -> Placed {
        let mut placed = Placed {
            // The ring needs the key itself; nothing is looked up by hash in other pools.
            hash: KeyHash(0),
            target: Err(Failure::NoOwner),
            flags: RouteFlags::default(),
            ticket: None,
            name: None,
            write: None,
        };
        let Some(Pool {
            servers,
            leases,
            untold,
            ..
        }) = self.pools.get_mut(draft.pool.0)
        else {
            return placed;
        };
        let pool = match servers {
            Servers::Memcached(pool) => {
                placed.target = Ok(draft.place.unwrap_or_else(|| pool.home(draft.key)));
                if self.watches
                    && let Some(sent) = self.watch(now, draft)
                {
                    placed.hash = sent.ticket.hash();
                    placed.target = Ok(sent.to);
                    (placed.ticket, placed.name) = (Some(sent.ticket), sent.name);
                }
                return placed;
            }
            Servers::Evenkeel(pool) => pool,
        };
        let hash = KeyHash::of(draft.key);
        placed.hash = hash;
        let era = pool.era();
        let mut load = |suffix| {
            let copy = match suffix {
                0 => pool.home(hash)?.1,
                suffix => pool.shadow(draft.key, hash, suffix),
            };
            self.backends.get(copy?.0)?.burden(now)
        };
        let connection = draft.client.connection();
        // None of them may be shown what this writes; see `ClientLeases::knows`.
        let is_behind_reads = draft.intent == Intent::Write
            && leases.knows(hash)
            && self
                .clients
                .get(draft.client.0)
                .is_some_and(|client| client.reads(hash));
        match draft.intent {
            Intent::Read => {
                let ticket = leases.route_read(now, era, (hash, connection), &mut load);
                self.stats.proxy_reads_behind_writes += u64::from(ticket.is_behind_write());
                placed.ticket = Some(ticket);
            }
            Intent::ReadAtHome => {
                placed.ticket = Some(leases.home_read(now, era, (hash, connection)))
            }
            Intent::Write => {
                let can_tell = draft.tells != Tells::Nothing;
                placed.write = leases.write_begun(hash, connection, can_tell);
                if let (Some(write), false) = (placed.write, is_behind_reads) {
                    leases.write_sent(write);
                }
            }
            // What also changes something is shown whatever it is: to ask again would be to change it again.
            Intent::Touch | Intent::ReadAndWrite => leases.touch_sent(hash, connection),
            Intent::Look => {}
        }
        let suffix = match placed.ticket.as_ref().map(ReadTicket::route) {
            Some(Route::Shadow { suffix }) => suffix,
            Some(Route::Home) | None => 0,
        };
        let Some((cachelet, home)) = pool.home(hash) else {
            placed.target = Err(Failure::NoMap);
            return placed;
        };
        if draft.intent != Intent::Look {
            let mark = pool.mark(cachelet, home);
            let asks_version = draft.tells == Tells::Stored
                && !draft.show.tells_version()
                && placed.write.is_some_and(|write| write.tells());
            let tells = suffix == 0 && matches!(draft.intent, Intent::Read | Intent::ReadAtHome);
            let told = tells.then(|| untold.find(hash.0)).flatten();
            placed.flags = match asks_version {
                true => RouteFlags::asking_version(pool.epoch(), cachelet, mark),
                false => RouteFlags::new(pool.epoch(), cachelet, suffix > 0, mark)
                    .counting(told.unwrap_or(0)),
            };
        }
        if suffix > 0 {
            untold.count(hash.0);
        }
        let target = match suffix {
            0 if is_behind_reads => {
                placed.target = Err(Failure::BehindReads);
                return placed;
            }
            0 => home,
            suffix => {
                self.stats.proxy_replica_reads += 1;
                pool.shadow(draft.key, hash, suffix)
            }
        };
        placed.target = target.ok_or_else(|| pool.why_homeless(hash));
        placed
    }

    /// Asks a request again that was asked before, at a given place. If that is not possible, its
    /// slot holds the failure; the caller releases it.
    pub(crate) fn ask_again(
        &mut self,
        now: Instant,
        question: Question,
        to: Result<BackendId, Failure>,
    ) {
        let tag = question.tag;
        let pool = self.pools.get_mut(tag.pool.0);
        let flags = match pool.map(|pool| (&pool.servers, &mut pool.leases)) {
            Some((Servers::Evenkeel(pool), leases)) => {
                match tag.write {
                    Some(write) => leases.write_sent(write),
                    None if tag.is_read => {}
                    None => leases.touch_sent(tag.hash, tag.client.connection()),
                }
                match pool.home(tag.hash) {
                    Some((cachelet, _)) => {
                        let mark = pool.mark(cachelet, to.as_ref().ok().copied());
                        let former = question.bytes.get(tag.flags.0 + 1..tag.flags.1);
                        match former.is_some_and(|flags| flags.starts_with(ASKS_VERSION)) {
                            true => RouteFlags::asking_version(pool.epoch(), cachelet, mark),
                            false => RouteFlags::new(pool.epoch(), cachelet, tag.is_replica, mark),
                        }
                    }
                    None => RouteFlags::default(),
                }
            }
            Some((Servers::Memcached(_), _)) | None => RouteFlags::default(),
        };
        let Question {
            mut tag,
            bytes,
            progress,
        } = question;
        let asked = to.as_ref().ok().copied();
        match to.and_then(|to| self.admit(to, bytes.len() + ROUTE_FLAGS_LEN_MAX)) {
            Ok(to) => {
                let (start, end) = tag.flags;
                tag.retries = tag.retries.saturating_add(1);
                self.put(now, to, tag, progress, |out| {
                    if start == end {
                        out.extend_from_slice(&bytes);
                        return (0, 0);
                    }
                    let before = out.len();
                    out.extend_from_slice(&bytes[..start]);
                    out.push(b' ');
                    out.extend_from_slice(flags.text());
                    out.extend_from_slice(&bytes[end..]);
                    flags.place(out.len() - before, bytes.len() - end)
                });
            }
            Err(failure) => {
                let question = Question {
                    tag,
                    bytes,
                    progress,
                };
                match failure {
                    Failure::NoOwner if !tag.is_read => self.park(now, question),
                    failure => self.fail_unasked(now, question, &failure, asked),
                }
            }
        }
    }

    /// Whether a backend takes a request of at most that many bytes now.
    pub(crate) fn admit(&mut self, to: BackendId, len_max: usize) -> Result<BackendId, Failure> {
        let backend = self.backends.get_mut(to.0).ok_or(Failure::NoOwner)?;
        match backend.admit(len_max) {
            Ok(()) => Ok(to),
            Err(Refused::Down) => Err(Failure::Unavailable(backend.name.clone())),
            Err(Refused::Full) => {
                self.stats.proxy_backend_queue_full += 1;
                Err(Failure::Busy(backend.name.clone()))
            }
        }
    }

    /// Puts a request into the queue of a backend that has admitted it. `write` appends it and says
    /// where in it our own flags stand. One that is asked for the first time is given up with its
    /// first deadline.
    pub(crate) fn put(
        &mut self,
        now: Instant,
        to: BackendId,
        mut tag: Tag,
        progress: Progress,
        write: impl FnOnce(&mut Vec<u8>) -> (usize, usize),
    ) {
        let backend = self
            .backends
            .get_mut(to.0)
            .expect("a backend that admitted a request is there");
        let deadline = now + backend.request_timeout;
        if tag.retries == 0 {
            tag.give_up = deadline;
        }
        let before = backend.queued_bytes();
        tag.flags = write(backend.tail());
        let is_of_worker = backend.peer != Peer::Memcached;
        let hash = tag.join_hash().filter(|_| backend.collapses);
        let joins = hash.is_some_and(|hash| backend.join_last(before, hash, &tag));
        if is_of_worker
            && tag.may_tell()
            && let Some(pool) = self.pools.get_mut(tag.pool.0)
        {
            match joins {
                true => pool.untold.count(tag.hash.0),
                false => pool.untold.forget(tag.hash.0),
            }
        }
        if joins {
            self.stats.proxy_gets_collapsed += 1;
            return;
        }
        backend.push(before, deadline, tag, progress);
        match backend.link {
            Link::Ready => self.write_backend(to),
            Link::Idle => self.connect(now, to),
            Link::Connecting { .. }
            | Link::Greeting { .. }
            | Link::Unready { .. }
            | Link::Down { .. } => {}
        }
        self.due_at(deadline);
        if !tag.is_read {
            self.pace(now, to, tag.client, tag.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_flags_fit_and_are_found_again() {
        let flags =
            |replica, mark| RouteFlags::new(Epoch(u64::MAX), CacheletId(u16::MAX), replica, mark);
        let marked = b"Y18446744073709551615 U65535 W18446744073709551615";
        assert_eq!(flags(false, u64::MAX).text(), marked);
        let longest = RouteFlags::asking_version(Epoch(u64::MAX), CacheletId(u16::MAX), u64::MAX);
        assert_eq!(longest.text(), [b"c ", &marked[..]].concat());
        let flags = flags(true, 7);
        assert_eq!(flags.text(), b"Y18446744073709551615 U65535 G");
        let request = [b"mg k v ", flags.text(), b"\r\n"].concat();
        let (start, end) = flags.place(request.len(), 2);
        assert_eq!(&request[start..end], b" Y18446744073709551615 U65535 G");
        assert_eq!(RouteFlags::default().place(10, 2), (0, 0));
    }
}
