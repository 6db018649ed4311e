//! Who was up by which maps: those whose votes a server may have found.

use std::collections::VecDeque;

use evenkeel_types::{Epoch, ServerId};
use serde::{Deserialize, Serialize};

use crate::limits::ELECTORATES_MAX;

/// The servers that are up by a map, and by all that follow until there is another such list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Electorate {
    /// The first map.
    pub from: Epoch,
    /// Who is up, ascending.
    pub servers: Vec<ServerId>,
}

/// Who was up by which maps, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Electorates(VecDeque<Electorate>);

impl Electorates {
    pub(crate) fn restore(saved: Vec<Electorate>) -> Self {
        Electorates(saved.into())
    }

    pub(crate) fn saved(&self) -> Vec<Electorate> {
        self.0.iter().cloned().collect()
    }

    /// Those who are up by the map `from`, which is the newest.
    pub(crate) fn note(&mut self, from: Epoch, servers: Vec<ServerId>) {
        if self
            .0
            .back()
            .is_some_and(|newest| newest.servers == servers)
        {
            return;
        }
        if self.0.len() == ELECTORATES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Electorate { from, servers });
    }

    /// Nobody that counts works by an older map.
    pub(crate) fn forget_before(&mut self, oldest: Epoch) {
        while self.0.get(1).is_some_and(|second| second.from <= oldest) {
            self.0.pop_front();
        }
    }

    /// Whether a server is in any of them. O(changes · log servers).
    pub(crate) fn name(&self, server: ServerId) -> bool {
        let mut lists = self.0.iter();
        lists.any(|list| list.servers.binary_search(&server).is_ok())
    }

    /// Those that a server may go by that works by `oldest` or a later map; `None` where that was forgotten.
    pub(crate) fn since(&self, oldest: Epoch) -> Option<impl Iterator<Item = &Electorate>> {
        let covering = self.0.iter().rposition(|it| it.from <= oldest)?;
        Some(self.0.range(covering..))
    }
}
