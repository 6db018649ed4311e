//! Where a request goes in a pool that is on its way from former servers to its own.

use crate::composed::parse_own;
use crate::failure::Failure;
use crate::ids::BackendId;
use crate::pipe::in_flight::Question;
use crate::under_way::again::{ask_at, renew_ticket};
use crate::under_way::operation::begin_write;
use crate::under_way::park::hold;
use crate::warm::unmark_condition;
use crate::worker::ProxyCore;
use evenkeel_protocol::{KeyScratch, Request};
use evenkeel_schemes::stage::Stage;
use evenkeel_types::Instant;

/// Asks a request where its pool's present stage says. If that is not possible, its slot holds the failure; the caller releases it.
pub(crate) fn ask_by_stage(core: &mut ProxyCore, now: Instant, mut question: Question) {
    let tag = question.tag;
    match core.pools.stage(tag.pool) {
        Some(Stage::Quiesced) => {
            let pool = core.pools.get(tag.pool);
            if let (Some(pool), true) = (pool, tag.give_up <= now) {
                question.tag.give_up = now + pool.settings.request_timeout;
            }
            hold(core, now, question);
        }
        Some(stage) if stage.takes_steps() && !tag.is_read => begin_write(core, now, question),
        Some(_) | None => {
            question.tag.pool = core.pools.asked_for(tag.pool);
            if core.pools.is_led_from(question.tag.pool) {
                let more = unmark_condition(&mut question.bytes);
                let (start, end) = question.tag.flags;
                // Ours stand behind the application's.
                question.tag.flags = match start < end {
                    true => (
                        start.saturating_add_signed(more),
                        end.saturating_add_signed(more),
                    ),
                    false => (start, end),
                };
            }
            let target = place_of(core, &question);
            renew_ticket(core, now, &question.tag);
            ask_at(core, now, question, target);
        }
    }
}

/// The server that has the key of a question in its pool.
fn place_of(core: &ProxyCore, question: &Question) -> Result<BackendId, Failure> {
    let mut scratch = KeyScratch::default();
    let key = match parse_own(&question.bytes) {
        Some(Request::MetaDebug { key }) => Some(key.decode(&mut scratch)),
        Some(
            Request::MetaGet(meta)
            | Request::MetaSet(meta)
            | Request::MetaDelete(meta)
            | Request::MetaArithmetic(meta),
        ) => Some(meta.key.decode(&mut scratch)),
        _ => None,
    };
    let key = key.ok_or(Failure::Former)?;
    core.pools.place(question.tag.pool, key).0
}
