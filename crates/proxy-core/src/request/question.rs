//! Asking: where a request goes, and putting it into the queue of a backend.
//!
//! A request is written straight into the queue. At an Evenkeel worker it ends in our own flags:
//! the epoch we route by, the cachelet we believe the key to be in, and whether the replica is meant.
//! Where they stand is remembered, so that the same request can be put to another worker with other
//! flags.

use crate::client::{Slot, State};
use crate::draft::{Draft, Intent, Tells};
use crate::failure::Failure;
use crate::ids::BackendId;
use crate::limits::STREAM_MIN;
use crate::pipe::in_flight::{Progress, Question, Tag};
use crate::pool::sent::Sent;
use crate::pool::{Pool, Servers};
use crate::route_flags::RouteFlags;
use crate::show::kinds::Show;
use crate::under_way::by_stage::ask_by_stage;
use crate::under_way::crossing;
use crate::under_way::fail::fail;
use crate::under_way::operation::begin_write;
use crate::under_way::park::{await_owner, await_reads};
use crate::under_way::profile::{Placing, note};
use crate::under_way::put::put;
use crate::under_way::release::release;
use crate::warm::mask_condition;
use crate::worker::ProxyCore;
use evenkeel_hotkeys::client::{ReadTicket, Route, WriteTicket};
use evenkeel_hotkeys::plain::NamePrefix;
use evenkeel_protocol::{LINE_LEN_MAX, text};
use evenkeel_schemes::stage::Stage;
use evenkeel_types::{Epoch, Instant, KeyHash};

/// Where a new request goes.
#[derive(Debug)]
struct Placed {
    /// Placement hash of the key, where the pool needs it.
    hash: KeyHash,
    /// The hash by which the key was distributed, if that is known.
    dealt_by: Option<u64>,
    target: Result<BackendId, Failure>,
    flags: RouteFlags,
    ticket: Option<ReadTicket>,
    /// What the copy of a plain pool's hot key is called that is asked.
    name: Option<NamePrefix>,
    /// What a write of a leased key is to come back with.
    write: Option<WriteTicket>,
}

/// Asks a new request whose bytes `write` appends, given our own flags. It gets a slot among the
/// client's answers; if it cannot be asked, the slot holds the failure.
#[inline]
pub(crate) fn ask_new(
    core: &mut ProxyCore,
    now: Instant,
    draft: &Draft<'_>,
    write: impl Fn(&mut Vec<u8>, &[u8]),
) {
    let stage = core.pools.stage(draft.pool, draft.key);
    let mask = core.pools.condition_mask(draft.pool, draft.key);
    let write = |out: &mut Vec<u8>, flags: &[u8]| {
        let start = out.len();
        write(out, flags);
        if mask != 0 && takes_steps(draft) {
            mask_condition(out, start, mask);
        }
    };
    let is_early = stage.is_some_and(|stage| stage < Stage::Warming);
    if is_early || takes_steps(draft) && core.pools.awaits_switch(draft.pool) {
        return ask_early(core, now, draft, &write);
    }
    let Placed {
        hash,
        dealt_by,
        target,
        flags,
        ticket,
        name,
        write: write_ticket,
    } = place(core, now, draft);
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
    let note = note(core, &placing(draft, dealt_by));
    let Some(client) = core.clients.get_mut(draft.client) else {
        return;
    };
    let slot = client.push(Slot {
        show: draft.show,
        state: State::Waiting,
        ticket: ticket.map(|ticket| (draft.pool, ticket)),
        rename: draft.rename,
        route: draft.route,
        note,
    });
    let mut is_behind_copies = false;
    if takes_steps(draft) && core.pools.keeps_copies(draft.pool) {
        client.copied_write = Some(slot);
        is_behind_copies = client.awaits_copied_read();
    }
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
    let crosses = core.pools.racks(draft.pool).is_some();
    if (stage.is_some_and(Stage::takes_steps) || crosses) && takes_steps(draft) {
        let mut bytes = Vec::new();
        write(&mut bytes, flags.text());
        tag.flags = flags.place(bytes.len(), draft.behind_flags);
        let question = Question {
            tag,
            bytes,
            progress: Progress::Nothing,
        };
        match core.clients.awaits_before(&tag) {
            // What it reads and writes at two places would not keep the order.
            true => await_reads(core, now, question),
            false if crosses => crossing::begin_asked(core, now, question),
            false => begin_write(core, now, question),
        }
        return release(core, now, draft.client);
    }
    let target = match is_behind_copies {
        // What is not at a copy is read at home, where this must not be before.
        true => Err(Failure::BehindReads),
        false => target,
    };
    let len_max = LINE_LEN_MAX + draft.behind_flags;
    let home = target.as_ref().ok().copied();
    match target.and_then(|to| core.admit(to, len_max)) {
        Ok(to) => {
            if draft.behind_flags >= STREAM_MIN
                && let Some(backend) = core.backends.get_mut(to)
            {
                core.rooms.lend(backend.tail(), len_max);
            }
            put(core, now, to, tag, Progress::Nothing, |out| {
                let before = out.len();
                write(out, flags.text());
                flags.place(out.len() - before, draft.behind_flags)
            });
        }
        Err(failure) => {
            if let (Intent::Write, Failure::Unavailable(..), Some(home)) =
                (draft.intent, &failure, home)
            {
                core.backends.note_refused(home, draft.key);
            }
            let awaits_reads = failure == Failure::BehindReads;
            let waits = awaits_reads
                || (failure == Failure::NoOwner && !tag.is_read)
                || core.pools.may_wait_for_map(&tag, &failure);
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
                await_reads(core, now, question);
            } else if waits {
                await_owner(core, now, question);
            } else {
                fail(core, question, &failure);
            }
            release(core, now, draft.client);
        }
    }
}

/// Asks a new request of a pool whose own servers are not asked yet.
#[cold]
fn ask_early(
    core: &mut ProxyCore,
    now: Instant,
    draft: &Draft<'_>,
    write: &dyn Fn(&mut Vec<u8>, &[u8]),
) {
    let note = note(core, &placing(draft, None));
    let Some(client) = core.clients.get_mut(draft.client) else {
        return;
    };
    let slot = client.push(Slot {
        rename: draft.rename,
        route: draft.route,
        note,
        ..Slot::new(draft.show, State::Waiting)
    });
    let mut tag = Tag {
        hash: KeyHash::of(draft.key),
        is_read: !takes_steps(draft),
        route: draft.route,
        ..Tag::new(draft.client, draft.pool, slot, draft.ask, now)
    };
    // Servers of a cluster may be asked in the end, which are told by which map.
    let is_plain = core.pools.get(draft.pool).is_some_and(Pool::is_plain);
    let flags = match is_plain {
        true => RouteFlags::default(),
        false => RouteFlags::new(Epoch(0), false, 0),
    };
    let mut bytes = Vec::new();
    write(&mut bytes, flags.text());
    tag.flags = flags.place(bytes.len(), draft.behind_flags);
    let question = Question {
        tag,
        bytes,
        progress: Progress::Nothing,
    };
    ask_by_stage(core, now, question);
    release(core, now, draft.client);
}

/// What is recorded of it.
fn placing<'k>(draft: &Draft<'k>, dealt_by: Option<u64>) -> Placing<'k> {
    Placing {
        client: draft.client,
        pool: draft.pool,
        key: draft.key,
        hash: dealt_by,
        class: draft.class,
        exptime: draft.exptime,
        // The value's own line end is behind it.
        value_len: draft.behind_flags.saturating_sub(2 * text::CRLF.len()),
    }
}

/// Whether a request takes several steps from the beginning in a pool that is warmed from another.
fn takes_steps(draft: &Draft<'_>) -> bool {
    matches!(
        draft.intent,
        Intent::Write | Intent::Touch | Intent::ReadAndWrite
    )
}

/// Finds out where a new request goes. In an Evenkeel pool it also tells the pool's CSM cache of
/// it, which decides whether a read goes to a replica.
#[inline]
fn place(core: &mut ProxyCore, now: Instant, draft: &Draft<'_>) -> Placed {
    let mut placed = Placed {
        // The ring needs the key itself; nothing is looked up by hash in other pools.
        hash: KeyHash(0),
        dealt_by: None,
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
    }) = core.pools.get_mut(draft.pool)
    else {
        return placed;
    };
    let pool = match servers {
        Servers::Memcached(pool) => {
            let home = match pool.ring() {
                Some(_) => pool.home(draft.key),
                None => {
                    let (home, hash) = pool.home_and_hash(draft.key);
                    placed.dealt_by = Some(hash);
                    home
                }
            };
            placed.target = Ok(draft.place.unwrap_or(home));
            if core.pools.watches()
                && let Some(sent) = core
                    .pools
                    .watch(&core.backends, (now, Epoch(core.era)), draft)
            {
                core.counts.stats.replica_reads += u64::from(sent.name.is_some());
                placed.hash = sent.ticket.hash();
                placed.target = Ok(sent.to);
                (placed.ticket, placed.name) = (Some(sent.ticket), sent.name);
            }
            return placed;
        }
        Servers::Evenkeel(pool) => pool,
    };
    let hash = KeyHash::of(draft.key);
    (placed.hash, placed.dealt_by) = (hash, Some(hash.0));
    let era = pool.era();
    let mut load = |suffix| {
        let copy = match suffix {
            0 => pool.home(hash)?.1,
            suffix => pool.shadow(draft.key, hash, suffix),
        };
        core.backends.get(copy?)?.burden(now)
    };
    let connection = draft.client.connection();
    // None of them may be shown what this writes; see `ClientLeases::knows`.
    let is_behind_reads = draft.intent == Intent::Write
        && leases.knows(hash)
        && core
            .clients
            .get(draft.client)
            .is_some_and(|client| client.reads(hash));
    match draft.intent {
        Intent::Read => {
            let ticket = leases.route_read(now, era, (hash, connection), &mut load);
            core.counts.stats.reads_behind_writes += u64::from(ticket.is_behind_write());
            placed.ticket = Some(ticket);
        }
        Intent::ReadAtHome => placed.ticket = Some(leases.home_read(now, era, (hash, connection))),
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
            true => RouteFlags::asking_version(pool.epoch(), mark),
            false => RouteFlags::new(pool.epoch(), suffix > 0, mark).counting(told.unwrap_or(0)),
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
            core.counts.stats.replica_reads += 1;
            pool.shadow(draft.key, hash, suffix)
        }
    };
    placed.target = target.ok_or_else(|| pool.why_homeless(hash));
    placed
}
