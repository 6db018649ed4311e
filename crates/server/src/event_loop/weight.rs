//! What messages weigh against the budget, and whose large answers wait at which level of it.

use crate::budget::Budget;
use evenkeel_runtime::budget::{Level, Pool};
use evenkeel_server_core::Message;

/// Whether somebody's large answer has to wait at this level; `reads_well` if he has read one to its end. Who has not
/// could be one of those for whom everybody waits: they have the pool, the others what is beyond it.
pub(super) fn is_scarce(level: Level, reads_well: bool) -> bool {
    match level {
        Level::Easy | Level::Tight => false,
        Level::Full => !reads_well,
        Level::Over => true,
    }
}

/// Whether a message that was deferred, or of which something is left, may be gone on with at this level.
pub(super) fn may_go(level: Level, message: &Message) -> bool {
    let reads_well = match message {
        Message::Commands(commands) => commands.asker_reads_well(),
        // It asks for no memory, and has waited for what was before it.
        Message::Follow(_) => return true,
        _ => false,
    };
    !is_scarce(level, reads_well)
}

/// Which pool a message counts against, and how many bytes.
pub(super) fn weigh<'b>(budget: &'b Budget, message: &Message) -> (&'b Pool, usize) {
    let pool = match message {
        Message::Answers(_) | Message::Share { .. } => &budget.answers,
        _ => &budget.input,
    };
    (pool, message.weight())
}
