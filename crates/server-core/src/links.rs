//! The home's side of replication: one ordered connection to each shadow worker in use.
//!
//! [`HotKeys`](evenkeel_hotkeys::server::HotKeys) decides what goes where; a link carries
//! it and reports what came back. Answers arrive in the order of the messages, so a queue of what
//! was asked is enough to match them. A link that breaks, answers nonsense, or leaves a message
//! unanswered for [`ACK_TIMEOUT`] is dropped, and the hot keys are told that nothing sent over it
//! can be relied upon.

use crate::placement::LocalPlacement;
use crate::shard::engine::Engine;
use crate::shard::time::{NEVER, TimeBase};
use evenkeel_hotkeys::server::{Message, Output, PropagationTag};
use evenkeel_protocol::compose::request;
use evenkeel_protocol::{MetaStatus, Reply, ReplyOutcome, SentKey, parse_reply};
use evenkeel_types::map::ClusterMap;
use evenkeel_types::{CacheletId, Instant, Now, WorkerRef};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A shadow that leaves a message unanswered for this long is treated as lost.
pub const ACK_TIMEOUT: Duration = Duration::from_secs(1);

/// Most bytes that may wait to be written to one shadow. A link that is so far behind is dropped.
pub const LINK_OUT_MAX: usize = 32 << 20;

/// A longer time to live than 30 days is a date (memcached's `protocol.txt`, "Expiration times").
const RELATIVE_MAX_S: u32 = 60 * 60 * 24 * 30;

/// Names a connection that a worker makes to a worker of another server. Each has another name, so that what
/// comes late of one that was closed is not taken for its successor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId {
    /// The worker at the other end.
    pub worker: WorkerRef,
    /// What it carries.
    pub(crate) purpose: LinkPurpose,
    /// Which of those to this end, for this purpose.
    pub(crate) number: u64,
}

impl LinkId {
    /// The cachelet that migrates over it, if it is there for one.
    pub fn migrates(&self) -> Option<CacheletId> {
        match self.purpose {
            LinkPurpose::Migration(cachelet) => Some(cachelet),
            LinkPurpose::Replicas => None,
        }
    }
}

/// What a link carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LinkPurpose {
    /// Replicas of hot keys.
    Replicas,
    /// A cachelet that migrates.
    Migration(CacheletId),
}

/// What the driver is asked to do about a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkRequest {
    /// Connect to its worker, then say `link_up` or `link_lost`.
    Connect {
        /// Its name.
        link: LinkId,
        /// Where it listens: host name or IP address.
        host: String,
        /// Its own port.
        port: u16,
    },
    /// Close the connection, without saying `link_lost`.
    Close(LinkId),
}

/// What the next answer on a link is to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    Hello,
    Change(PropagationTag),
}

/// A connection to a shadow worker, or the attempt at one.
#[derive(Debug)]
struct Link {
    number: u64,
    out: Vec<u8>,
    /// What was asked, oldest first, and when.
    asked: VecDeque<(Asked, Instant)>,
}

/// All links of a worker, and what the driver should do about them.
#[derive(Debug, Default)]
pub struct Links {
    links: BTreeMap<WorkerRef, Link>,
    requests: VecDeque<LinkRequest>,
    /// How many there have been.
    made: u64,
}

/// What a worker knows of the cluster.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The worker itself.
    pub me: WorkerRef,
    /// The cluster map, once there is one.
    pub map: Option<&'a ClusterMap>,
    /// Where the server keeps its keys.
    pub placement: &'a LocalPlacement,
}

impl Links {
    /// Executes what the hot keys decided. Must run before anybody is answered anew.
    pub fn execute(&mut self, engine: &mut Engine, now: Now, here: Surroundings<'_>) {
        while engine.hot.has_output() {
            let newest = engine.newest_version();
            let Some(output) = engine.hot.poll_output() else {
                return;
            };
            let (message, line) = match &output {
                Output::Store(message) => {
                    let seconds = TimeBase::seconds(now);
                    let at = here.placement.locate(&engine.store, message.key);
                    let cachelet = at.place.cachelet;
                    let item = (engine.store).peek_hashed(cachelet, message.key, at.table, seconds);
                    // The next who reads what is stale must be told to replace it, which is the home's to do.
                    let item = item.filter(|item| !item.stale());
                    let line = item.map(|item| {
                        let mut line = Vec::new();
                        let mut begun = request::meta_set(
                            &mut line,
                            SentKey::plain(message.key),
                            item.value().len(),
                        )
                        .flag(b'G')
                        .number(b'E', item.version().0)
                        .number(b'Y', message.epoch.0)
                        .number(b'F', item.flags());
                        if item.expires_at() != NEVER {
                            let left = item.expires_at().saturating_sub(seconds);
                            // More seconds would be a date; copies do not live that long.
                            begun = begun.number(b'T', left.min(RELATIVE_MAX_S));
                        }
                        if item.win_sent() {
                            begun = begun.flag(b'I');
                        }
                        begun.end_with(item.value());
                        line
                    });
                    (message, line)
                }
                Output::Block(message) => {
                    let seconds = TimeBase::seconds(now);
                    let at = here.placement.locate(&engine.store, message.key);
                    let cachelet = at.place.cachelet;
                    let item = (engine.store).peek_hashed(cachelet, message.key, at.table, seconds);
                    // Not newer than what will be stored next.
                    let version = item.map_or(newest, |item| item.version());
                    let mut line = Vec::new();
                    request::meta_delete(&mut line, SentKey::plain(message.key))
                        .flag(b'G')
                        .flag(b'I')
                        .number(b'E', version.0)
                        .number(b'Y', message.epoch.0)
                        .end();
                    (message, Some(line))
                }
                Output::Remove(message) => {
                    let mut line = Vec::new();
                    request::meta_delete(&mut line, SentKey::plain(message.key))
                        .flag(b'G')
                        .number(b'E', newest.0)
                        .number(b'Y', message.epoch.0)
                        .end();
                    (message, Some(line))
                }
            };
            let Message { target, tag, .. } = *message;
            match line {
                None => engine.hot.handle_absent(now.monotonic, target, tag),
                Some(line) if self.send(target, tag, &line, now.monotonic, here) => {
                    engine.counters.propagations += 1;
                }
                Some(_) => engine.hot.handle_link_lost(now.monotonic, target),
            }
        }
    }

    /// Puts a message on the link to a shadow, opening it first if there is none. False when there
    /// is no way to the shadow, or the link is too far behind and was dropped.
    fn send(
        &mut self,
        target: WorkerRef,
        tag: PropagationTag,
        line: &[u8],
        now: Instant,
        here: Surroundings<'_>,
    ) -> bool {
        if !self.links.contains_key(&target) {
            let Some((host, port)) = here.map.and_then(|map| map.address(target)) else {
                return false;
            };
            let mut out = Vec::new();
            let epoch = here.map.map_or(evenkeel_types::Epoch(0), ClusterMap::epoch);
            request::hello_from(&mut out, epoch, here.me);
            self.made += 1;
            let number = self.made;
            self.requests.push_back(LinkRequest::Connect {
                link: link_id(target, number),
                host: host.to_owned(),
                port,
            });
            let asked = VecDeque::from([(Asked::Hello, now)]);
            self.links.insert(target, Link { number, out, asked });
        }
        let Some(link) = self.links.get_mut(&target) else {
            return false;
        };
        if link.out.len() + line.len() > LINK_OUT_MAX {
            self.drop_link(target);
            return false;
        }
        link.out.extend_from_slice(line);
        link.asked.push_back((Asked::Change(tag), now));
        true
    }

    /// The driver lost a link, or could not make it.
    pub fn lost(&mut self, engine: &mut Engine, now: Instant, link: LinkId) {
        if self.stands(link) {
            self.links.remove(&link.worker);
            engine.counters.links_lost += 1;
            engine.hot.handle_link_lost(now, link.worker);
        }
    }

    /// Whether it is still the link to its worker.
    pub fn stands(&self, link: LinkId) -> bool {
        let present = self.links.get(&link.worker);
        present.is_some_and(|present| present.number == link.number)
    }

    /// Takes answers from a shadow. Gives the number of bytes consumed.
    pub fn input(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        link: LinkId,
        input: &[u8],
    ) -> usize {
        if !self.stands(link) {
            return input.len();
        }
        let worker = link.worker;
        let mut consumed = 0;
        loop {
            match parse_reply(&input[consumed..], &engine.limits) {
                ReplyOutcome::Incomplete { .. } => return consumed,
                ReplyOutcome::Reply {
                    reply,
                    consumed: length,
                } => {
                    consumed += length;
                    if !self.answered(engine, now, worker, &reply) {
                        break;
                    }
                }
                ReplyOutcome::Malformed => break,
            }
        }
        self.drop_link(worker);
        engine.counters.links_lost += 1;
        engine.hot.handle_link_lost(now, worker);
        input.len()
    }

    /// One answer. False when it fits nothing that was asked.
    fn answered(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        worker: WorkerRef,
        reply: &Reply<'_>,
    ) -> bool {
        let Some(link) = self.links.get_mut(&worker) else {
            return false;
        };
        let Some((asked, _)) = link.asked.pop_front() else {
            return false;
        };
        match (asked, reply) {
            (Asked::Hello, Reply::Hello(hello)) => hello.worker == worker,
            (Asked::Change(tag), Reply::Meta(meta)) if meta.status == MetaStatus::Done => {
                engine.hot.handle_acked(now, worker, tag);
                true
            }
            (Asked::Change(tag), Reply::Meta(_) | Reply::ServerError(_)) => {
                engine.hot.handle_refused(now, worker, tag);
                true
            }
            _ => false,
        }
    }

    /// Drops every link whose oldest message has waited too long.
    pub fn handle_timeout(&mut self, engine: &mut Engine, now: Instant) {
        let late: Vec<WorkerRef> = self
            .links
            .iter()
            .filter(|(_, link)| {
                link.asked
                    .front()
                    .is_some_and(|(_, since)| now.since(*since) >= ACK_TIMEOUT)
            })
            .map(|(worker, _)| *worker)
            .collect();
        for worker in late {
            self.drop_link(worker);
            engine.counters.links_lost += 1;
            engine.hot.handle_link_lost(now, worker);
        }
    }

    /// When the oldest unanswered message will have waited too long.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        // Asked twice a turn, and mostly there are none.
        if self.links.is_empty() {
            return None;
        }
        self.links
            .values()
            .filter_map(|link| link.asked.front().map(|(_, since)| *since + ACK_TIMEOUT))
            .min()
    }

    /// Whether the driver has anything to do besides moving bytes.
    #[inline]
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// What the driver should do next.
    pub fn poll_request(&mut self) -> Option<LinkRequest> {
        self.requests.pop_front()
    }

    /// Bytes to be written to a shadow; the driver removes what it wrote.
    pub fn out(&mut self, link: LinkId) -> Option<&mut Vec<u8>> {
        let present = self.links.get_mut(&link.worker)?;
        (present.number == link.number).then_some(&mut present.out)
    }

    fn drop_link(&mut self, worker: WorkerRef) {
        if let Some(link) = self.links.remove(&worker) {
            let id = link_id(worker, link.number);
            self.requests.push_back(LinkRequest::Close(id));
        }
    }
}

fn link_id(worker: WorkerRef, number: u64) -> LinkId {
    LinkId {
        worker,
        purpose: LinkPurpose::Replicas,
        number,
    }
}
