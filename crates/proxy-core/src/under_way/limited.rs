//! A multi-get with a limit: who is asked next, and its end.

use crate::client::{Answered, Client, State};
use crate::counts::Noted;
use crate::drafts::{Line, LineKey};
use crate::ids::ClientId;
use crate::limited::{Limited, Round, UnaskedKey};
use crate::stats::counters::Tally;
use crate::under_way::lines::{CopyAt, add_copy_to_draft, add_to_draft, send_drafts};
use crate::under_way::release::release;
use crate::worker::ProxyCore;
use core::mem;
use evenkeel_types::Instant;
use evenkeel_types::random::SplitMix64;

impl Client {
    /// A multi-get with a limit has all its slots. What was asked for it so far is in those that are not among its keys left.
    pub fn begin_limited(&mut self, mut limited: Limited) {
        let slots = limited.first + 1..=limited.first + limited.keys as u64;
        let (mut awaited, mut found) = (0, 0);
        for sequence in slots {
            let state = self.slot(sequence).map(|slot| &slot.state);
            awaited += usize::from(state.is_some_and(State::is_waiting));
            found += usize::from(state.and_then(State::tally) == Some(Tally::GetHit));
        }
        limited.asked = limited.keys - limited.left();
        limited.awaited = awaited - limited.left();
        limited.found = found;
        self.limited_ripe |= limited.is_ripe();
        self.limited.push(limited);
    }

    /// The multi-get with a limit whose first slot is this.
    pub fn limited_of(&mut self, first: u64) -> Option<&mut Limited> {
        self.limited.iter_mut().find(|it| it.first == first)
    }

    /// The same, whose end has come.
    pub fn end_limited(&mut self, first: u64) -> Option<Limited> {
        let at = self.limited.iter().position(|it| it.first == first)?;
        Some(self.limited.swap_remove(at))
    }

    /// The answer to a key has come, which may be one of those.
    #[inline(never)]
    pub fn heard_of_limited(&mut self, sequence: u64, is_hit: bool) {
        let of = self.limited.iter_mut().find(|it| it.has(sequence));
        if let Some(limited) = of {
            limited.heard(is_hit);
            self.limited_ripe |= limited.is_ripe();
        }
    }
}

/// Goes on with those whose time is over, and with the others that go on.
pub(crate) fn go_on_with_limited(core: &mut ProxyCore, now: Instant) {
    while let Some((id, first)) = core.limited_due.pop_due(now) {
        if end(core, now, id, first) {
            core.counts.stats.limits_late += 1;
        }
    }
    go_on_with_ripe(core, now);
}

/// Goes on with those that have heard enough, or all that they asked for.
#[inline]
pub(crate) fn go_on_with_ripe(core: &mut ProxyCore, now: Instant) {
    while let Some(id) = core.limited_due.pop_ripe() {
        go_on(core, now, id);
    }
}

fn go_on(core: &mut ProxyCore, now: Instant, id: ClientId) {
    while let Some(client) = core.clients.get_mut(id)
        && let Some(limited) = client.limited.iter().find(|it| it.is_ripe())
    {
        let first = limited.first;
        match limited.wants_more() {
            Some(missing) => ask_more(core, now, id, first, missing),
            None => {
                end(core, now, id, first);
            }
        }
    }
}

/// Where a key is asked in a round.
#[derive(Clone, Copy)]
enum Chosen {
    /// Nowhere.
    Later,
    Home,
    /// At a copy.
    Copy(CopyAt),
}

/// Asks the servers that have most of what is left for this many keys, or for all that is left.
fn ask_more(core: &mut ProxyCore, now: Instant, id: ClientId, first: u64, missing: usize) {
    let client = core.clients.get_mut(id);
    let Some(limited) = client.and_then(|client| client.limited_of(first)) else {
        return;
    };
    let (keys, bytes, round) = limited.begin_round(missing);
    let with_cas = limited.with_cas;
    let copies = match round {
        Round::Last => None,
        Round::Some | Round::All => cover_by_copies(core, id, &keys, &bytes, missing),
    };
    let chosen: Vec<Chosen> = match (copies, round) {
        (Some(chosen), _) => chosen,
        (None, Round::Some) => cover_by_homes(core, &keys, missing),
        (None, Round::All | Round::Last) => vec![Chosen::Home; keys.len()],
    };
    let mut asked = Vec::new();
    let mut rest = Vec::new();
    for (key, at) in keys.into_iter().zip(chosen) {
        match at {
            Chosen::Later => rest.push(key),
            Chosen::Home => asked.push((key, None)),
            Chosen::Copy(at) => asked.push((key, Some(at))),
        }
    }
    // What cannot be asked is answered at once.
    if let Some(client) = core.clients.get_mut(id)
        && let Some(limited) = client.limited_of(first)
    {
        limited.asking(asked.len(), rest);
    }
    for (key, at) in asked {
        let line = Line {
            with_cas,
            ..Line::get(id, key.pool, key.to, key.route)
        };
        let of_key = LineKey {
            prefix: None,
            key: key.of(&bytes),
            hash: key.hash as u32,
            slot: key.slot,
        };
        match at {
            None => add_to_draft(core, now, &line, &of_key),
            Some(at) => add_copy_to_draft(core, now, &line, &of_key, &at),
        }
    }
    send_drafts(core, now, id);
    let client = core.clients.get_mut(id);
    if let Some(limited) = client.and_then(|client| client.limited_of(first)) {
        limited.keep_bytes(bytes);
    }
}

fn cover_by_homes(core: &mut ProxyCore, keys: &[UnaskedKey], missing: usize) -> Vec<Chosen> {
    let (cover, seeds) = (&mut core.scratch.cover, &mut core.scratch.seeds);
    cover.clear();
    for key in keys {
        let server = key.to.0.slot;
        while seeds.len() <= server as usize {
            seeds.push(SplitMix64::new(seeds.len() as u64).next_u64());
        }
        cover.add(key.hash, &[server]);
    }
    cover.choose(seeds, missing);
    let chosen = (0..keys.len()).map(|at| match cover.server(at) {
        Some(_) => Chosen::Home,
        None => Chosen::Later,
    });
    chosen.collect()
}

/// The same where all keys are of one pool whose copies are read. `None` if they are not.
fn cover_by_copies(
    core: &mut ProxyCore,
    id: ClientId,
    keys: &[UnaskedKey],
    bytes: &[u8],
    missing: usize,
) -> Option<Vec<Chosen>> {
    let pool = keys.first()?.pool;
    let client = core.clients.get(id)?;
    if client.awaits_copied_write() || keys.iter().any(|key| key.pool != pool) {
        return None;
    }
    let (bundled, servers) = core.pools.bundled(pool)?;
    let prefix = bundled.read_prefix()?;
    let backends = &core.backends;
    let may_ask = |place: u32| backends.is_in_use(servers.backends()[place as usize]);
    let now = core.now;
    let distance = |place: u32| backends.distance_us(now, servers.backends()[place as usize]);
    let (cover, homes) = (&mut core.scratch.cover, &mut core.scratch.covered_homes);
    let words = keys.iter().map(|key| key.of(bytes));
    let by = &bundled.by;
    by.cover(
        (&mut *cover, &mut *homes),
        servers.list(),
        words,
        missing,
        (may_ask, distance),
    );
    let chosen = homes
        .iter()
        .enumerate()
        .map(|(at, home)| match cover.server(at) {
            None => Chosen::Later,
            Some(server) if server == *home => Chosen::Home,
            Some(server) => Chosen::Copy(CopyAt {
                to: servers.backends()[server as usize],
                prefix,
            }),
        });
    Some(chosen.collect())
}

/// Answers with what is there. False if that is done already.
fn end(core: &mut ProxyCore, now: Instant, id: ClientId, first: u64) -> bool {
    let Some(client) = core.clients.get_mut(id) else {
        return false;
    };
    let Some(limited) = client.end_limited(first) else {
        return false;
    };
    let mut unanswered = 0;
    for slot in first + 1..=first + limited.keys as u64 {
        let Some(place) = client.slot(slot) else {
            continue;
        };
        let State::Waiting = place.state else {
            // What is there is enough, whatever befell the others.
            client.forgive(slot);
            continue;
        };
        unanswered += 1;
        let ticket = place.ticket.take();
        // It has no answer.
        core.counts
            .forget(mem::replace(&mut place.note, Noted::NONE));
        let answered = Answered {
            tally: Tally::Nothing,
            ..Answered::miss()
        };
        client.set_state(slot, State::Done(answered));
        if let Some((pool, ticket)) = ticket {
            core.pools.abandon(now, pool, ticket);
        }
    }
    let left = limited.left();
    let late = usize::saturating_sub(unanswered, left);
    let stats = &mut core.counts.stats;
    stats.limited_keys_left += left as u64;
    stats.limited_keys_late += late as u64;
    stats.limits_reached += u64::from(limited.found >= limited.wanted && unanswered > 0);
    let answered = Answered {
        bytes: limited.told(late),
        is_error: false,
        tally: Tally::Nothing,
    };
    client.set_state(first, State::Done(answered));
    release(core, now, id);
    true
}
