//! Where a request goes in a pool that is on its way from former servers to its own, or parts of whose ring change hands.

use crate::composed::sent_key;
use crate::failure::Failure;
use crate::ids::BackendId;
use crate::pipe::in_flight::Question;
use crate::pool::Pool;
use crate::ring::unique_mask;
use crate::under_way::again::{ask_at, renew_ticket};
use crate::under_way::crossing;
use crate::under_way::fail::end_operation;
use crate::under_way::operation::begin_write;
use crate::under_way::park::{await_reads, hold};
use crate::warm::mask_condition;
use crate::worker::ProxyCore;
use evenkeel_protocol::{KeyScratch, base64};
use evenkeel_schemes::stage::Stage;
use evenkeel_types::{Instant, KeyHash};

/// Asks a request where the present stage of its key says. If that is not possible, its slot holds the failure; the caller releases it.
pub(crate) fn ask_by_stage(core: &mut ProxyCore, now: Instant, mut question: Question) {
    let tag = question.tag;
    // One that was not sent when its connection was lost takes its steps anew: those before count no more.
    if !core.operations.is_empty() {
        end_operation(core, &tag);
    }
    let Some(pool) = core.pools.get(tag.pool) else {
        return ask_at(core, now, question, Err(Failure::Former));
    };
    let awaits_switch = pool.awaits_switch() && !tag.is_read;
    if pool.renames() {
        call_by_present_name(pool, &mut question);
    }
    let stage = match &pool.former {
        Some(_) if pool.settings.adaptive => {
            let mut scratch = KeyScratch::default();
            let key = sent_key(&question.bytes);
            key.and_then(|key| pool.stage(key.decode(&mut scratch)))
        }
        Some(former) => Some(former.stage()),
        None => awaits_switch.then_some(Stage::Quiesced),
    };
    match stage {
        Some(Stage::Quiesced) if core.pools.is_loss(tag.pool) => {
            let lost = place_of(core, &question);
            let lost = lost.and_then(|id| core.backends.get(id).ok_or(Failure::Former));
            let failure = lost.map_or_else(|why| why, |it| it.unavailable());
            ask_at(core, now, question, Err(failure));
        }
        Some(Stage::Quiesced) => {
            if tag.give_up <= now {
                question.tag.give_up = now + pool.settings.request_timeout;
            }
            hold(core, now, question);
        }
        stage => {
            question.tag.pool = core.pools.asked_for(tag.pool);
            let crosses = core.pools.racks(question.tag.pool).is_some();
            if crosses && !tag.is_read {
                return match core.clients.awaits_before(&tag) {
                    // What it reads and writes at two places would not keep the order.
                    true => await_reads(core, now, question),
                    false => crossing::begin_asked(core, now, question),
                };
            }
            if stage.is_some_and(Stage::takes_steps) && !tag.is_read {
                return begin_write(core, now, question);
            }
            // Between racks it is combined with what is a rack's.
            let shown_as = core.pools.shown_as(question.tag.pool);
            if shown_as != 0 && !crosses {
                mask_in(&mut question, shown_as);
            }
            let target = place_of(core, &question);
            renew_ticket(core, now, &question.tag);
            ask_at(core, now, question, target);
        }
    }
}

/// The unique that a question's item is to have, if it is to have one, is combined with a mask.
fn mask_in(question: &mut Question, mask: u64) {
    let more = mask_condition(&mut question.bytes, 0, mask);
    shift_flags(question, more);
}

/// Our own flags stand behind what has grown by this many bytes.
fn shift_flags(question: &mut Question, more: isize) {
    let (start, end) = question.tag.flags;
    if start < end {
        question.tag.flags = (
            start.saturating_add_signed(more),
            end.saturating_add_signed(more),
        );
    }
}

/// The item of a question has another name at another stage, and its unique is shown as another.
fn call_by_present_name(pool: &Pool, question: &mut Question) {
    let mut scratch = KeyScratch::default();
    let Some(sent) = sent_key(&question.bytes) else {
        return;
    };
    let name = sent.decode(&mut scratch);
    let Some(present) = pool.present_name(name) else {
        return;
    };
    // Between racks it is combined when it is asked.
    let mask = match pool.racks {
        None => unique_mask(name) ^ unique_mask(&present),
        Some(_) => 0,
    };
    let mut encoded = Vec::new();
    let text = match sent.base64 {
        true => {
            base64::encode(&present, &mut encoded);
            encoded
        }
        false => present.clone(),
    };
    // It is the second word.
    let before = question.bytes.iter().position(|byte| *byte == b' ');
    let start = before.map_or(0, |before| before + 1);
    let place = start..start + sent.text.len();
    let more = text.len() as isize - place.len() as isize;
    question.bytes.splice(place, text);
    question.tag.hash = KeyHash::of(&present);
    shift_flags(question, more);
    if mask != 0 {
        mask_in(question, mask);
    }
}

/// The server that has the key of a question in its pool.
fn place_of(core: &ProxyCore, question: &Question) -> Result<BackendId, Failure> {
    let mut scratch = KeyScratch::default();
    let key = sent_key(&question.bytes).ok_or(Failure::Former)?;
    core.pools
        .place(question.tag.pool, key.decode(&mut scratch))
        .0
}
