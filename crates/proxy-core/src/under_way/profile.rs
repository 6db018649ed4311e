//! Which requests are noted for the profile, and what their servers' answers tell.

use crate::client::Client;
use crate::config::ProfileConfig;
use crate::counts::{Counts, Noted};
use crate::hottest::PickedId;
use crate::ids::{BackendId, ClientId, PoolId};
use crate::operations::OperationId;
use crate::output::Output;
use crate::pages::{PageSaid, Visit};
use crate::pipe::backend::Backend;
use crate::pipe::in_flight::{Group, GroupKey, Progress, SPACE, Tag};
use crate::pool::Pool;
use crate::profile::{Asked, Class, Heard, NoteId, Profiler, lifetime};
use crate::worker::ProxyCore;
use evenkeel_profile::{Flags, NO_RACK};
use evenkeel_schemes::locality::topology::RackId;
use evenkeel_types::KeyHash;

/// Rack of a server, by its position in the head.
#[inline]
pub(crate) fn rack_of(backend: &Backend) -> u8 {
    backend.rack.map_or(NO_RACK, RackId::number)
}

/// Begins, goes on or ends to record as it is configured, of these pools. What is under way when that changes is not recorded.
pub(crate) fn take_over_profile(
    core: &mut ProxyCore,
    wanted: Option<&ProfileConfig>,
    pools: &[PoolId],
) {
    let present = core.counts.profiler.as_ref();
    let is_same = match (present, wanted) {
        (Some(present), Some(wanted)) => present.is_by(wanted, pools),
        (present, wanted) => present.is_none() && wanted.is_none(),
    };
    if is_same {
        return;
    }
    hand_over_all(core);
    let (origin, now) = (core.origin_unix_us, core.now);
    let begin = |wanted| Box::new(Profiler::new(wanted, pools.to_vec(), origin, now));
    core.counts.profiler = wanted.map(begin);
    for id in core.clients.ids() {
        if let Some(client) = core.clients.get_mut(id) {
            client.visit = None;
            let slots = client.slots_mut();
            slots.for_each(|slot| slot.note.record = NoteId::NONE);
        }
    }
}

/// Hands over all that is recorded.
pub(crate) fn hand_over_all(core: &mut ProxyCore) {
    if let Some(profiler) = &mut core.counts.profiler {
        for chunk in profiler.take() {
            core.outbox.push(Output::Profile(Box::new(chunk)));
        }
    }
}

/// An application sends something over a connection that comes from somewhere.
#[inline]
pub(crate) fn go_on_with_page(core: &mut ProxyCore, id: ClientId) {
    if let Some(profiler) = &core.counts.profiler
        && let Some(client) = core.clients.get_mut(id)
        && let Some(visit) = &mut client.visit
    {
        visit.go_on(profiler.now, &profiler.sampling);
    }
}

/// A connection comes from here, if nobody has said so before.
pub(crate) fn begin_visit(core: &mut ProxyCore, id: ClientId, from: &[u8]) {
    if let Some(profiler) = &core.counts.profiler
        && let Some(client) = core.clients.get_mut(id)
        && client.visit.is_none()
    {
        let page = core.random.u32();
        let visit = Visit::new(from, page, profiler.now, &profiler.sampling);
        client.visit = Some(Box::new(visit));
    }
}

/// An application says which page it makes.
pub(crate) fn say_page(core: &mut ProxyCore, id: ClientId, said: &PageSaid<'_>) {
    if let Some(profiler) = &core.counts.profiler
        && let Some(client) = core.clients.get_mut(id)
        && let Some(visit) = &mut client.visit
    {
        visit.say(said, &profiler.sampling);
    }
}

/// A request about a key that gets its place among the answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placing<'k> {
    pub client: ClientId,
    pub pool: PoolId,
    /// The key by the name that servers know.
    pub key: &'k [u8],
    /// By which hash it was distributed, if that is known.
    pub hash: Option<u64>,
    pub class: Class,
    pub exptime: Option<i64>,
    /// Bytes of the value that comes with it.
    pub value_len: usize,
}

impl<'k> Placing<'k> {
    /// Of a read.
    #[inline]
    pub fn read(client: ClientId, pool: PoolId, key: &'k [u8], hash: Option<u64>) -> Self {
        Placing {
            client,
            pool,
            key,
            hash,
            class: Class::Get,
            exptime: None,
            value_len: 0,
        }
    }
}

/// Notes a request about a key if it is to be recorded, or is one of those by which the hottest keys are known.
#[inline]
pub(crate) fn note(core: &mut ProxyCore, placing: &Placing<'_>) -> Noted {
    let record = match core.counts.profiler {
        None => NoteId::NONE,
        Some(_) => note_placed(core, placing),
    };
    let picked = match core.counts.hottest.picks() {
        false => PickedId::NONE,
        true => note_picked(core, placing),
    };
    Noted { record, picked }
}

#[cold]
fn note_picked(core: &mut ProxyCore, placing: &Placing<'_>) -> PickedId {
    let servers = core.pools.get(placing.pool).and_then(Pool::list);
    let key = servers.map_or(placing.key, |servers| servers.key_of(placing.key));
    let hottest = &mut core.counts.hottest;
    match placing.class {
        Class::Other | Class::Flush => PickedId::NONE,
        Class::Get => hottest.note_read(placing.pool, key),
        _ => {
            hottest.count_write(placing.pool, key, placing.value_len);
            PickedId::NONE
        }
    }
}

#[inline(never)]
fn note_placed(core: &mut ProxyCore, placing: &Placing<'_>) -> NoteId {
    let client = core.clients.get(placing.client);
    let visit = client.and_then(|client| client.visit.as_deref());
    let (Some(profiler), Some(visit)) = (&mut core.counts.profiler, visit) else {
        return NoteId::NONE;
    };
    let pool = core.pools.get(placing.pool);
    let servers = pool.and_then(Pool::list);
    let key = servers.map_or(placing.key, |servers| servers.key_of(placing.key));
    let hash = placing.hash.unwrap_or_else(|| match servers {
        Some(servers) => servers.list().hashed(key).1,
        None => KeyHash::of(key).0,
    });
    let sampled = profiler.picks(visit, hash);
    if sampled == Flags::default() {
        return NoteId::NONE;
    }
    let asked = Asked {
        pool: Some(placing.pool),
        key,
        class: placing.class,
        lifetime: lifetime(placing.exptime, core.unix),
    };
    profiler.note(visit, &asked, sampled)
}

/// Notes a `flush_all` if it is to be recorded: as if it were of the empty key.
pub(crate) fn note_flush(core: &mut ProxyCore, id: ClientId) -> Noted {
    let visit = core.clients.get(id).and_then(|it| it.visit.as_deref());
    let (Some(profiler), Some(visit)) = (&mut core.counts.profiler, visit) else {
        return Noted::NONE;
    };
    let sampled = profiler.picks(visit, 0);
    if sampled == Flags::default() {
        return Noted::NONE;
    }
    let asked = Asked {
        pool: None,
        key: b"",
        class: Class::Flush,
        lifetime: lifetime(None, core.unix),
    };
    Noted {
        record: profiler.note(visit, &asked, sampled),
        ..Noted::NONE
    }
}

impl Heard {
    /// What the answer to this request tells, of a server in this rack.
    #[inline]
    pub fn of(tag: &Tag, rack: u8) -> Self {
        let replica = Flags::REPLICA.when(tag.is_replica);
        Heard {
            rack,
            flags: replica.and(Flags::RETRIED.when(tag.retries > 0)),
        }
    }

    /// The same of a copy, if it is one.
    pub fn of_copy(self, is_copy: bool) -> Self {
        Heard {
            flags: self.flags.and(Flags::COPY.when(is_copy)),
            ..self
        }
    }
}

/// Nothing more is to come about these keys of a line.
pub(crate) fn profile_rest(counts: &mut Counts, client: &mut Client, group: &Group, heard: &Heard) {
    if counts.profiler.is_none() {
        return;
    }
    for (key, place) in group.left() {
        profile_key(counts, Some(&mut *client), key, place.len(), heard);
    }
}

/// This key of a line is answered, which has a name of this many bytes there.
#[inline]
pub(crate) fn profile_key(
    counts: &mut Counts,
    client: Option<&mut Client>,
    key: GroupKey,
    name_len: usize,
    heard: &Heard,
) {
    if counts.profiler.is_some()
        && let Some(slot) = client.and_then(|client| client.slot(key.slot))
    {
        counts.heard(slot.note, SPACE + name_len, heard);
    }
}

/// A server answers the awaited request, for anyone who asked it. Of a line for several keys each is heard where its part of the answer is found.
#[inline]
pub(crate) fn handle(core: &mut ProxyCore, id: BackendId) {
    if core.counts.profiler.is_some() {
        handle_answer(core, id);
    }
}

#[inline(never)]
fn handle_answer(core: &mut ProxyCore, id: BackendId) {
    let Some(backend) = core.backends.get_mut(id) else {
        return;
    };
    let rack = rack_of(backend);
    let Some((question, request)) = backend.awaited() else {
        return;
    };
    let tag = request.tag;
    let heard = Heard::of(&tag, rack);
    let (clients, counts) = (&mut core.clients, &mut core.counts);
    let mut handle = |client, slot| {
        let client = clients.get_mut(client);
        if let Some(slot) = client.and_then(|client| client.slot(slot)) {
            counts.heard(slot.note, question.len(), &heard);
        }
    };
    // A step is the application's whose command takes it.
    let operation = OperationId::of_step(&tag).and_then(|step| core.operations.get(step));
    match (&request.progress, operation) {
        (_, Some(operation)) if !operation.is_fill => {
            let asked = &operation.question.tag;
            handle(asked.client, asked.slot);
        }
        (Progress::Group(_), _) => {}
        (Progress::Shared(others), _) => {
            handle(tag.client, tag.slot);
            for &(client, slot) in others.iter() {
                handle(client, slot);
            }
        }
        _ => handle(tag.client, tag.slot),
    }
}
