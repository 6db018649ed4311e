//! Answers about hot keys, and what is stored of them.

use crate::client::{Answered, HeldRead, Show, State};
use crate::pipe::in_flight::{Ask, Progress, Question, Tag};
use crate::pool::hot::{FILLER, wants_of};
use crate::pool::{Pool, PoolId, Servers};
use crate::request::multi_get::key_of_get;
use crate::routes::Rename;
use crate::show::{Tally, Unfit};
use crate::{BackendId, ProxyCore, show};
use evenkeel_hotkeys::client::Answer;
use evenkeel_hotkeys::client::Verdict;
use evenkeel_hotkeys::plain::Fill;
use evenkeel_hotkeys::plain::Found;
use evenkeel_hotkeys::plain::NAME_PREFIX_LEN;
use evenkeel_hotkeys::plain::REPLICA_EXPTIME_SECS;
use evenkeel_hotkeys::plain::Recaching;
use evenkeel_protocol::LINE_LEN_MAX;
use evenkeel_protocol::MetaStatus;
use evenkeel_protocol::Reply;
use evenkeel_protocol::Store;
use evenkeel_protocol::StoreVerb;
use evenkeel_protocol::Value;
use evenkeel_protocol::compose::answer;
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::text;
use evenkeel_types::Instant;
use evenkeel_types::KeyHash;
use evenkeel_types::Version;

impl ProxyCore {
    /// A part of the answer to a read of one hot key.
    pub(crate) fn hot_reply(
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
        let outcome = match (reply, &request.progress) {
            (Reply::Value(_), _) | (Reply::End, Progress::Answered) => Tally::GetHit,
            (Reply::End, _) => Tally::GetMiss,
            _ => Tally::Refused,
        };
        request.saw(raw.len(), outcome);
        match (&request.progress, reply) {
            (Progress::Nothing | Progress::Shared(_), Reply::Value(value))
                if *value.key == *key =>
            {
                self.settle_hot(now, id, reply, raw)?;
                let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
                backend.awaited().ok_or(Unfit)?.1.progress = Progress::Answered;
            }
            (Progress::Nothing | Progress::Shared(_), _) if is_end => {
                self.settle_hot(now, id, reply, raw)?;
                self.done(id);
            }
            (Progress::Answered, _) if is_end => self.done(id),
            _ => return Err(Unfit),
        }
        Ok(())
    }

    fn settle_hot(
        &mut self,
        now: Instant,
        id: BackendId,
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<(), Unfit> {
        self.for_each_asker(now, id, (reply, raw), |proxy, tag, (reply, raw)| {
            proxy.settle_hot_for(now, id, tag, reply, raw)
        })
    }

    /// The value, or that there is none, or why there is no answer, for one of those who asked: shows it,
    /// keeps it for its turn, or asks the home.
    fn settle_hot_for(
        &mut self,
        now: Instant,
        id: BackendId,
        tag: Tag,
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<(), Unfit> {
        let era = self.plain_era();
        let backend = self.backends.get_mut(id.0).ok_or(Unfit)?;
        let (question, _) = backend.awaited().ok_or(Unfit)?;
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
        let (_, ticket) = slot.ticket.take().ok_or(Unfit)?;
        let pool = self.pools.get_mut(tag.pool.0).ok_or(Unfit)?;
        let Pool { hot, leases, .. } = pool;
        let mut hot = hot.as_deref_mut();
        let own_cas = match reply {
            Reply::Value(value) => value.cas,
            _ => None,
        };
        let (answer, cas) = match (hot.as_deref_mut(), reply) {
            (_, reply) if show::is_error(reply) => (Answer::Failed, None),
            (Some(hot), _) if tag.is_replica => {
                let is_found = matches!(reply, Reply::Value(_));
                hot.answer_of_copy(&ticket, name, is_found, wants_of(shown_as))
            }
            (Some(hot), reply) => {
                let is_current = leases.is_of(era, &ticket);
                let answer = hot.answer_of_home(is_current, &ticket, key, found(reply));
                (answer, own_cas)
            }
            // Not looked for any more, so that an era has begun, by which the answer does not count.
            (None, _) if tag.is_replica => (Answer::Failed, None),
            (None, _) => (Answer::Hit(Version(0)), own_cas),
        };
        let has_fill = hot.is_some_and(|hot| hot.has_fill(now, tag.hash));
        let fill = (has_fill && !tag.is_replica).then(|| key.to_vec());
        self.stats.proxy_replica_hits +=
            u64::from(tag.is_replica && matches!(answer, Answer::Hit(_)));
        client.saw_answer(raw.len());
        let is_front = client.is_front(tag.slot);
        let mut may_show = is_front && !show::is_error(reply);
        let mut ticket = Some(ticket);
        if may_show
            && let Some(released) = ticket.take()
            && let Verdict::AskHome(again) = leases.release(now, era, released, answer)
        {
            may_show = false;
            ticket = Some(again);
        }
        let shown = Shown {
            shown_as,
            rename,
            key,
            cas,
        };
        if may_show {
            let out = client.out();
            let before = out.len();
            let tally = shown.compose(out, question, reply, raw)?;
            let bytes = out.len() - before;
            self.per_route.count(&mut self.stats, route, tally, bytes);
            client.pop();
            client.end_key(shown_as);
            self.write_client(tag.client);
            if let (Some(key), Reply::Value(value)) = (fill, reply) {
                self.fill_copies(now, tag.pool, &key, value.flags, value.data);
            }
            return Ok(());
        }
        let asks_home = is_front && !show::is_error(reply);
        // What a copy says that does not count is shown to nobody.
        let is_void = asks_home || tag.is_replica && answer == Answer::Failed;
        let mut bytes = self.spare.pop().unwrap_or_default();
        let tally = match is_void {
            true => Tally::Nothing,
            false => shown.compose(&mut bytes, question, reply, raw)?,
        };
        let question = Question {
            tag,
            bytes: question.to_vec(),
            progress: Progress::Nothing,
        };
        if let Some(slot) = client.slot(tag.slot) {
            slot.ticket = ticket.map(|ticket| (tag.pool, ticket));
        }
        if asks_home {
            self.keep_buffer(bytes);
            self.ask_home(now, question, answer);
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
            self.fill_copies(now, tag.pool, &key, value.flags, value.data);
        }
        Ok(())
    }

    /// Stores the copies that lack what the home has just answered.
    pub(crate) fn fill_copies(
        &mut self,
        now: Instant,
        pool_id: PoolId,
        key: &[u8],
        flags: u32,
        value: &[u8],
    ) {
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
            let len_max = LINE_LEN_MAX + value.len() + text::CRLF.len();
            match self.admit(to, len_max) {
                Ok(to) => self.fill_copy(now, pool_id, to, &fill, key, (flags, value)),
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
        (flags, value): (u32, &[u8]),
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
            flags,
            exptime: REPLICA_EXPTIME_SECS.into(),
            value,
            noreply: false,
        };
        self.put(now, to, tag, Progress::Nothing, |out| {
            ask::store(out, &store);
            (0, 0)
        });
    }

    /// A server has answered to a replica that it was to store.
    pub(crate) fn filled(
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

/// What an answer of the home says about the item.
pub(crate) fn found<'a>(reply: &Reply<'a>) -> Found<'a> {
    let meta = match reply {
        Reply::Value(value) => {
            return Found::Value {
                flags: value.flags,
                value: value.data,
                cas: value.cas,
                recaching: Recaching::Untold,
            };
        }
        Reply::End => return Found::Absent,
        Reply::Meta(meta) if meta.status == MetaStatus::Miss => return Found::Absent,
        Reply::Meta(meta) => meta,
        _ => return Found::Unknown,
    };
    let recaching = match b"WXZ".iter().any(|&letter| meta.flags.has(letter)) {
        true => Recaching::Yes,
        false => Recaching::No,
    };
    let flags = meta.flags.unsigned(b'f');
    let flags = flags.and_then(|flags| u32::try_from(flags).ok());
    let cas = meta.flags.unsigned(b'c').map(Version);
    match (meta.value, flags, cas) {
        (Some(value), Some(flags), cas) => Found::Value {
            flags,
            value,
            cas,
            recaching,
        },
        (_, _, Some(cas)) => Found::Unique { cas, recaching },
        _ => Found::Unknown,
    }
}

/// What the application gets to see of a key.
struct Shown<'a> {
    shown_as: Show,
    rename: Option<&'a Rename>,
    /// The servers' name of the key, whatever the copy is called.
    key: &'a [u8],
    /// The home's CAS unique.
    cas: Option<Version>,
}

impl Shown<'_> {
    fn compose(
        &self,
        out: &mut Vec<u8>,
        question: &[u8],
        reply: &Reply<'_>,
        raw: &[u8],
    ) -> Result<Tally, Unfit> {
        let Shown {
            shown_as,
            rename,
            key,
            cas,
        } = *self;
        match (reply, shown_as) {
            (Reply::Value(value), Show::Value { with_cas, .. }) => {
                let cas = match with_cas {
                    true => Some(cas.ok_or(Unfit)?),
                    false => None,
                };
                let mut renamed = Vec::new();
                let key = match rename {
                    None => key,
                    Some(rename) => {
                        rename.to_outside(key, &mut renamed);
                        &renamed
                    }
                };
                answer::value(out, key, value.flags, value.data, cas);
                Ok(Tally::GetHit)
            }
            (Reply::Value(value), _) => {
                let reply = Reply::Value(Value { key, cas, ..*value });
                show::compose(out, shown_as, rename, question, &reply, raw)
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
}
