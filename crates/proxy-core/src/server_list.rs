//! The servers of a pool of any memcached servers, and where keys live among them.

use evenkeel_placement::config::{PlacementConfig, PlacementError, Server};
use evenkeel_placement::pool::Placement;

/// The servers of a pool and where keys live among them: made once and shared by all workers.
#[derive(Debug)]
pub struct ServerList {
    config: PlacementConfig,
    placement: Placement,
}

impl ServerList {
    /// Deals the keys out to these servers.
    ///
    /// # Errors
    /// When they make no placement.
    pub fn new(config: PlacementConfig) -> Result<Self, PlacementError> {
        let placement = Placement::new(&config)?;
        Ok(ServerList { config, placement })
    }

    /// What it was made of.
    pub fn config(&self) -> &PlacementConfig {
        &self.config
    }

    /// Where keys live among them.
    pub(crate) fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The servers in the order given.
    pub fn servers(&self) -> &[Server] {
        &self.config.servers
    }

    /// Names of the distribution and of the hash function.
    pub fn rule(&self) -> (&'static str, &'static str) {
        (self.config.distribution.name(), self.config.hash().name())
    }

    /// The part of a key that decides where it lives, and its hash.
    #[inline]
    pub fn hashed<'k>(&self, key: &'k [u8]) -> (&'k [u8], u64) {
        self.placement.hashed(key)
    }
}
