//! Copies that are filled and refreshed behind an answer, for nobody who waits. What is asked in which order is decided in
//! [`warm`](evenkeel_schemes::warm), as for items that are brought from a former pool: a copy is *here*, and its home is *former*.

use crate::ids::{BackendId, ClientId, PoolId};
use crate::limits::FILLS_MAX;
use crate::operations::Operation;
use crate::pipe::in_flight::{Ask, Progress, Question, Tag};
use crate::under_way::operation::run;
use crate::under_way::room::has_room;
use crate::worker::ProxyCore;
use evenkeel_schemes::copies::PREFIX_LEN;
use evenkeel_schemes::warm::{Command, Next, Warming, Wish};
use evenkeel_types::Instant;

/// Fills the copy of a key at a server, where nothing was found.
pub(crate) fn begin_fill(
    core: &mut ProxyCore,
    now: Instant,
    pool: PoolId,
    key: &[u8],
    at: BackendId,
) {
    let Some((bundled, _)) = core.pools.bundled(pool) else {
        return;
    };
    if let Some(prefix) = bundled.read_prefix() {
        let name = [&prefix[..], key].concat();
        begin(core, now, pool, &name, at, Warming::of_read(Wish::Read));
    }
}

/// Refreshes a copy, which has this name, at a server.
pub(crate) fn begin_refresh(
    core: &mut ProxyCore,
    now: Instant,
    pool: PoolId,
    name: &[u8],
    at: BackendId,
) {
    let Some((bundled, _)) = core.pools.bundled(pool) else {
        return;
    };
    // It may be of an earlier time, of which nothing is kept any more.
    if bundled
        .read_prefix()
        .is_some_and(|prefix| name.starts_with(&prefix))
    {
        begin(core, now, pool, name, at, Warming::of_refresh());
    }
}

fn begin(
    core: &mut ProxyCore,
    now: Instant,
    pool_id: PoolId,
    name: &[u8],
    at: BackendId,
    (machine, asked): (Warming, Command),
) {
    let has_room = core.operations.fills() < FILLS_MAX
        && core.operations.has_room(0)
        && has_room(core, now, (pool_id, at), name);
    let Some(pool) = core.pools.get_mut(pool_id) else {
        return;
    };
    let version = pool.followed().map_or(0, |at| at.version());
    let give_up = now + pool.settings.request_timeout;
    let key = &name[PREFIX_LEN..];
    let home = pool.list().map(|list| list.home(key));
    let (Some(bundled), Some(home)) = (&mut pool.bundled, home) else {
        return;
    };
    if !has_room || !core.backends.is_in_use(home) {
        bundled.counts.fills_left_out += 1;
        return;
    }
    let id = core.operations.insert(Operation {
        machine,
        question: Question {
            tag: Tag::new(ClientId::NONE, pool_id, 0, Ask::Single, give_up),
            bytes: Vec::new(),
            progress: Progress::Nothing,
        },
        is_fill: true,
        is_told: true,
        holds_back: false,
        key: name.into(),
        former_key: Some(key.into()),
        former: pool_id,
        version,
        homes: [Some((core.era, at)), Some((core.era, home))],
        asked,
        was_at_former: false,
        fetched: None,
        learnt_on: None,
        give_up,
        failure: None,
    });
    let next = Next {
        show: None,
        ask: Some(asked),
    };
    run(core, now, id, next);
}
