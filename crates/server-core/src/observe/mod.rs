//! Who looks on while commands are executed: `watch`, `stats detail`, and tests in which a key is to end the process.
//!
//! While nobody does, a command pays one branch. While somebody does, it takes the way of this
//! module: the key is looked up before and after, and what became of it is told from the difference.
//! So the commands themselves know nothing of watching, and none can be forgotten.

mod log;
mod observers;
pub(crate) mod operation;
pub(crate) mod watcher;

pub(crate) use log::Lines;
pub(crate) use observers::Observers;
pub use watcher::CloseReason;
