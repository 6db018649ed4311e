//! Commands between racks: asking what their machines say, and telling them what came of it.
//!
//! An application's command that its own place cannot answer alone is kept aside ([`Crossings`](crate::crossings::Crossings)). Its steps,
//! the application's own command among them, are requests of nobody's connection, each put to the pool of its site: the answer tells the
//! site by that pool. Several may be under way side by side.
//!
//! A step of another command, at the pool that its own one is warmed from, is executed here like an application's request.
//!
//! All that counts on a unique goes over the connection on which it was learnt there. If that is another one by now, the condition is taken
//! not to hold: a server that was started anew counts its uniques anew.

use crate::across::{
    Words, bringing, found_here, get, heard_of_bringing, heard_of_own, heard_of_step, own, wish_of,
};
use crate::composed::parse_own;
use crate::crossings::{Crossing, CrossingId, MayCopy, Met};
use crate::failure::{Failure, NO_CROSSING, NO_NOTE};
use crate::ids::{BackendId, PoolId, RouteId};
use crate::own_uniques::OwnUnique;
use crate::pipe::backend::Backend;
use crate::pipe::in_flight::{Ask, Asker, Progress, Question, Tag};
use crate::pool::pools::Pools;
use crate::pool::racks::NOTE_PREFIX_LEN;
use crate::show::Unfit;
use crate::under_way::again::ask_at;
use crate::under_way::crossed::{answer, show_own, show_to_application, show_without, with_parsed};
use crate::under_way::fail::fail;
use crate::under_way::local_copies::{begin_copy, copy_found, has_read, may_copy};
use crate::under_way::release::release;
use crate::warm::{self, fetched};
use crate::worker::ProxyCore;
use core::time::Duration;
use evenkeel_protocol::{KEY_LEN_MAX, KeyScratch, MetaStatus, Reply, Request};
use evenkeel_schemes::generation::taken_apart;
use evenkeel_schemes::locality::holder::{
    Command, Heard, Kind, Machine, Next, Shown, Site, Sites, Wish,
};
use evenkeel_schemes::stage::Stage;
use evenkeel_types::Instant;

/// Shortest pause before a command begins anew.
const PAUSE_MIN: Duration = Duration::from_micros(200);

/// How much longer the first may be at least. It may be as much longer as the command has taken, since anyone who was in its way takes as long;
/// each further one twice as much as the one before.
const PAUSE_MORE: Duration = Duration::from_micros(1800);

/// A request that may change something is asked in a pool over racks, or a read that has not been put to its own place. It is answered here.
#[inline(never)]
pub(crate) fn begin_asked(core: &mut ProxyCore, now: Instant, question: Question) {
    let mut scratch = KeyScratch::default();
    let asked = match question.tag.is_read {
        true => key_of_mg(&question.bytes, &mut scratch).map(|key| (Wish::Read, key)),
        false => wish_of(&question.bytes, &mut scratch),
    };
    let Some((wish, key)) = asked else {
        core.counts.stats.crossings_refused += 1;
        return answer(core, &question, NO_CROSSING);
    };
    let key: Box<[u8]> = key.into();
    let Some(racks) = core.pools.racks(question.tag.pool).cloned() else {
        return fail(core, question, &Failure::Former);
    };
    if racks.kind == Kind::Directory && !has_note(&key) {
        if question.tag.asker != Asker::Client {
            // Nobody has stored what another pool looks for here, or deletes.
            return show_without(core, &question, false);
        }
        core.counts.stats.keys_unnamed += 1;
        return answer(core, &question, NO_NOTE);
    }
    let known = match wish {
        Wish::Set => core.own_uniques.take(question.tag.pool, &key),
        _ => None,
    };
    let (unique, learnt) = known.map(|known| (known.unique, known.learnt_on)).unzip();
    let stage = stage(&core.pools, question.tag.pool);
    let begun = Machine::of_asked(racks.kind, wish, racks.racks, unique, stage);
    let of = Begun {
        key,
        learnt_on: learnt,
        may_copy: None,
    };
    begin(core, (now, now), begun, question, of);
}

/// How far a pool over racks is on its way from a former one.
fn stage(pools: &Pools, pool: PoolId) -> Stage {
    pools.stage_of_some(pool).unwrap_or(Stage::Done)
}

/// The key of an `mg`.
fn key_of_mg<'k>(bytes: &'k [u8], scratch: &'k mut KeyScratch) -> Option<&'k [u8]> {
    match parse_own(bytes)? {
        Request::MetaGet(meta) => Some(meta.key.decode(scratch)),
        _ => None,
    }
}

/// An answer to an application's read in a pool over racks, if it is one that goes on: then that begins.
pub(crate) fn goes_on(
    core: &mut ProxyCore,
    now: Instant,
    id: BackendId,
    tag: &Tag,
    reply: &Reply<'_>,
) -> bool {
    let Reply::Meta(meta) = reply else {
        return false;
    };
    let Some(racks) = core.pools.racks(tag.pool).filter(|_| tag.is_read) else {
        return false;
    };
    let own = racks.own();
    let Some(found) = found_here(meta, |token| racks.noted(own, token)) else {
        return false;
    };
    if found == Heard::Nothing && !racks.asks_on() && !core.pools.fills_some(tag.pool) {
        return false;
    }
    let question = core.backends.get_mut(id).and_then(|backend| {
        let asked = backend.asked();
        let (question, _) = backend.awaited()?;
        Some((question.to_vec(), asked.unwrap_or(Instant(0))))
    });
    let Some((bytes, asked)) = question else {
        return false;
    };
    let mut scratch = KeyScratch::default();
    let Some(key) = key_of_mg(&bytes, &mut scratch) else {
        return false;
    };
    let key: Box<[u8]> = key.into();
    let question = Question {
        tag: *tag,
        bytes,
        progress: Progress::Nothing,
    };
    let may_copy = core.pools.local(tag.pool).map(|_| MayCopy {
        asked,
        met: meta.value.and_then(copy_found),
    });
    begin_read(core, (now, asked), question, key, (found, may_copy));
    true
}

/// Lets the reads go on that have been met.
pub(crate) fn go_on_with_met(core: &mut ProxyCore, now: Instant) {
    for met in core.crossings.take_met() {
        let place = core.clients.get_mut(met.client).and_then(|client| {
            let slot = client.slot(met.slot)?;
            Some((slot.route, slot.show))
        });
        let Some((route, show)) = place else { continue };
        let may_copy = may_copy(core, now, &met, show);
        let Met {
            client,
            slot,
            pool,
            key,
            found,
            ..
        } = met;
        let tag = Tag {
            is_read: true,
            route,
            ..Tag::new(client, pool, slot, Ask::Single, now)
        };
        let question = Question {
            tag,
            bytes: get(&key),
            progress: Progress::Nothing,
        };
        begin_read(core, (now, now), question, key, (found, may_copy));
        release(core, now, client);
    }
}

/// Whether a directory has room for the note of an item with this name.
fn has_note(name: &[u8]) -> bool {
    taken_apart(name).1.len() + NOTE_PREFIX_LEN <= KEY_LEN_MAX
}

/// A read has found this at its own place, which was asked at that time. What another rack answers may be copied.
fn begin_read(
    core: &mut ProxyCore,
    (now, asked): (Instant, Instant),
    question: Question,
    key: Box<[u8]>,
    (found, may_copy): (Heard, Option<MayCopy>),
) {
    let Some(racks) = core.pools.racks(question.tag.pool).cloned() else {
        return fail(core, question, &Failure::Former);
    };
    let is_locked = matches!(found, Heard::Lock(_));
    core.counts.stats.crossing_locks_met += u64::from(is_locked);
    if racks.kind == Kind::Directory && !has_note(&key) {
        // Nobody has stored it either.
        return show_without(core, &question, false);
    }
    let stage = stage(&core.pools, question.tag.pool);
    let begun = Machine::of_read(racks.kind, racks.racks, found, stage);
    let of = Begun {
        key,
        learnt_on: None,
        may_copy,
    };
    begin(core, (now, asked), begun, question, of);
}

/// What a command begins with.
struct Begun {
    key: Box<[u8]>,
    /// The connection on which the unique of its own item was learnt.
    learnt_on: Option<(BackendId, u64)>,
    /// What another rack answers may be copied.
    may_copy: Option<MayCopy>,
}

/// Begins, unless there are too many: then its request has failed.
fn begin(
    core: &mut ProxyCore,
    (now, begun): (Instant, Instant),
    (machine, next): (Machine, Next),
    question: Question,
    of: Begun,
) {
    let tag = question.tag;
    let Some(racks) = core.pools.racks(tag.pool).cloned() else {
        return fail(core, question, &Failure::Former);
    };
    if !core.crossings.has_room(question.bytes.len()) {
        core.counts.stats.operations_refused += 1;
        return fail(core, question, &Failure::Overloaded);
    }
    core.counts.stats.crossings += 1;
    let holds_back = !tag.is_read;
    if let Some(client) = core.clients.get_mut(tag.client) {
        client.parked += usize::from(holds_back);
    }
    let give_up = deadline(core, now, &tag);
    let own = racks.own();
    let former = core.pools.get(tag.pool).and_then(|pool| pool.former);
    let version = former.map_or(0, |former| former.version());
    let mut crossing = Crossing::new(
        machine,
        racks,
        question,
        (of.key, version),
        holds_back,
        (begun, now, give_up),
    );
    crossing.learn(own, of.learnt_on);
    crossing.may_copy = of.may_copy;
    let id = core.crossings.insert(crossing);
    go_on(core, now, id, next);
}

/// When a request is given up that is asked now of a pool.
fn deadline(core: &ProxyCore, now: Instant, tag: &Tag) -> Instant {
    let pool = core.pools.get(tag.pool);
    now + pool.map_or(Duration::ZERO, |pool| pool.settings.request_timeout)
}

/// A step is answered: by a server, unless it was executed between the racks of another pool.
#[inline(never)]
pub(crate) fn step_answered(
    core: &mut ProxyCore,
    now: Instant,
    backend: Option<BackendId>,
    tag: &Tag,
    (reply, raw): (&Reply<'_>, &[u8]),
) -> Result<(), Unfit> {
    let Some(id) = CrossingId::of_step(tag) else {
        return Ok(());
    };
    let Some(crossing) = core.crossings.get_mut(id) else {
        return Ok(());
    };
    let racks = &crossing.racks;
    let Some(site) = racks.site_of(tag.pool) else {
        return Ok(());
    };
    let Some(command) = crossing.awaited_at(site) else {
        crossing.answered_at(site);
        return Ok(());
    };
    let noted = |token| racks.noted(site, token);
    let wish = crossing.machine.wish();
    let heard = match (bringing(command, wish), command) {
        (Some(bringing), _) => heard_of_bringing(bringing, reply).ok_or(Unfit)?,
        (None, Command::Own(_)) => heard_of_own(wish, command.is_bound(), reply, noted),
        (None, _) => heard_of_step(command, reply, noted).ok_or(Unfit)?,
    };
    crossing.answered_at(site);
    let is_cleared =
        site == Site::Former && matches!((command, heard), (Command::Delete(_), Heard::Done(_)));
    crossing.was_at_former |= is_cleared;
    let connection = backend.and_then(|backend| core.backends.get(backend));
    if heard == Heard::Failed {
        let name = connection.map_or_else(String::new, |it| it.name.clone());
        crossing.failure = Some(Failure::Refused(name));
    }
    if matches!(
        heard,
        Heard::Item(_) | Heard::Lock(_) | Heard::Note(..) | Heard::Done(_)
    ) {
        let connection = connection.map(Backend::connection);
        crossing.learn(site, backend.zip(connection));
    }
    if let (Command::Fetch, Heard::Item(_), Reply::Meta(meta)) = (command, heard, reply) {
        core.crossings.keep(id, fetched(meta));
    }
    note_own(core, id, (site, command), reply);
    count(core, id, (site, command), heard);
    let Some(crossing) = core.crossings.get_mut(id) else {
        return Ok(());
    };
    let mut next = crossing.machine.handle(site, heard);
    let mut shown = Ok(());
    if next.show == Some(Shown::Own) && matches!(command, Command::Own(_)) {
        next.show = None;
        has_read(core, id, site, reply);
        shown = show_own(core, now, id, (site, backend), (reply, raw));
    }
    go_on(core, now, id, next);
    shown
}

/// A quiet command of an application's was executed, which it is not told.
pub(crate) fn quiet_answered(
    core: &mut ProxyCore,
    now: Instant,
    backend: BackendId,
    tag: &Tag,
) -> Result<(), Unfit> {
    let done = b"HD\r\n";
    with_parsed(done, |reply| {
        step_answered(core, now, Some(backend), tag, (reply, done))
    })
}

/// Tells commands whose steps have failed, and asks again what has paused.
#[inline(never)]
pub(crate) fn go_on_with_crossings(core: &mut ProxyCore, now: Instant) {
    while let Some((id, site, failure)) = core.crossings.pop_failed() {
        let Some(crossing) = core.crossings.get_mut(id) else {
            continue;
        };
        let is_awaited = crossing.awaited_at(site).is_some();
        crossing.answered_at(site);
        if is_awaited {
            crossing.failure = Some(failure);
            handle(core, now, id, site, Heard::Failed);
        }
    }
    while let Some(id) = core.crossings.pop_paused(now) {
        let crossing = core.crossings.get_mut(id);
        if let Some((command, sites)) = crossing.and_then(|crossing| crossing.paused.take()) {
            ask(core, now, id, command, sites);
        }
    }
}

fn handle(core: &mut ProxyCore, now: Instant, id: CrossingId, site: Site, heard: Heard) {
    let Some(crossing) = core.crossings.get_mut(id) else {
        return;
    };
    let next = crossing.machine.handle(site, heard);
    go_on(core, now, id, next);
}

/// Remembers the unique of what a set has stored in its own rack.
fn note_own(
    core: &mut ProxyCore,
    id: CrossingId,
    (site, command): (Site, Command),
    reply: &Reply<'_>,
) {
    let Some(crossing) = core.crossings.get(id) else {
        return;
    };
    let Reply::Meta(meta) = reply else { return };
    let is_store = crossing.machine.wish() == Wish::Set && matches!(command, Command::Own(_));
    let is_own = site == crossing.racks.own() && meta.status == MetaStatus::Done;
    if is_store
        && is_own
        && let (Some(unique), Some(learnt_on)) =
            (meta.flags.unsigned(b'c'), crossing.learnt_on(site))
    {
        let pool = crossing.question.tag.pool;
        let known = OwnUnique { unique, learnt_on };
        core.own_uniques.note(pool, &crossing.key, known);
    }
}

/// Counts what a step has come to.
fn count(core: &mut ProxyCore, id: CrossingId, (site, command): (Site, Command), heard: Heard) {
    let stats = &mut core.counts.stats;
    let crossing = core.crossings.get(id);
    let wish = crossing.map(|crossing| crossing.machine.wish());
    let is_copying = crossing.is_some_and(|it| it.machine.is_copying());
    match (command, heard) {
        (Command::Look | Command::Fetch, Heard::Nothing) if site == Site::Former => {
            stats.fills_absent += 1;
        }
        (Command::Delete(_), Heard::Done(_)) if site == Site::Former => stats.former_deletes += 1,
        (Command::Own(_), Heard::Done(_)) if wish == Some(Wish::Fill) => stats.fills_stored += 1,
        (Command::Own(_), Heard::Refused) if wish == Some(Wish::Fill) => stats.fills_lost += 1,
        (Command::Note(..), Heard::Done(_)) if is_copying => stats.local_copies_stored += 1,
        (Command::Note(..), Heard::Done(_)) => stats.crossing_notes_stored += 1,
        (Command::Look, Heard::Lock(_)) => stats.crossing_locks_met += 1,
        (Command::Own(_), heard) => {
            let is_elsewhere = crossing.is_some_and(|it| it.racks.own() != site);
            let is_read = wish == Some(Wish::Read) && is_elsewhere;
            match heard {
                Heard::Item(_) if is_read => stats.crossing_hits += 1,
                _ if is_read => stats.crossing_notes_dangling += 1,
                _ => {}
            }
        }
        _ => {}
    }
}

/// Shows, asks and ends, as the machine says.
fn go_on(core: &mut ProxyCore, now: Instant, id: CrossingId, mut next: Next) {
    if let Some(crossing) = core.crossings.get_mut(id) {
        crossing.then = next
            .show
            .and_then(|shown| crossing.wants_instead(shown))
            .or(crossing.then);
        next.show = next.show.filter(|_| crossing.then.is_none());
    }
    if let Some(shown) = next.show {
        show_to_application(core, now, id, shown);
    }
    if let Some((command, sites)) = next.ask {
        match core.crossings.get_mut(id) {
            Some(crossing) if next.pauses => {
                crossing.paused = Some((command, sites));
                let longer = PAUSE_MORE.max(now.since(crossing.since)) * 2u32.pow(crossing.anew);
                let longer = u32::try_from(longer.as_micros()).unwrap_or(u32::MAX);
                let longer = Duration::from_micros((core.random.u32() % longer).into());
                let until = now + PAUSE_MIN + longer;
                (crossing.since, crossing.anew) = (until, crossing.anew + 1);
                core.crossings.pause(id, until);
                core.outbox.due_at(until);
            }
            _ => ask(core, now, id, command, sites),
        }
    }
    let Some(crossing) = core.crossings.get_mut(id) else {
        return;
    };
    if !crossing.machine.is_over() {
        return;
    }
    if let Some(next) = begin_copy(crossing) {
        return go_on(core, now, id, next);
    }
    let Some(wish) = crossing.then.take() else {
        return core.crossings.remove(id);
    };
    let racks = &crossing.racks;
    let stage = stage(&core.pools, crossing.question.tag.pool);
    let (machine, next) = Machine::of_asked(racks.kind, wish, racks.racks, None, stage);
    crossing.machine = machine;
    go_on(core, now, id, next);
}

/// Asks a command at each of these sites.
fn ask(core: &mut ProxyCore, now: Instant, id: CrossingId, command: Command, sites: Sites) {
    for site in sites.iter() {
        if let Some(heard) = ask_at_site(core, now, id, command, site) {
            handle(core, now, id, site, heard);
        }
    }
}

/// Asks a command at a site. What came of it where that is known at once.
fn ask_at_site(
    core: &mut ProxyCore,
    now: Instant,
    id: CrossingId,
    command: Command,
    site: Site,
) -> Option<Heard> {
    let crossing = core.crossings.get_mut(id)?;
    if now >= crossing.give_up && !crossing.is_told {
        return Some(Heard::Failed);
    }
    let racks = &crossing.racks;
    // The former pool may have been taken out of the configuration meanwhile.
    let to = racks.pool_of(site);
    let to = to.and_then(|pool| Some((pool, core.pools.get(pool)?.settings.request_timeout)));
    let Some((pool, request_timeout)) = to else {
        return Some(Heard::Failed);
    };
    let name = racks.name(site, &crossing.key);
    let (target, _) = core.pools.place(pool, &name);
    if command.is_bound() {
        let on = target.as_ref().ok().and_then(|&to| {
            let backend = core.backends.get(to)?;
            Some((to, backend.connection()))
        });
        if on.is_none() || on != crossing.learnt_on(site) {
            return Some(Heard::Refused);
        }
    }
    let asked = crossing.question.tag;
    let is_brought = bringing(command, crossing.machine.wish()).is_some();
    let Some((bytes, ask)) = words(core, id, (command, site), &name) else {
        return Some(Heard::Failed);
    };
    let is_own = matches!(command, Command::Own(_));
    let give_up = now + request_timeout;
    let tag = Tag {
        ask,
        is_read: match command {
            Command::Look | Command::Fetch => true,
            Command::Own(_) => asked.is_read && !is_brought,
            _ => false,
        },
        is_bound: command.is_bound(),
        route: match is_own {
            true => asked.route,
            false => RouteId::NONE,
        },
        ..Tag::ours(Asker::Crossing, pool, id.slot(), give_up)
    };
    if let Some(crossing) = core.crossings.get_mut(id) {
        crossing.ask(site, command);
    }
    let question = Question {
        tag,
        bytes,
        progress: Progress::Nothing,
    };
    match core.pools.racks(pool).filter(|_| site == Site::Former) {
        Some(_) => begin_asked(core, now, question),
        None => ask_at(core, now, question, target),
    }
    None
}

/// The words of a command at a site, where the item has this name; and how it is answered.
fn words(
    core: &mut ProxyCore,
    id: CrossingId,
    (command, site): (Command, Site),
    name: &[u8],
) -> Option<(Vec<u8>, Ask)> {
    let nonce = core.random.u64();
    let crossing = core.crossings.get(id)?;
    let racks = &crossing.racks;
    let wish = crossing.machine.wish();
    if let Some(step) = bringing(command, wish) {
        let words = warm::Words {
            key: name,
            fetched: crossing.fetched(),
            route: b"",
            nonce,
            unix: core.unix,
            is_fill: false,
        };
        let mut bytes = Vec::with_capacity(words.len_max());
        words.compose(step, &mut bytes);
        return Some((bytes, Ask::Single));
    }
    if let Command::Own(condition) = command {
        let mask = racks.unique_mask(site);
        return Some(own(&crossing.question, wish, condition, mask));
    }
    let words = Words {
        name,
        nonce,
        token: match command {
            Command::Note(rack, _) => racks.token(rack),
            _ => 0,
        },
        copies: (crossing.fetched().filter(|_| crossing.machine.is_copying()))
            .map(|item| (item, racks.kind)),
        reads_notes: match site {
            // A set replaces whatever mark is at its own place.
            Site::Rack(_) => wish != Wish::Set,
            Site::Directory => true,
            Site::Former => {
                let pool = racks.pool_of(site)?;
                core.pools.racks(pool).is_some()
            }
        },
    };
    Some((words.compose(command), Ask::Single))
}
