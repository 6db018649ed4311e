//! The second round of a multi-get whose keys have copies: what was not at a copy, or could not be asked there, is asked at home. There is no third.

use crate::drafts::{Line, LineKey};
use crate::pipe::in_flight::{Progress, Question, Tag};
use crate::under_way::lines::{add_to_draft, send_drafts};
use crate::worker::ProxyCore;
use evenkeel_schemes::copies::{PREFIX_LEN, is_copy};
use evenkeel_types::Instant;

/// A key that has to be asked at home.
#[derive(Debug)]
pub(crate) struct KeyLeft {
    /// Its place among the application's answers.
    pub slot: u64,
    pub key: Box<[u8]>,
    pub with_cas: bool,
    /// Nobody is filling its copy.
    pub fill: bool,
}

/// Asks for keys at their homes, for the application of this request.
pub(crate) fn ask_homes(core: &mut ProxyCore, now: Instant, tag: &Tag, keys: &[KeyLeft]) {
    if keys.is_empty() {
        return;
    }
    let Some(give_up) = core
        .pools
        .get(tag.pool)
        .map(|it| now + it.settings.request_timeout)
    else {
        return;
    };
    for key in keys {
        let Some(to) = core.pools.list(tag.pool).map(|list| list.home(&key.key)) else {
            return;
        };
        let line = Line {
            with_cas: key.with_cas,
            again: Some((tag.retries.saturating_add(1), give_up)),
            ..Line::get(tag.client, tag.pool, to, tag.route)
        };
        let key = LineKey {
            prefix: None,
            key: &key.key,
            hash: 0,
            slot: key.slot,
        };
        add_to_draft(core, now, &line, &key);
    }
    let lines = core.drafts.begun() as u64;
    if let Some((bundled, _)) = core.pools.bundled(tag.pool) {
        bundled.counts.copies_absent += keys.len() as u64;
        bundled.counts.second_round_transactions += lines;
    }
    send_drafts(core, now, tag.client);
}

/// A line that asks for copies will not be answered: all that it has asked for, and was not answered, is asked at home.
pub(crate) fn ask_elsewhere(core: &mut ProxyCore, now: Instant, question: &Question) {
    let (tag, line) = (question.tag, &question.bytes);
    let Progress::Group(group) = &question.progress else {
        return;
    };
    let Some(client) = core.clients.get_mut(tag.client) else {
        return;
    };
    let with_cas = line.starts_with(b"gets ");
    let mut left = Vec::new();
    for (key, name) in group.names(line) {
        if client.slot(key.slot).is_some_and(|slot| slot.is_waiting()) {
            let own = match is_copy(name) {
                true => &name[PREFIX_LEN..],
                false => name,
            };
            left.push(KeyLeft {
                slot: key.slot,
                key: own.into(),
                with_cas,
                fill: false,
            });
        }
    }
    ask_homes(core, now, &tag, &left);
}
