//! Answers about hot keys, and what is stored of them.

use super::FILLER;
use crate::proxy::backend::{Ask, Progress, Question, Tag};
use crate::proxy::client::{Answered, HeldRead, Show, State};
use crate::proxy::multi_get::key_of_get;
use crate::proxy::pool::{PoolId, Servers};
use crate::proxy::routes::Rename;
use crate::proxy::show::{self, Tally, Unfit};
use crate::proxy::{BackendId, ProxyCore};
use evenkeel_policy::hot_keys::client::{Answer, ReadTicket, Verdict};
use evenkeel_policy::hot_keys::plain::{
    Fill, Found, NAME_PREFIX_LEN, PlainHotKeys, REPLICA_EXPTIME_SECS,
};
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::{
    KeyScratch, LINE_LEN_MAX, MetaReply, MetaStatus, Reply, Store, StoreVerb, Value, text,
};
use evenkeel_types::{Epoch, Instant, KeyHash, Version};

impl ProxyCore {
    /// A part of the answer to a read of one hot key.
    pub(in crate::proxy) fn hot_reply(
        &mut self,
        now: Instant,
        id: BackendId,
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<(), Unfit> {
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        let (question, request) = backend.awaited().ok_or(Unfit)?;
        let key = key_of_get(question).ok_or(Unfit)?;
        let is_end = matches!(reply, Reply::End) || show::is_error(reply);
        match (&request.progress, reply) {
            (Progress::Nothing, Reply::Value(value)) if *value.key == *key => {
                request.progress = Progress::Answered;
                self.settle_hot(now, id, reply, raw)?;
            }
            (Progress::Nothing, _) if is_end => {
                self.settle_hot(now, id, reply, raw)?;
                self.done(id);
            }
            (Progress::Answered, _) if is_end => self.done(id),
            _ => return Err(Unfit),
        }
        Ok(())
    }

    /// The value, or that there is none, or why there is no answer: shows it, keeps it for its turn, or
    /// asks the home.
    fn settle_hot(
        &mut self,
        now: Instant,
        id: BackendId,
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<(), Unfit> {
        let era = self.plain_era();
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        let (question, request) = backend.awaited().ok_or(Unfit)?;
        let tag = request.tag;
        let key = key_of_get(question).ok_or(Unfit)?;
        let (name, key) = if tag.is_replica {
            key.split_at_checked(NAME_PREFIX_LEN).ok_or(Unfit)?
        } else {
            (&b""[..], key)
        };
        let Some(client) = self.clients.get_mut(tag.client.0) else {
            return Ok(());
        };
        let slot = client.slot(tag.slot).ok_or(Unfit)?;
        let (shown_as, rename) = (slot.show, self.renames.get(slot.rename));
        let route = slot.route;
        let ticket = slot.ticket.take().ok_or(Unfit)?;
        let pool = self.pools.get_mut(tag.pool.0);
        let mut hot = pool.and_then(|pool| pool.hot.as_deref_mut());
        let answer = match (hot.as_deref_mut(), reply) {
            (_, reply) if show::is_error(reply) => Answer::Failed,
            (Some(hot), _) if tag.is_replica => {
                let is_found = matches!(reply, Reply::Value(_));
                hot.answer_of_copy(&ticket, name, is_found)
            }
            (Some(hot), reply) => hot.answer_of_home(era, &ticket, key, found(reply)),
            // Not looked for any more, so that an era has begun, by which the answer does not count.
            (None, _) if tag.is_replica => Answer::Failed,
            (None, _) => Answer::Hit(Version(0)),
        };
        let has_fill = hot.is_some_and(|hot| hot.has_fill(now, tag.hash));
        let fill = (has_fill && !tag.is_replica).then(|| key.to_vec());
        self.stats.proxy_replica_hits +=
            u64::from(tag.is_replica && matches!(answer, Answer::Hit(_)));
        client.saw_answer(raw.len());
        let is_front = client.is_front(tag.slot);
        let mut may_show = is_front && !show::is_error(reply);
        let mut ticket = Some(ticket);
        if may_show && let Some(released) = ticket.take() {
            let leases = client.leases.of(tag.pool);
            if let Verdict::AskHome(again) = leases.release(now, era, released, answer) {
                may_show = false;
                ticket = Some(again);
            }
        }
        if may_show {
            let shown = (shown_as, rename);
            let out = client.out();
            let before = out.len();
            let tally = compose(out, shown, key, question, reply, raw)?;
            let bytes = out.len() - before;
            self.per_route.count(&mut self.stats, route, tally, bytes);
            client.pop();
            client.end_key(shown_as);
            self.write_client(tag.client);
            if let (Some(key), Reply::Value(value)) = (fill, reply) {
                self.fill_copies(now, tag.pool, &key, value);
            }
            return Ok(());
        }
        let asks_home = is_front && !show::is_error(reply);
        let question = Question {
            tag,
            bytes: question.to_vec(),
            progress: Progress::Nothing,
        };
        let mut bytes = self.spare.pop().unwrap_or_default();
        let shown = (shown_as, rename);
        let tally = compose(&mut bytes, shown, key, &question.bytes, reply, raw)?;
        if let Some(slot) = client.slot(tag.slot) {
            slot.ticket = ticket;
        }
        if asks_home {
            self.keep_buffer(bytes);
            self.ask_home(now, question);
        } else {
            let answered = Answered {
                bytes,
                is_error: show::is_error(reply),
                tally,
            };
            let held = HeldRead {
                answered,
                answer,
                question,
            };
            client.set_state(tag.slot, State::Read(Box::new(held)));
        }
        if let (Some(key), Reply::Value(value)) = (fill, reply) {
            self.fill_copies(now, tag.pool, &key, value);
        }
        Ok(())
    }

    /// Stores the copies that lack what the home has just answered.
    fn fill_copies(&mut self, now: Instant, pool_id: PoolId, key: &[u8], value: &Value<'_>) {
        let hash = KeyHash::of(key);
        loop {
            let Some(pool) = self.pools.get_mut(pool_id.0) else {
                return;
            };
            let (Some(hot), Servers::Memcached(servers)) = (&mut pool.hot, &pool.servers) else {
                return;
            };
            let Some(fill) = hot.poll_fill(now, hash) else {
                return;
            };
            let to = servers.backends()[fill.server];
            let len_max = LINE_LEN_MAX + value.data.len() + text::CRLF.len();
            match self.admit(to, len_max) {
                Ok(to) => self.fill_copy(now, pool_id, to, &fill, key, value),
                Err(_) => self.copy_failed(now, pool_id, hash, fill.suffix),
            }
        }
    }

    fn fill_copy(
        &mut self,
        now: Instant,
        pool: PoolId,
        to: BackendId,
        fill: &Fill,
        key: &[u8],
        value: &Value<'_>,
    ) {
        let tag = Tag {
            hash: KeyHash::of(key),
            is_replica: true,
            ..Tag::new(FILLER, pool, fill.suffix.into(), Ask::Single, now)
        };
        let name = [fill.name.as_bytes(), key].concat();
        let store = Store {
            verb: StoreVerb::Set,
            key: &name,
            flags: value.flags,
            exptime: REPLICA_EXPTIME_SECS.into(),
            value: value.data,
            noreply: false,
        };
        self.put(now, to, tag, Progress::Nothing, |out| {
            ask::store(out, &store);
            (0, 0)
        });
    }

    /// A server has answered to a replica that it was to store.
    pub(in crate::proxy) fn filled(
        &mut self,
        now: Instant,
        tag: &Tag,
        reply: &Reply<'_>,
    ) -> Result<(), Unfit> {
        match reply {
            Reply::Stored => Ok(()),
            reply if show::is_error(reply) || matches!(reply, Reply::NotStored) => {
                self.stats.proxy_replica_fills_refused += 1;
                self.copy_failed(now, tag.pool, tag.hash, tag.slot as u8);
                Ok(())
            }
            _ => Err(Unfit),
        }
    }

    /// A copy cannot be stored or asked for.
    fn copy_failed(&mut self, now: Instant, pool: PoolId, hash: KeyHash, suffix: u8) {
        if let Some(pool) = self.pools.get_mut(pool.0)
            && let Some(hot) = &mut pool.hot
        {
            hot.handle_copy_failed(now, hash, suffix);
        }
    }
}

/// What the answer to an `mg` of a plain pool's key counts, whose question this was.
pub(in crate::proxy) fn answer_of_meta(
    hot: Option<&mut PlainHotKeys>,
    era: Epoch,
    ticket: &ReadTicket,
    question: &[u8],
    reply: &Reply<'_>,
) -> Answer {
    let (Some(hot), Reply::Meta(_)) = (hot, reply) else {
        return Answer::Failed;
    };
    let mut scratch = KeyScratch::default();
    let key = match crate::proxy::failover::parse_own(question) {
        Some(evenkeel_protocol::Request::MetaGet(meta)) => meta.key.decode(&mut scratch),
        _ => return Answer::Failed,
    };
    hot.answer_of_home(era, ticket, key, found(reply))
}

/// What an answer of the home says about the item.
fn found<'a>(reply: &Reply<'a>) -> Found<'a> {
    match reply {
        Reply::Value(value) => Found::Value {
            flags: value.flags,
            value: value.data,
        },
        Reply::End => Found::Absent,
        Reply::Meta(MetaReply {
            status: MetaStatus::Miss,
            ..
        }) => Found::Absent,
        Reply::Meta(meta) => match (meta.value, meta.flags.unsigned(b'f')) {
            (Some(value), Some(flags)) => match u32::try_from(flags) {
                Ok(flags) => Found::Value { flags, value },
                Err(_) => Found::Unknown,
            },
            _ => Found::Unknown,
        },
        _ => Found::Unknown,
    }
}

/// Writes what the application gets to see of a key, by the name that it knows.
fn compose(
    out: &mut Vec<u8>,
    (shown_as, rename): (Show, Option<&Rename>),
    key: &[u8],
    question: &[u8],
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<Tally, Unfit> {
    const WORD: &[u8] = b"VALUE ";
    match (reply, shown_as) {
        (Reply::Value(value), Show::Binary(_)) => {
            let reply = Reply::Value(Value { key, ..*value });
            show::compose(out, shown_as, rename, question, &reply, raw)
        }
        (Reply::Value(value), _) => {
            out.extend_from_slice(WORD);
            match rename {
                Some(rename) => rename.to_outside(key, out),
                None => out.extend_from_slice(key),
            }
            let behind = raw.get(WORD.len() + value.key.len()..);
            out.extend_from_slice(behind.unwrap_or_default());
            Ok(Tally::GetHit)
        }
        (Reply::End, Show::Binary(echo)) => {
            show::binary::miss(out, echo, rename, question);
            Ok(Tally::GetMiss)
        }
        (Reply::End, _) => Ok(Tally::GetMiss),
        _ => {
            out.extend_from_slice(&show::refusal(shown_as, raw.to_vec()));
            Ok(Tally::Refused)
        }
    }
}
