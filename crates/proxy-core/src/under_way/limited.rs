//! A multi-get with a limit: who is asked next, and its end.

use crate::client::{Answered, Client, State};
use crate::drafts::{Line, LineKey};
use crate::ids::ClientId;
use crate::limited::Limited;
use crate::stats::counters::Tally;
use crate::under_way::lines::{add_to_draft, send_drafts};
use crate::under_way::release::release;
use crate::worker::ProxyCore;
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

/// Asks the servers that have most of what is left for so many keys, or for all that is left.
fn ask_more(core: &mut ProxyCore, now: Instant, id: ClientId, first: u64, missing: usize) {
    let client = core.clients.get_mut(id);
    let Some(limited) = client.and_then(|client| client.limited_of(first)) else {
        return;
    };
    let (keys, bytes, all) = limited.begin_round(missing);
    let with_cas = limited.with_cas;
    let cover = &mut core.scratch.cover;
    if !all {
        cover.clear();
        let seeds = &mut core.scratch.seeds;
        for key in &keys {
            let server = key.to.0.slot;
            while seeds.len() <= server as usize {
                seeds.push(SplitMix64::new(seeds.len() as u64).next_u64());
            }
            cover.add(key.hash, &[server]);
        }
        cover.choose(seeds, missing);
    }
    let mut asked = Vec::new();
    let mut rest = Vec::new();
    for (at, key) in keys.into_iter().enumerate() {
        match all || cover.server(at).is_some() {
            true => asked.push(key),
            false => rest.push(key),
        }
    }
    // What cannot be asked is answered at once.
    limited.asking(asked.len(), rest);
    for key in asked {
        let line = Line {
            with_cas,
            ..Line::get(id, key.pool, key.to, key.route)
        };
        let key = LineKey {
            prefix: None,
            key: key.of(&bytes),
            hash: key.hash as u32,
            slot: key.slot,
        };
        add_to_draft(core, now, &line, &key);
    }
    send_drafts(core, now, id);
    let client = core.clients.get_mut(id);
    if let Some(limited) = client.and_then(|client| client.limited_of(first)) {
        limited.keep_bytes(bytes);
    }
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
