//! The core of the coordinator: members, heartbeats, the map.
//!
//! The coordinator is the one who writes things down. Servers and proxies report to it twice a
//! second; it remembers who they are, notices who has fallen silent, decides which worker owns
//! which cachelet, and tells everyone in the answers to their reports. It is never asked on the
//! data path: when it is away, everybody goes on with the last map.
//!
//! ```text
//!                    heartbeat                          ┌──────────── server life ───────────┐
//!  server, proxy ───────────────> CoordinatorCore       │  (new name) ──> up <──heard──> down │
//!                <───────────────  │ members            │                 │    ──silent──>     │
//!            id, newer map, load,  │ slots ── placing   │              new boot: restarted     │
//!            settings              │ epoch              └────────────────────────────────────┘
//!                                  └─> SavedState, before anything of it is told
//! ```
//!
//! Rules that hold at all times:
//!
//! - The epoch only grows, over restarts too; each map is immutable.
//! - An id belongs to a server's name until that is forgotten and nothing means it any more (see `members::names`).
//! - A cachelet has at most one owner in a map, and a new owner only after the former one has
//!   confirmed that it let go (see `placing`), or has ceased to serve for certain (see `members::fence`).
//! - A name has one holder. Another process gets it when the holder has ended or fallen silent; until then it
//!   is told who holds it. A process that was replaced stays replaced, and is told so.
//! - No two proxies that follow a pool's change are more than one step apart (see `changes`).
//! - Only the monotonic clock decides; wall time is shown and nothing else. When the coordinator
//!   itself was asleep, nobody is declared dead for it.
//!
//! The core is pure: it is told the time, answers, and keeps a [`revision`](CoordinatorCore::revision)
//! by which its driver sees that there is something to save *before* an answer leaves.

#![forbid(unsafe_code)]
// See clippy.toml.
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

mod changes;
mod cluster_hot_keys;
mod cluster_loads;
mod cluster_scale;
mod config;
mod core;
mod duration;
pub mod election;
mod event;
mod explained;
mod heat;
mod history;
pub mod limits;
mod load;
mod map_draft;
mod measure;
mod members;
mod migrating;
mod placing;
pub mod plans;
mod quarantine;
mod recent;
pub mod scale;
mod settings;
mod snapshot;
mod state;
mod takeover;
mod view;

pub use self::core::{CoordinatorCore, Counters};
pub use changes::{
    BadMoves, BeginRequest, BundleSwitchRequest, BundleView, BundleWishView, BundlesView,
    ChangeCounts, ChangeEvent, ChangeEventsBody, ChangeNews, ChangeRefusal, ChangeView,
    ChangesView, ControlAnswer, ControlAsk, CopiedServer, CopyWork, FollowerView,
    ForgottenPoolView, GrainsMove, LedBundle, LedRing, OverloadedServerView, PlanServerView,
    PlanView, RemoveProxyRefusal, RemovedProxyView, RingCopy, RingLoadView, RingMode,
    RingMoveRequest, RingMoveView, RingOutcome, RingServerRequest, RingServerView, RingSettings,
    RingSettingsRequest, RingSlotView, RingUnreachedView, RingView, RingsView, SavedChange,
    SavedChanges, SavedFollower, ServerOrder,
};
pub use cluster_hot_keys::{
    Balance, ClusterEventView, ClusterHotKeyEvents, ClusterHotKeysView, ClusterHottestView,
    ClusterKeyView, HotKeyEventCounts,
};
pub use cluster_loads::{
    CacheletLoadView, ClusterLoadsView, LoadNewsCounts, LoadOrder, ServerLoad, ServerLoadView,
    WorkerLoadView,
};
pub use config::{ConfigError, CoordinatorConfig};
pub use evenkeel_control::{
    Fault, Heartbeat, HeartbeatAnswer, LoadReport, MapOffer, MemberKind, MigrationReport,
    MigrationState, Reason, Refusal,
};
pub use evenkeel_hotkeys::config::Mode;
pub use evenkeel_hotkeys::settings::{SETTINGS, Settings};
pub use evenkeel_schemes::stage::{Stage, Step};
pub use evenkeel_types::promise::Consistency;
pub use evenkeel_types::promise::Promise;
pub use event::{Cause, EventsBody, MapEvent};
pub use explained::KeyExplained;
pub use heat::{HeatColumn, HeatView, HeatWorker, Step as HeatStep, WantedHeat};
pub use measure::Measure;
pub use members::{
    DrainRefusal, DrainRequest, DrainView, DrainsView, Electorate, RemoveRefusal, RemovedView,
    SavedServer, ServedView, WorkerName,
};
pub use migrating::{
    EndedMigration, MigrationCounts, MigrationEnd, MigrationRefusal, MigrationRequest,
    MigrationStage, MigrationView, MigrationsView,
};
pub use placing::{DeadLife, Moving, Purpose, Slot};
pub use quarantine::{QuarantinedView, ReleaseRefusal, ReleasedView, SavedDeath};
pub use recent::Recent;
pub use scale::{
    LedScale, ScaleCounts, ScaleEvent, ScaleEventsBody, ScaleTryView, ScaleView, ScaleWork,
    ScalesView,
};
pub use settings::{SettingsEvent, SettingsRefusal};
pub use snapshot::{Snapshot, Totals};
pub use state::{RestoreError, SavedState, StateError};
pub use view::{ProxiesView, ProxyView, ServerView, ServersView};
