//! Copies of a pool's items, which proxies keep so that wide multi-gets ask few servers: what a coordinator tells proxies of them, and what these
//! say.
//!
//! Copies are switched on and off by *plans*, each of which goes through the [stages](evenkeel_schemes::stage::Stage) of a pool's change: see
//! [`Switch`](evenkeel_schemes::copies::Switch).

use serde::{Deserialize, Serialize};

/// Bits of a plan's [token](BundlePlan::token): as many as names of copies have room for.
pub const BUNDLE_TOKEN_BITS: u32 = 48;

/// Most copies of an item, its own place included: as many as the figures try (`docs/experiments/rnb-8.md`).
pub const COPIES_MAX: u8 = 8;

/// What a proxy's file says of a pool's copies. Who says the same has them in the same places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleWish {
    /// How many there are of each item, its own place included: 2 to [`COPIES_MAX`].
    pub copies: u8,
    /// Servers of the pool.
    pub servers: u32,
    /// A hash of all that says where copies are: of the servers by name and weight, of their distribution and hash, and of the number of copies.
    pub fingerprint: u64,
}

/// Copies of a pool's items, as all its proxies keep them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundlePlan {
    /// From 1; each switching on has a greater one than those before it.
    pub number: u64,
    /// Stands in the names of copies: [`BUNDLE_TOKEN_BITS`] that no other switching on has.
    pub token: u64,
    /// Where they are.
    pub of: BundleWish,
}

/// How far a proxy is with a pool's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FollowedBundle {
    /// What its file says.
    pub wish: BundleWish,
    /// The newest plan that it was told; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<BundlePlan>,
}
