//! What was copied of a plan of a ring.

use serde::{Deserialize, Serialize};

/// How far the copying of a plan is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingCopy {
    /// The plan's number.
    pub plan: u64,
    /// Nothing more is asked for.
    pub is_over: bool,
    /// The servers that give, as far as it has come.
    pub servers: Vec<CopiedServer>,
    /// Why it has ended before all servers had their turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// What was copied of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopiedServer {
    /// Its name.
    pub server: String,
    /// Keys that it has listed.
    pub listed: u64,
    /// Those of them that change hands, which were asked for.
    pub moving: u64,
    /// Those of them that had an item, at the new place or at this one.
    pub found: u64,
    /// Those that the proxy has refused to ask for again and again, as a server had too much to do. They come along only if they are asked for.
    pub refused: u64,
    /// Why not all of its keys were listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Keys that change hands and that a copier has asked for, by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedKeys {
    /// They had an item, which is at its new place.
    pub found: u64,
    /// A server had too much to do.
    pub refused: u64,
}

impl CopiedKeys {
    /// Adds those of a copying that has come this far since `before`.
    pub(super) fn add(&mut self, before: Option<&RingCopy>, copy: &RingCopy) {
        let sum = |copy: &RingCopy, of: fn(&CopiedServer) -> u64| -> u64 {
            copy.servers.iter().map(of).sum()
        };
        let more = |of| sum(copy, of).saturating_sub(before.map_or(0, |before| sum(before, of)));
        self.found += more(|it| it.found);
        self.refused += more(|it| it.refused);
    }
}

impl RingCopy {
    /// Whether all that moves was asked for.
    pub fn is_whole(&self) -> bool {
        let is_whole = |it: &CopiedServer| it.failed.is_none();
        self.is_over && self.failed.is_none() && self.servers.iter().all(is_whole)
    }
}
