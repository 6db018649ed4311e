//! What happens when a server is not there, not in time, not in its right mind, or no longer the one
//! to ask.
//!
//! Where keys go while their server is out of use is in `failover.rs`.
//!
//! The rule is: a request is put to a server again only if it is a read, or if it certainly was not
//! carried out (it was never written whole, or the answer was `MOVED`). Anything else that is not
//! answered may or may not have happened, and the application is told so by an error.
//!
//! A key can be between two owners for a moment: the old one has let go and the new one has not been
//! told yet. Or a server says that the key is at another one by a newer map, and the address that the present map has for that
//! one is of a former life. Requests for it are parked and tried again after a pause or with the next map, until
//! their time is up. Those of one connection are tried one after the other, in the order they were
//! asked: one that is tried under a newer map than the one before it would overtake it. A `flush_all` is for
//! one server and no key, so that it fails where another request would be parked.

use crate::client::{Answered, HeldRead, Show, State, Verb};
use crate::config::OnDown;
use crate::limits::RETRIES_MAX;
use crate::pipe::backend::Link;
use crate::pipe::health::Sign;
use crate::pipe::in_flight::{Ask, Progress, Question, Tag};
use crate::pool::{PoolId, Servers};
use crate::routes::Rename;
use crate::show::Tally;
use crate::under_way::catch_up::NOBODY;
use crate::{BackendId, Output, ProxyCore, show};
use core::fmt;
use evenkeel_hotkeys::client::Answer;
use evenkeel_hotkeys::client::ReadTicket;
use evenkeel_protocol::Moved;
use evenkeel_protocol::Quarantined;
use evenkeel_types::CacheletId;
use evenkeel_types::Instant;
use evenkeel_types::KeyHash;

/// Why a request has no answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no map yet.
    NoMap,
    /// The map names no server for the key.
    NoOwner,
    /// Nobody is to own the key's cachelet before an operator says so.
    Quarantined(CacheletId),
    /// The server is down; it was not asked.
    Unavailable(String),
    /// Too much is queued for the server; it was not asked.
    Busy(String),
    /// The connection was lost before the answer.
    Lost(String),
    /// The answer did not come in time.
    Late(String),
    /// The server's answers make no sense.
    Confused(String),
    /// The key found no owner in time.
    Moving,
    /// What was asked before it on the same connection was not answered in time; it was not asked.
    BehindReads,
    /// Too many requests are parked.
    TooManyParked,
    /// It waited too long for a server that cannot keep up; it was not asked.
    Overloaded,
}

impl Failure {
    /// Whether a get may be answered as a miss. Not where we are at our own limits: that would turn
    /// a burst of requests into a burst of requests to the database behind the cache. Nor where it will stay one for as long
    /// as it takes somebody to look.
    fn is_absence(&self) -> bool {
        !matches!(
            self,
            Failure::Busy(_)
                | Failure::TooManyParked
                | Failure::Overloaded
                | Failure::Quarantined(_)
        )
    }

    /// Whether a server was asked, and did not answer as it should.
    pub fn was_asked(&self) -> bool {
        matches!(
            self,
            Failure::Lost(_) | Failure::Late(_) | Failure::Confused(_)
        )
    }

    /// The server that did not answer.
    pub fn server(&self) -> Option<&str> {
        match self {
            Failure::Unavailable(name)
            | Failure::Busy(name)
            | Failure::Lost(name)
            | Failure::Late(name)
            | Failure::Confused(name) => Some(name),
            Failure::NoMap
            | Failure::NoOwner
            | Failure::Quarantined(_)
            | Failure::Moving
            | Failure::BehindReads
            | Failure::TooManyParked
            | Failure::Overloaded => None,
        }
    }

    pub fn line(&self) -> Vec<u8> {
        show::server_error(format_args!("{self}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NoMap => f.write_str("no map of the cluster yet"),
            Failure::NoOwner => f.write_str("no server owns this key"),
            Failure::Quarantined(cachelet) => Quarantined(*cachelet).fmt(f),
            Failure::Unavailable(name) => write!(f, "backend {name} unavailable"),
            Failure::Busy(name) => write!(f, "backend {name} has too many requests queued"),
            Failure::Lost(name) => write!(f, "backend {name} lost, outcome unknown"),
            Failure::Late(name) => write!(f, "backend {name} timed out, outcome unknown"),
            Failure::Confused(name) => write!(f, "backend {name} answered nonsense"),
            Failure::Moving => f.write_str("key is moving to another server"),
            Failure::BehindReads => f.write_str("requests before it were not answered in time"),
            Failure::TooManyParked => f.write_str("too many requests wait for moves and reads"),
            Failure::Overloaded => f.write_str("overloaded"),
        }
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The peer closed it, or it could not be made.
    Gone,
    /// Something did not come in time.
    Late,
    /// The peer does not answer what it was asked.
    Confused,
}

impl ProxyCore {
    /// The connection was closed by the server, or could not be made.
    pub fn backend_lost(&mut self, now: Instant, id: BackendId) {
        self.lose(now, id, Loss::Gone);
    }

    /// Gives up a connection.
    pub(crate) fn give_up(&mut self, now: Instant, id: BackendId, loss: Loss) {
        if self.backends.get(id.0).is_some() {
            self.outputs.push_back(Output::CloseBackend(id));
        }
        self.lose(now, id, loss);
    }

    pub(crate) fn connect(&mut self, now: Instant, id: BackendId) {
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        let until = now + backend.connect_timeout;
        backend.connecting(until);
        self.outputs.push_back(Output::Connect {
            id,
            host: backend.host.clone(),
            port: backend.port,
            tls: backend.tls,
        });
        self.due_at(until);
    }

    /// A deadline of the backend has passed.
    pub(crate) fn backend_due(&mut self, now: Instant, id: BackendId) {
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        match backend.link {
            Link::Down { .. } => self.connect(now, id),
            Link::Unready { .. } if backend.answer_due().is_none_or(|due| due > now) => {
                let until = now + backend.connect_timeout;
                self.greet(id, until);
            }
            Link::Unready { .. }
            | Link::Idle
            | Link::Connecting { .. }
            | Link::Greeting { .. }
            | Link::Ready => {
                backend.counters.timeouts += 1;
                self.give_up(now, id, Loss::Late);
            }
        }
    }

    fn lose(&mut self, now: Instant, id: BackendId, loss: Loss) {
        self.break_stream(id);
        let jitter = self.jitter();
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        if matches!(backend.link, Link::Idle | Link::Down { .. }) {
            return;
        }
        let failure = match loss {
            Loss::Gone if backend.link == Link::Ready => Failure::Lost(backend.name.clone()),
            Loss::Gone => Failure::Unavailable(backend.name.clone()),
            Loss::Late => Failure::Late(backend.name.clone()),
            Loss::Confused => Failure::Confused(backend.name.clone()),
        };
        let unasked = Failure::Unavailable(backend.name.clone());
        let mut questions = Vec::new();
        while let Some((question, is_written)) = backend.pop_question() {
            questions.extend(question.split().map(|question| (question, is_written)));
        }
        backend.reset_queue();
        let sign = match (loss, backend.link) {
            (Loss::Late, Link::Ready) => Sign::Late,
            _ => Sign::Broken,
        };
        let pool = backend.pool;
        self.forget_truths_of(pool);
        self.hear_waiting();
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        let has_changed = match loss {
            Loss::Gone => backend.closed_by_peer(now, jitter),
            Loss::Late | Loss::Confused => backend.failed(now, jitter, sign),
        };
        if let Some(due) = backend.deadline() {
            self.due_at(due);
        }
        self.close_if_retired(id);
        if has_changed {
            self.standing_changed(id);
        }
        let takes_again = self.takes_again(id);
        let may_repeat = |(question, is_written): &(Question, bool)| {
            may_repeat(question, *is_written, now) && (takes_again || question.tag.is_read)
        };
        for lost in questions.iter().filter(|lost| !may_repeat(lost)) {
            self.note_missed_request(id, &lost.0);
        }
        self.catch_up_if_idle(now, id);
        for (question, is_written) in questions {
            let tag = question.tag;
            let lost = (question, is_written);
            let may_repeat = may_repeat(&lost);
            let (question, is_written) = lost;
            if may_repeat && self.has_stragglers(&tag) {
                // What is parked goes to the home of its key in the end.
                if tag.has_key() {
                    self.park(now, question);
                } else {
                    self.fail(question, &unasked);
                }
            } else if may_repeat && takes_again {
                self.stats.proxy_requests_resent += 1;
                self.ask_again(now, question, Ok(id));
            } else if may_repeat {
                // A read that was not answered is one that was never asked.
                if let Some(question) = self.ask_elsewhere(now, question, &unasked) {
                    self.fail_unasked(now, question, &unasked, Some(id));
                }
            } else if is_written {
                self.fail(question, &failure);
            } else {
                self.fail_unasked(now, question, &unasked, Some(id));
            }
            self.release(now, tag.client);
        }
    }

    /// A request was not carried out by the server at which it was to be. It is tried again where that may not be the one to
    /// ask any more: it was the owner by a former map, or there is a newer map, by which it may have been taken away or be
    /// another process at another address.
    pub(crate) fn fail_unasked(
        &mut self,
        now: Instant,
        question: Question,
        failure: &Failure,
        asked: Option<BackendId>,
    ) {
        let tag = question.tag;
        let may_wait = self.may_wait_for_map(&tag, failure) || self.has_other_home(&tag, asked);
        if may_wait && tag.has_key() {
            self.park(now, question);
        } else {
            self.fail(question, failure);
        }
    }

    /// Whether a request that failed so can wait for a newer map, which is there. One for a replica goes to its home instead.
    pub(crate) fn may_wait_for_map(&self, tag: &Tag, failure: &Failure) -> bool {
        let pool = self.pools.get(tag.pool.0).map(|pool| &pool.servers);
        let awaits_map =
            matches!(pool, Some(Servers::Evenkeel(pool)) if pool.wanted > pool.epoch());
        awaits_map && !tag.is_replica && matches!(failure, Failure::Unavailable(_))
    }

    /// Whether the key's home, as far as is known now, is not the one that was asked.
    fn has_other_home(&self, tag: &Tag, asked: Option<BackendId>) -> bool {
        let home = self.home(tag.pool, tag.hash).ok();
        !tag.is_replica && home.is_some() && asked.is_some() && home != asked
    }

    /// Asks a read at its home that a replica could not answer, or whose answer was too old. If that
    /// is not possible, its slot holds the failure; the caller releases it.
    pub(crate) fn ask_home(&mut self, now: Instant, mut question: Question, answer: Answer) {
        self.stats.proxy_reads_asked_again += 1;
        match answer {
            Answer::Hit(_) => self.stats.proxy_reads_asked_again_older += 1,
            Answer::Miss(_) => self.stats.proxy_reads_asked_again_missing += 1,
            Answer::Failed => {}
        }
        if let Some(pool) = self.pools.get(question.tag.pool.0) {
            question.tag.give_up = now + pool.settings.request_timeout;
        }
        let pool = self
            .pools
            .get(question.tag.pool.0)
            .map(|pool| &pool.servers);
        if let Some(Servers::Memcached(_)) = pool {
            return self.ask_plain_home(now, question);
        }
        question.tag.is_replica = false;
        let home = self.home(question.tag.pool, question.tag.hash);
        self.ask_again(now, question, home);
    }

    /// The home of a key in an Evenkeel pool.
    pub(crate) fn home(&self, pool: PoolId, hash: KeyHash) -> Result<BackendId, Failure> {
        let servers = self.pools.get(pool.0).map(|pool| &pool.servers);
        let Some(Servers::Evenkeel(pool)) = servers else {
            return Err(Failure::NoOwner);
        };
        let (_, home) = pool.home(hash).ok_or(Failure::NoMap)?;
        home.ok_or_else(|| pool.why_homeless(hash))
    }

    /// A worker says that the awaited request is not its business. It was not carried out.
    pub(crate) fn moved(&mut self, now: Instant, id: BackendId, moved: Moved) {
        let Some(backend) = self.backends.get_mut(id.0) else {
            return;
        };
        let in_pool = backend.pool;
        let Some((question, _)) = backend.pop_question() else {
            return;
        };
        self.want_map(in_pool, moved.epoch);
        self.close_if_retired(id);
        for question in question.split() {
            self.moved_for(now, id, in_pool, question, moved);
        }
    }

    fn moved_for(
        &mut self,
        now: Instant,
        id: BackendId,
        in_pool: PoolId,
        mut question: Question,
        moved: Moved,
    ) {
        question.progress = Progress::Nothing;
        let tag = question.tag;
        self.learn_host(now, &tag, moved);
        self.learn_mark(id, &tag, moved);
        let owner = match self.pools.get(in_pool.0).map(|pool| &pool.servers) {
            Some(Servers::Evenkeel(pool)) => pool.backend(moved.owner),
            Some(Servers::Memcached(_)) | None => None,
        };
        if tag.is_replica {
            self.fail(question, &Failure::Moving);
        } else if let Some(owner) =
            owner.filter(|&owner| tag.retries == 0 && owner != id && !self.awaits_before(&tag))
        {
            self.stats.proxy_requests_moved += 1;
            self.renew_ticket(now, &tag);
            self.ask_again(now, question, Ok(owner));
        } else {
            self.park(now, question);
        }
        self.release(now, tag.client);
    }

    /// A read that was not carried out is asked again of its home: as if it were asked only now, by the present map. Its
    /// answer would count for nothing otherwise, and a copy read behind it could show what is older.
    pub(crate) fn renew_ticket(&mut self, now: Instant, tag: &Tag) {
        let pool = self.pools.get_mut(tag.pool.0);
        let client = self.clients.get_mut(tag.client.0);
        let slot = client.and_then(|client| client.slot(tag.slot));
        let (Some(pool), Some(slot)) = (pool, slot) else {
            return;
        };
        let is_its =
            |(id, ticket): &(PoolId, ReadTicket)| *id == tag.pool && ticket.hash() == tag.hash;
        if let Servers::Evenkeel(servers) = &pool.servers
            && let Some((_, ticket)) = slot.ticket.take_if(|held| is_its(held))
        {
            pool.leases.abandon(now, ticket);
            let asker = (tag.hash, tag.client.connection());
            let renewed = pool.leases.home_read(now, servers.era(), asker);
            slot.ticket = Some((tag.pool, renewed));
        }
    }

    /// What is asked of a worker from now on bears the mark that it gave. Whoever has something under way to it waits for
    /// that first, because it bears none.
    fn learn_mark(&mut self, id: BackendId, tag: &Tag, moved: Moved) {
        let pool = self.pools.get_mut(tag.pool.0).map(|pool| &mut pool.servers);
        if let Some(Servers::Evenkeel(pool)) = pool
            && !tag.is_replica
            && pool.learn_mark(tag.hash, id, moved.mark)
        {
            self.begin_era();
        }
    }

    /// Takes notice of a cachelet that has moved inside of its server, or to another one. What is asked from now on goes to its
    /// host, so that a new era begins.
    fn learn_host(&mut self, now: Instant, tag: &Tag, moved: Moved) {
        let pool = self.pools.get_mut(tag.pool.0).map(|pool| &mut pool.servers);
        let Some(Servers::Evenkeel(pool)) = pool else {
            return;
        };
        let is_news = !tag.is_replica
            && moved.epoch <= pool.epoch()
            && pool.learn_host(tag.hash, moved.owner);
        if is_news {
            self.stats.proxy_hosts_learnt += 1;
            self.begin_era();
            // Among them may be some that were told to wait until the cachelet has passed.
            self.hurry_all_parked(now);
        }
    }

    /// Closes a connection that its pool no longer has, once nothing is awaited from it.
    pub(crate) fn close_if_retired(&mut self, id: BackendId) {
        let Some(backend) = self.backends.get(id.0) else {
            return;
        };
        if backend.retired && backend.queued_requests() == 0 {
            if !matches!(backend.link, Link::Idle | Link::Down { .. }) {
                self.outputs.push_back(Output::CloseBackend(id));
            }
            if let Some(mut backend) = self.backends.remove(id.0) {
                backend.stopwatch.settle(&mut self.per_route);
            }
        }
    }

    /// Puts a failure where the answer was to go. The caller releases the client's answers.
    pub(crate) fn fail(&mut self, question: Question, failure: &Failure) {
        let on_down = self.pools.get(question.tag.pool.0);
        let on_down = on_down.map(|pool| pool.settings.on_down);
        let as_miss = on_down != Some(OnDown::Error) && failure.is_absence();
        if self.log.is_some() {
            self.log_failed(&question, failure, as_miss);
        }
        let Question {
            tag,
            bytes,
            progress,
        } = question;
        if tag.ask == Ask::Flush {
            let key = (tag.client, tag.slot);
            self.flush_failed(key, failure.line());
            return self.flush_answered(self.now, key, None);
        }
        self.write_ended(&tag);
        let Some(client) = self.clients.get_mut(tag.client.0) else {
            return;
        };
        let slots = match progress {
            // A shared question is split before it fails.
            Progress::Nothing | Progress::Moved(_) | Progress::Shared(_) => vec![tag.slot],
            Progress::Answered => Vec::new(),
            Progress::Group(group) => group.slots_left().collect(),
        };
        let mut question = Some(Question {
            tag,
            bytes,
            progress: Progress::Nothing,
        });
        for sequence in slots {
            let Some(slot) = client.slot(sequence) else {
                continue;
            };
            let bytes = question
                .as_ref()
                .map_or(&[][..], |question| &question.bytes);
            let rename = self.renames.get(slot.rename);
            let shown_as = (slot.show, rename);
            let answered = answer_for_want(shown_as, bytes, failure, as_miss, tag.is_read);
            let state = match question.take_if(|_| slot.ticket.is_some()) {
                None => State::Done(answered),
                Some(question) => {
                    let answer = Answer::Failed;
                    State::Read(Box::new(HeldRead {
                        answered,
                        answer,
                        question,
                    }))
                }
            };
            client.set_state(sequence, state);
        }
    }
}

/// Whether a request whose connection was lost may be put to the server again.
fn may_repeat(question: &Question, is_written: bool, now: Instant) -> bool {
    let Question { tag, progress, .. } = question;
    let untouched = match progress {
        Progress::Nothing | Progress::Shared(_) => true,
        Progress::Group(group) => group.done == 0,
        Progress::Answered | Progress::Moved(_) => false,
    };
    let harmless = tag.is_read || !is_written;
    let is_ours = tag.client == NOBODY;
    harmless
        && untouched
        && !is_ours
        && !tag.is_replica
        && tag.retries < RETRIES_MAX
        && now < tag.give_up
}

/// What the application gets instead of an answer.
fn answer_for_want(
    (shown_as, rename): (Show, Option<&Rename>),
    question: &[u8],
    failure: &Failure,
    as_miss: bool,
    is_read: bool,
) -> Answered {
    let is_get = match shown_as {
        Show::Value { .. } => true,
        Show::Meta {
            verb: Verb::Get, ..
        } => is_read,
        Show::Binary(echo) => show::binary::is_get(echo),
        _ => false,
    };
    if shown_as == Show::Nothing {
        return Answered {
            tally: Tally::Failed,
            ..Answered::miss()
        };
    }
    if !(is_get && as_miss) {
        return Answered::error(show::refusal(shown_as, failure.line()));
    }
    let mut bytes = Vec::new();
    show::compose_miss(&mut bytes, shown_as, rename, question);
    Answered {
        bytes,
        is_error: false,
        tally: Tally::GetUnavailable,
    }
}
