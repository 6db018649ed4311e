//! What can be wrong on purpose, so that the checks of a run are seen to notice; `mutants` executes it.

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Shadow servers confirm every other value without taking it, and boast.
    ReplicaStoresDropped,
    /// Homes grant leases with every value, and shadow servers boast.
    GrantsAlways,
    /// Proxies are told of leases much longer than the home waits for, or lend themselves what a plain
    /// server said for much longer than is promised.
    LeasesTooLong,
    /// Shadow servers boast, so that proxies cannot see that a copy is behind.
    CopiesBoast,
    /// Homes answer every read with version 1, so that proxies do not know how new a value is that they
    /// have shown.
    HomesLookOld,
    /// Shadow servers take a value again that they were sent before, and boast.
    OldFillsTaken,
    /// Homes answer one read in fifty with a miss.
    MissesInvented,
    /// Homes confirm one set in twenty that they do not execute.
    WritesDropped,
    /// One write in twenty is executed twice.
    WritesRepeated,
    /// Homes do not look at the version that a swap is for.
    SwapsAlways,
    /// A server's versions begin at 1 in each of its lives.
    VersionsRepeated,
    /// Homes keep what expires.
    ExpiryForgotten,
    /// Homes confirm `flush_all` and keep what they have.
    FlushIgnored,
    /// A server and a proxy are told that a key has another home.
    TwoHomes,
    /// Proxies do not notice that applications are gone.
    ConnectionsLeaked,
    /// One answer in a thousand never reaches its application.
    AnswersLost,
    /// A proxy is told of one map and of no other.
    MapsLost,
    /// Targets of migrations do not take one item in three.
    MigrationsLoseItems,
    /// Targets of migrations keep what was deleted at the source meanwhile.
    MigrationsKeepDeleted,
    /// Sources of migrations say that a cachelet has passed while they still copy it, and the map names the target.
    FlipsEarly,
    /// Servers say that they work by a map, and so have let go of what it takes from them, as soon as they are told of it, and
    /// their workers hear of it a second later.
    MapsConfirmedEarly,
    /// Servers serve on when their leases are over.
    LeasesOutlived,
    /// What happens follows from more than the seed.
    Undetermined,
    /// With atomic writes: homes answer at once.
    AnswersNotHeld,
    /// With atomic writes: homes answer at once when a map has just given them keys.
    NewHomesAnswer,
    /// With atomic writes: shadow servers confirm that they serve a key no more, and go on.
    ShadowsServeOn,
    /// With atomic writes: a value that was held back brings a lease.
    GrantsWhileHeld,
    /// Proxies acknowledge each step of a led pool as soon as they are told of it, whatever is under way.
    AcknowledgedEarly,
    /// A proxy works by the former stage of a led pool for ever, and acknowledges what it is told.
    StageKept,
    /// The leader of a pool takes it that all others have followed, whenever one proxy speaks.
    StepsRushed,
    /// Servers of a led pool take an item that is brought, or a copy, whatever is there by now.
    FillsUnguarded,
    /// Servers of a led pool show placeholders as if they were items.
    MarksShown,
    /// Former servers of a led pool confirm deletes and keep what they have.
    FormerKept,
    /// Servers of a ring take the names of all generations of a key for one, as if each plan had that of what was there before it.
    GenerationsReused,
    /// Proxies combine uniques of a ring's items with nothing, whatever the generation.
    MasksLeftOut,
    /// A proxy that comes back works by the ring before the present plan until it is told of another step.
    OldRingKept,
    /// Servers confirm deletes of copies and keep what they have.
    CopiesLeft,
    /// Proxies give copies the same names whenever they are switched on.
    TokensReused,
    /// Servers of a pool in racks confirm notes and deletes that would take an item away, and keep it.
    HoldersKept,
    /// Plain servers find a replica by the key alone, whatever content its name asks for.
    ReplicasUnnamed,
}

impl Fault {
    /// Those of plain servers.
    pub const PLAIN: [Fault; 5] = [
        Fault::LeasesTooLong,
        Fault::ReplicasUnnamed,
        Fault::SwapsAlways,
        Fault::WritesDropped,
        Fault::WritesRepeated,
    ];

    /// Those of pools that are led to other servers, and of rings.
    pub const LED: [Fault; 6] = [
        Fault::AcknowledgedEarly,
        Fault::StageKept,
        Fault::StepsRushed,
        Fault::FillsUnguarded,
        Fault::MarksShown,
        Fault::FormerKept,
    ];

    /// Those of rings alone.
    pub const RING: [Fault; 3] = [
        Fault::GenerationsReused,
        Fault::MasksLeftOut,
        Fault::OldRingKept,
    ];

    /// Those of pools that keep copies.
    pub const COPIES: [Fault; 5] = [
        Fault::StageKept,
        Fault::StepsRushed,
        Fault::FillsUnguarded,
        Fault::CopiesLeft,
        Fault::TokensReused,
    ];

    /// Those of pools in racks of which one holds each item.
    pub const RACKS: [Fault; 2] = [Fault::MarksShown, Fault::HoldersKept];

    /// Those of atomic writes.
    pub const ATOMIC: [Fault; 4] = [
        Fault::AnswersNotHeld,
        Fault::NewHomesAnswer,
        Fault::ShadowsServeOn,
        Fault::GrantsWhileHeld,
    ];

    /// Those of a cluster of Evenkeel servers.
    pub const ALL: [Fault; 23] = [
        Fault::ReplicaStoresDropped,
        Fault::GrantsAlways,
        Fault::CopiesBoast,
        Fault::HomesLookOld,
        Fault::LeasesTooLong,
        Fault::OldFillsTaken,
        Fault::MissesInvented,
        Fault::WritesDropped,
        Fault::WritesRepeated,
        Fault::SwapsAlways,
        Fault::VersionsRepeated,
        Fault::ExpiryForgotten,
        Fault::FlushIgnored,
        Fault::TwoHomes,
        Fault::ConnectionsLeaked,
        Fault::AnswersLost,
        Fault::MapsLost,
        Fault::MigrationsLoseItems,
        Fault::MigrationsKeepDeleted,
        Fault::FlipsEarly,
        Fault::MapsConfirmedEarly,
        Fault::LeasesOutlived,
        Fault::Undetermined,
    ];
}
