//! Keeping a [copy](crate::locality::local_copies) at the own place of what another rack has answered.
//!
//! The copy is a note to that rack, and takes the place of a note to the same, by its unique; without notes (a directory), of nothing as well. So it
//! changes nothing of who holds the item: it covers no item and no lock, and commands meet it as what it covers.

use super::{Command, Heard, Kind, Next, Over, Racks, Site};
use crate::locality::topology::RackId;

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Looking,
    Storing,
    Over,
}

/// It on its way. Nobody waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Copying {
    kind: Kind,
    racks: Racks,
    /// Who has answered.
    holder: RackId,
    at: At,
}

impl Copying {
    /// One that has not started.
    pub fn new(kind: Kind, racks: Racks, holder: RackId) -> Self {
        Copying {
            kind,
            racks,
            holder,
            at: At::Looking,
        }
    }

    /// It starts.
    pub fn start(&mut self) -> Next {
        Next::ask(Command::Look, self.racks.own())
    }

    /// Whether nothing is awaited.
    pub fn is_over(&self) -> bool {
        self.at == At::Over
    }

    /// What was asked at a site has come to this: all transitions.
    pub fn handle(&mut self, site: Site, heard: Heard) -> Next {
        if site != self.racks.own() {
            return Next::default();
        }
        let over = match (self.at, heard) {
            (At::Looking, Heard::Note(unique, rack)) if rack == self.holder => {
                Some(Over::Unique(unique))
            }
            (At::Looking, Heard::Nothing) if self.kind == Kind::Directory => Some(Over::Nothing),
            _ => None,
        };
        match over {
            Some(over) => {
                self.at = At::Storing;
                Next::ask(Command::Note(self.holder, over), site)
            }
            None => {
                self.at = At::Over;
                Next::default()
            }
        }
    }
}
