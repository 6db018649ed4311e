//! Copies of a pool's items, which proxies keep so that wide multi-gets ask few servers: what a coordinator tells proxies of them, and what these
//! say.
//!
//! Copies are switched on and off by *plans*, each of which goes through the [stages](evenkeel_schemes::stage::Stage) of a pool's change: see
//! [`Switch`](evenkeel_schemes::copies::Switch).

use core::fmt;
use evenkeel_schemes::change::VERSION_MAX;
use serde::{Deserialize, Serialize};

/// Bits of a plan's [token](BundlePlan::token): as many as names of copies have room for.
pub const BUNDLE_TOKEN_BITS: u32 = 48;

/// Most copies of an item, its own place included: as many as the figures try (`docs/experiments/rnb-8.md`).
pub const COPIES_MAX: u8 = 8;

/// What a proxy's file says of a pool's copies. Who says the same has them in the same places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BundleWish {
    /// How many there are of each item, its own place included: 2 to [`COPIES_MAX`].
    pub copies: u8,
    /// Servers of the pool: one at least.
    pub servers: u32,
    /// A hash of all that says where copies are: of the servers by name and weight, of their distribution and hash, and of the number of copies.
    pub fingerprint: u64,
}

/// Copies of a pool's items, as all its proxies keep them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundlePlan {
    /// From 1 to [`VERSION_MAX`]; each switching on has a greater one than those before it.
    pub number: u64,
    /// Stands in the names of copies: [`BUNDLE_TOKEN_BITS`] that no other switching on has.
    pub token: u64,
    /// Where they are.
    pub of: BundleWish,
}

/// What a proxy is told of a pool's copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BundleStep {
    /// The newest plan.
    pub plan: BundlePlan,
    /// How many proxies follow the pool, this one included: they share what copies may take of the servers' memory. At least 1.
    pub proxies: u32,
}

impl BundleWish {
    /// Whether it is within its limits.
    pub fn is_sound(&self) -> bool {
        (2..=COPIES_MAX).contains(&self.copies) && self.servers > 0
    }
}

impl fmt::Display for BundleWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BundleWish {
            copies,
            servers,
            fingerprint,
        } = self;
        write!(
            f,
            "{copies} copies on {servers} servers ({fingerprint:016x})"
        )
    }
}

impl BundlePlan {
    /// Whether it is within its limits.
    pub fn is_sound(&self) -> bool {
        let is_numbered = (1..=VERSION_MAX).contains(&self.number);
        is_numbered && self.token >> BUNDLE_TOKEN_BITS == 0 && self.of.is_sound()
    }
}

impl BundleStep {
    /// Whether it is within its limits.
    pub fn is_sound(&self) -> bool {
        self.plan.is_sound() && self.proxies > 0
    }
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

impl FollowedBundle {
    /// Whether all of it is within its limits.
    pub fn is_sound(&self) -> bool {
        self.wish.is_sound() && self.plan.is_none_or(|plan| plan.is_sound())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_name_has_room_for_is_no_plan() {
        let wish = BundleWish {
            copies: 2,
            servers: 4,
            fingerprint: u64::MAX,
        };
        let plan = BundlePlan {
            number: 1,
            token: (1 << BUNDLE_TOKEN_BITS) - 1,
            of: wish,
        };
        let of = |copies, servers| BundlePlan {
            of: BundleWish {
                copies,
                servers,
                ..wish
            },
            ..plan
        };
        for sound in [plan, of(COPIES_MAX, 1)] {
            let followed = FollowedBundle {
                wish,
                plan: Some(sound),
            };
            assert!(followed.is_sound(), "{sound:?}");
        }
        let numbered = |number| BundlePlan { number, ..plan };
        let token = 1 << BUNDLE_TOKEN_BITS;
        for odd in [
            numbered(0),
            numbered(VERSION_MAX + 1),
            BundlePlan { token, ..plan },
            of(1, 4),
            of(COPIES_MAX + 1, 4),
            of(2, 0),
        ] {
            let followed = FollowedBundle {
                wish,
                plan: Some(odd),
            };
            assert!(!followed.is_sound(), "{odd:?}");
        }
    }
}
