//! The routes of a core's configuration, and where they lead.

use crate::ids::RouteId;
use crate::routes::way::Way;
use crate::routes::{CommandClass, Renames, RouteTable};
use std::sync::Arc;

/// The routes, for the way of every key.
#[derive(Debug)]
pub(crate) struct Routing {
    table: Arc<RouteTable>,
    /// Where each route leads, by its position.
    ways: Vec<Way>,
    /// What servers call keys.
    pub renames: Renames,
}

impl Routing {
    /// Routes that lead nowhere yet: [`Routing::set`] must follow.
    pub fn new(table: &Arc<RouteTable>) -> Self {
        Routing {
            table: Arc::clone(table),
            ways: Vec::new(),
            renames: Renames::default(),
        }
    }

    /// From now on these routes lead there.
    pub fn set(&mut self, table: &Arc<RouteTable>, ways: Vec<Way>) {
        debug_assert_eq!(table.routes().len(), ways.len());
        self.table = Arc::clone(table);
        self.ways = ways;
    }

    /// The way of commands about a key.
    #[inline]
    pub fn way(&self, key: &[u8], class: CommandClass) -> &Way {
        &self.ways[self.table.find(key, class)]
    }

    pub fn table(&self) -> &RouteTable {
        &self.table
    }

    /// The ways of all routes, in their order.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// Position of a route in the configuration.
    pub fn position(&self, id: RouteId) -> Option<usize> {
        self.ways.iter().position(|way| way.route() == id)
    }
}
