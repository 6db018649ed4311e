//! Why an order about changes of pools is refused.

use evenkeel_control::rings::BadPlan;
use evenkeel_schemes::change::NoChange;
use evenkeel_schemes::copies::Switch;
use evenkeel_schemes::stage::Stage;

use crate::limits::WHEN_WARM_MAX_S;

/// Why something is not done with a pool's change. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChangeRefusal {
    /// Nobody follows it here.
    #[error(
        "no proxy follows a pool of the name {pool:?} here; `evenkeel changes` lists those that are followed"
    )]
    UnknownPool {
        /// The name.
        pool: String,
    },
    /// Only two stages are resting places that one goes on to.
    #[error("a change can go to warming or to done, not to {goal}")]
    BadGoal {
        /// The stage.
        goal: Stage,
    },
    /// It would not wait for anything, or for too long.
    #[error(
        "a change waits for its pool to be warm on the way to done alone, for 1 to {WHEN_WARM_MAX_S} s"
    )]
    BadWarming,
    /// An operator has to know of one at least.
    #[error("say how many proxies have the pool: 1 at least")]
    NoProxies,
    /// It is there already.
    #[error("pool {pool} is at stage {stage} already")]
    Reached {
        /// The pool.
        pool: String,
        /// Where it is.
        stage: Stage,
    },
    /// Not as many follow as an operator says that there are.
    #[error(
        "{known} {proxies} pool {pool}, not {said}: a proxy that is not known here would be left behind; \
         `evenkeel changes` lists those that are known",
        proxies = follow(*.known)
    )]
    OtherCount {
        /// The pool.
        pool: String,
        /// How many follow.
        known: usize,
        /// How many there are said to be.
        said: usize,
    },
    /// There is no way back.
    #[error(
        "pool {pool} is at stage {stage}: a change can be withdrawn until the pool is warming, since then there are items \
         here that the former servers do not have"
    )]
    PastReturn {
        /// The pool.
        pool: String,
        /// Where it is.
        stage: Stage,
    },
    /// It was taken over, and a proxy that is not known here may be further than those that are.
    #[error(
        "pool {pool} is at stage {stage} by what a proxy has said, and another may be further; first say how many proxies \
         there are: `evenkeel changes begin {pool} --to warming --proxies N`"
    )]
    Unconfirmed {
        /// The pool.
        pool: String,
        /// Where it is.
        stage: Stage,
    },
    /// A ring moves by parts.
    #[error(
        "pool {pool} has a ring, which has no former servers; parts of it move: \
         `evenkeel ring move {pool} --from SERVER --to SERVER --grains N --proxies N`"
    )]
    HasRing {
        /// The pool.
        pool: String,
    },
    /// There is nothing to move parts of.
    #[error(
        "pool {pool} has no ring: no proxy has it with distribution = \"adaptive\" in its file"
    )]
    NoRing {
        /// The pool.
        pool: String,
    },
    /// One plan after the other.
    #[error(
        "plan {number} of the ring of pool {pool} is under way: wait for its end, or take it back: `evenkeel ring withdraw {pool}`"
    )]
    PlanUnderWay {
        /// The pool.
        pool: String,
        /// The plan's number.
        number: u64,
    },
    /// A proxy works by a plan that this coordinator has not.
    #[error(
        "proxy {proxy} works by a plan of pool {pool} that this coordinator does not know: restore the coordinator's state; if \
         the proxy's process has ended: `evenkeel proxies remove {proxy}`"
    )]
    Stranger {
        /// The pool.
        pool: String,
        /// The proxy.
        proxy: String,
    },
    /// Copies are switched, and not led from former servers.
    #[error(
        "pool {pool} keeps copies, and has no former servers; these are switched on and off: \
         `evenkeel bundle on {pool} --proxies N`, `evenkeel bundle off {pool} --proxies N`"
    )]
    HasBundle {
        /// The pool.
        pool: String,
    },
    /// There are no copies to switch.
    #[error("pool {pool} keeps no copies: no proxy says in its file how many there are to be")]
    NoBundle {
        /// The pool.
        pool: String,
    },
    /// Copies are there already, or have been ordered to be.
    #[error(
        "the copies of pool {pool} are {switch} already, or about to be: `evenkeel bundle show {pool}`"
    )]
    Switched {
        /// The pool.
        pool: String,
        /// On or off.
        switch: Switch,
    },
    /// One after the other.
    #[error("the copies of pool {pool} are being switched off: wait until they are, and try again")]
    SwitchingOff {
        /// The pool.
        pool: String,
    },
    /// A plan begins behind the end of the one before.
    #[error(
        "{proxies} of pool {pool} have yet to follow the step before: wait, and try again; `evenkeel bundle show {pool}`"
    )]
    Behind {
        /// The pool.
        pool: String,
        /// Who, in words.
        proxies: String,
    },
    /// Proxies would look for copies at different places.
    #[error("the files of proxies say different things of the copies of pool {pool}; {wishes}")]
    OtherWishes {
        /// The pool.
        pool: String,
        /// Who says what, in words.
        wishes: String,
    },
    /// Parts that cannot move so.
    #[error("the ring of pool {pool} is not moved: {why}")]
    BadMoves {
        /// The pool.
        pool: String,
        /// What is wrong.
        why: BadMoves,
    },
    /// Settings of a ring out of their range.
    #[error("{why}")]
    BadSettings {
        /// What is wrong.
        why: String,
    },
    /// Autoscaling has not decided anything of which it asks whether it may.
    #[error(
        "nothing of the autoscaling of pool {pool} waits for approval: `evenkeel scale show {pool}`"
    )]
    NothingToApprove {
        /// The pool.
        pool: String,
    },
    /// Proxies follow it.
    #[error(
        "{known} {proxies} pool {pool}: take it out of their files, or end them, before it is forgotten",
        proxies = follow(*.known)
    )]
    StillFollowed {
        /// The pool.
        pool: String,
        /// How many.
        known: usize,
    },
}

fn follow(count: usize) -> &'static str {
    match count {
        1 => "proxy follows",
        _ => "proxies follow",
    }
}

impl ChangeRefusal {
    /// What the change of a pool has to say, of which this many proxies are said to be there.
    pub(super) fn of(pool: &str, said: usize, refused: &NoChange) -> Self {
        let pool = pool.to_owned();
        match *refused {
            NoChange::Reached(stage) => ChangeRefusal::Reached { pool, stage },
            NoChange::OtherCount(known) => ChangeRefusal::OtherCount { pool, known, said },
            NoChange::PastReturn(stage) => ChangeRefusal::PastReturn { pool, stage },
        }
    }
}

/// Why parts of a ring do not move so. Anyone who ordered it is at fault.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadMoves {
    /// Nothing was ordered.
    #[error("name at least one part")]
    Nothing,
    /// What is measured asks for nothing at present, or has been ordered.
    #[error("nothing is planned for it at present: `evenkeel ring show` says what is")]
    NothingPlanned,
    /// No server is known by this.
    #[error("no server of it is known as {server:?}; `evenkeel ring show` lists them")]
    UnknownServer {
        /// What was said.
        server: String,
    },
    /// It has no part of the ring, or no grain was asked for.
    #[error("server {server} has nothing to give, or no grain was asked of it")]
    NothingToGive {
        /// Which.
        server: String,
    },
    /// It has it already.
    #[error("server {server} has hashes from {first:#010x} to {last:#010x} already")]
    AtTarget {
        /// The server.
        server: String,
        /// The first hash of the part.
        first: u32,
        /// Its last.
        last: u32,
    },
    /// Not the address of a server.
    #[error("{address:?} is no address of a server: say HOST or HOST:PORT")]
    BadAddress {
        /// What was said.
        address: String,
    },
    /// It is no newcomer.
    #[error("server {server} has a part of it already")]
    OwnsAlready {
        /// Which.
        server: String,
    },
    /// The ring cannot change so.
    #[error(transparent)]
    Plan(#[from] BadPlan),
}

/// Why a proxy is not removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoveProxyRefusal {
    /// No proxy of that name is known.
    #[error("no proxy is named {name:?}; `evenkeel proxies` lists those that are known")]
    UnknownProxy {
        /// The name.
        name: String,
    },
    /// It was heard a moment ago.
    #[error(
        "proxy {name:?} was heard {silent_ms} ms ago, so its process has not ended for certain: end it first, and try again \
         when it has been silent for {wanted_ms} ms"
    )]
    StillHeard {
        /// The name.
        name: String,
        /// How long it has been silent, in milliseconds.
        silent_ms: u64,
        /// How long it has to be.
        wanted_ms: u64,
    },
}
