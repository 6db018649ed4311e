//! Autoscaling: a pool gets servers, and gives some up, by what is measured. It is one of memcacheds whose ring follows its load, or the cluster.
//!
//! After the paper on adaptive hashing (Hwang and Wood, section 3.4): servers are added when a threshold is passed for a while, and removed
//! when another is. Here a server also has to be started somewhere, and stopped, by an *actuator*: something outside that can be slow, wrong
//! or gone. So each change is a way through phases, one act after the other:
//!
//! ```text
//!             ┌──> past upper ──> starting ──────> joining ────────────┐
//!   steady ───┤    (lasts)          │ in vain        │ taken back      ├──> cooling ──> steady
//!             │                     └──> stopping <──┘                 │
//!             │                            ^                           │
//!             └──> below lower ──> draining ──> (owns nothing) ────────┘
//! ```
//!
//! Rules that hold at all times:
//!
//! - A phase is saved before the act that it asks for, and asks for it until what is seen says that it is done. A new leader goes on
//!   where the old one was, and does again what may have been done.
//! - So acts have to be the same when they are done twice. The actuator knows servers by names; a name is saved before its server is
//!   started, and none is given twice. Then neither two leaders nor an answer that is lost start two servers.
//! - A server that is to be stopped is saved as such first, and never joins again: an order to stop it that arrives late does no harm.
//!   It is not asked for while the pool has anything at the server's address.
//! - What counts is who owns a slice. A server that only the actuator knows is none; one whose name was given here is stopped.
//! - No two changes are nearer than a cooldown. A leader that is new begins it anew: what saved times say of another process's clock is
//!   nothing.
//! - What is not known is no reason for anything.
//!
//! The search in `tests/scale/` goes through all interleavings of leaders, actuator and ring, with leaders that are killed and two
//! at once. Rejected: asking the actuator how many servers there are, and telling it a number. It would have to choose who goes, and a number
//! that is told twice by two leaders is two numbers.

mod decide;
mod judge;
mod led;
pub mod limits;
mod measure;
mod seen;
mod settings;
mod state;
mod under_way;
mod view;

pub use decide::{Decision, decide};
pub use led::{LedScale, ScaleCounts, ScaleEvent, ScaleWork};
pub(crate) use led::{Scaled, Scaling, place};
pub use measure::{Band, Measure, Measures};
pub use seen::{Act, Outcome, Part, PoolServer, Seen};
pub use settings::{ScaleMode, ScaleRefusal, ScaleSettings};
pub use state::{Account, After, Phase, PhaseName, Scale, Side, Trial, Why};
pub use view::{ScaleEventsBody, ScaleTryView, ScaleView, ScalesView};
