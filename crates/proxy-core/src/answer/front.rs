//! An answer whose turn has come when it arrives.

use crate::client::{Answered, Client};
use crate::counts::Counts;
use crate::routes::Rename;
use crate::show;
use crate::show::Unfit;
use crate::show::kinds::Show;
use crate::stats::counters::Tally;
use evenkeel_protocol::Reply;

/// Composes the front slot's answer straight into the output and gives up the slot.
pub(crate) fn show_front(
    client: &mut Client,
    counts: &mut Counts,
    (shown_as, rename): (Show, Option<&Rename>),
    question: &[u8],
    reply: &Reply<'_>,
    raw: &[u8],
) -> Result<Tally, Unfit> {
    let is_key = matches!(shown_as, Show::Value { .. });
    if is_key && show::is_error(reply) {
        if let Some(slot) = client.pop() {
            counts.shown(slot.route, slot.note, Tally::Refused, 0);
        }
        client.show(shown_as, Answered::refused(raw.to_vec()));
        return Ok(Tally::Refused);
    }
    let out = client.out();
    let before = out.len();
    let tally = show::compose(out, shown_as, rename, question, reply, raw)?;
    let bytes = out.len() - before;
    if let Some(slot) = client.pop() {
        counts.shown(slot.route, slot.note, tally, bytes);
    }
    if is_key {
        client.end_key(shown_as);
    }
    Ok(tally)
}
