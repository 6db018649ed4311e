//! How a cachelet passes from one server to another while both serve (MBal, section 3.4).
//!
//! The coordinator puts the wish into the map ([`Migration`]). The *source* is the worker that hosts the cachelet
//! at its owner, the *target* the worker that the map names. The source copies over an ordered connection of its own:
//!
//! ```text
//!  client            source                          target                 coordinator
//!    │ get, set ──────>│── begin ────────────────────>│ makes room (Staged)      │
//!    │<────────────────│── items, one by one ────────>│                          │
//!    │ set ───────────>│── the same key again ───────>│                          │
//!    │                 │   … until little is left     │                          │
//!    │ waits           │── what is left, activate ───>│ (Active)                 │
//!    │                 │<──────────────── OK ─────────│                          │
//!    │ <── MOVED ──────│── confirm ──────────────────>│ (Live) ── heartbeat ────>│ owner: target
//!    │ ─────────────────────────────────────────────>│                          │
//! ```
//!
//! **The source alone decides.** Until it has the target's answer to `activate` it may take the cachelet back at any
//! time, because it has sent nobody to the target; from then on it never serves it again. So there is one
//! server that serves the cachelet at any moment, whatever becomes of connections, of either server and of the
//! coordinator, which only writes down afterwards what has happened. The target serves when it is *confirmed*: by the
//! source, or by a client that only the source can have sent. What was staged and never confirmed is forgotten
//! with the first map that does not have the migration.
//!
//! **Writes go behind.** A key that is written while its cachelet is copied is sent again, as it is when its turn comes
//! ([`Rewritten`]); what is gone is sent as gone. The link keeps the order, so the target ends with what the source has.
//! The paper invalidates what is written during a migration and has clients ask twice; here reads keep hitting.
//!
//! **Contents go on.** Versions (CAS uniques), flags, times to live and the marks of recaching are sent with the items, the target's
//! next version is newer than all of the source's, and `since` of the cachelet stays. So a client with any map that named the
//! source without a break may ask the target.
//!
//! **`flush_all` ends migrations** of which anything was sent, at either end, because it reaches the two at different times: an
//! item that the source had still to send would survive it. A target begins none within [`FLUSH_REACH`] of one.
//!
//! **Hot keys** have leases that the source granted before; they end by themselves, as when a cachelet changes its
//! worker. With atomic writes the source waits until its keys have no replicas.

pub(crate) mod copying;
pub(crate) mod incoming;
mod migrations;
pub(crate) mod outgoing;
pub(crate) mod pace;
mod staging;
pub(crate) mod volume;

pub use migrations::MigrationStep;
pub(crate) use migrations::Migrations;
pub use outgoing::TARGET_TIMEOUT;
