//! The racks of a pool of which one holds each item: which pool each place of a key belongs to.

use crate::ids::PoolId;
use crate::racks::Racks as Known;
use crate::ring::named;
use evenkeel_schemes::generation::{PREFIX_LEN, taken_apart};
use evenkeel_schemes::locality::holder::{Kind, Racks, Site};
use evenkeel_schemes::locality::topology::{Rack, RackId};
use evenkeel_schemes::name::{self, note_prefix};

/// Bytes before a key in the name of its note in a directory.
pub(crate) const NOTE_PREFIX_LEN: usize = name::Kind::Note.prefix_len();

/// The pools that a command's sites are.
pub(crate) struct Sites<'p> {
    /// The rack of the proxy.
    pub own: RackId,
    /// Those of all racks, its own among them.
    pub racks: &'p [(RackId, PoolId)],
    pub directory: Option<PoolId>,
    /// The pool that this one is warmed from.
    pub former: Option<PoolId>,
    /// What stands before a key in the names of that one's items.
    pub former_prefix: Option<[u8; PREFIX_LEN]>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct PoolRacks {
    pub kind: Kind,
    /// As its machines see them.
    pub racks: Racks,
    own: RackId,
    places: Vec<Place>,
    /// What stands before a key in its note's name. Pools that share a directory have different ones.
    note_prefix: [u8; NOTE_PREFIX_LEN],
    /// What stands before a key in its name at the former pool.
    former_prefix: Option<[u8; PREFIX_LEN]>,
}

/// Where a site's commands go.
#[derive(Clone, Copy, Debug)]
struct Place {
    site: Site,
    pool: PoolId,
    /// The token of its rack.
    token: u64,
    /// What its uniques are combined with (exclusive or) where applications see them.
    unique_mask: u64,
}

impl PoolRacks {
    /// The pool of this name. What its uniques are shown as is combined with `shown_as` besides.
    pub fn new((kind, name): (Kind, &str), sites: Sites<'_>, shown_as: u64, known: &Known) -> Self {
        let Sites {
            own,
            racks: pools,
            directory,
            former,
            former_prefix,
        } = sites;
        let place_of = |&(rack, pool): &(RackId, PoolId)| {
            let found = known.topology().get(rack);
            Place {
                site: Site::Rack(rack),
                pool,
                token: found.map_or(0, Rack::token),
                unique_mask: found.map_or(0, Rack::unique_mask) ^ shown_as,
            }
        };
        let place = |site| {
            move |pool| Place {
                site,
                pool,
                token: 0,
                unique_mask: 0,
            }
        };
        let directory = directory.map(place(Site::Directory));
        let former = former.map(place(Site::Former));
        PoolRacks {
            kind,
            racks: Racks::new(own, pools.iter().map(|(rack, _)| *rack)),
            own,
            places: pools
                .iter()
                .map(place_of)
                .chain(directory)
                .chain(former)
                .collect(),
            note_prefix: note_prefix(name),
            former_prefix,
        }
    }

    /// The place in the own rack.
    pub fn own(&self) -> Site {
        Site::Rack(self.own)
    }

    /// The pool that a site's commands are put to.
    pub fn pool_of(&self, site: Site) -> Option<PoolId> {
        self.at(site).map(|place| place.pool)
    }

    /// The site whose commands are put to a pool.
    pub fn site_of(&self, pool: PoolId) -> Option<Site> {
        let place = self.places.iter().find(|place| place.pool == pool);
        place.map(|place| place.site)
    }

    /// The pools of all racks.
    pub fn pools(&self) -> impl Iterator<Item = PoolId> {
        let is_rack = |it: &&Place| matches!(it.site, Site::Rack(_));
        self.places.iter().filter(is_rack).map(|place| place.pool)
    }

    /// Whether it puts commands to a pool.
    pub fn uses(&self, pool: PoolId) -> bool {
        self.site_of(pool).is_some()
    }

    /// What uniques of a site are combined with where applications see them.
    pub fn unique_mask(&self, site: Site) -> u64 {
        self.at(site).map_or(0, |place| place.unique_mask)
    }

    /// What stands for a rack in notes.
    pub fn token(&self, rack: RackId) -> u64 {
        self.at(Site::Rack(rack)).map_or(0, |place| place.token)
    }

    /// The rack to which a note at a site leads: none where that is the site itself, or no rack of the pool.
    pub fn noted(&self, at: Site, token: u64) -> Option<RackId> {
        let mut places = self.places.iter();
        let found = places.find_map(|place| match place.site {
            Site::Rack(rack) if place.token == token => Some(rack),
            _ => None,
        });
        found.filter(|rack| Site::Rack(*rack) != at)
    }

    /// Whether a read whose own place has nothing goes on.
    pub fn asks_on(&self) -> bool {
        self.kind == Kind::Directory
    }

    /// What the item of a name is called at a site.
    pub fn name(&self, site: Site, name: &[u8]) -> Vec<u8> {
        match site {
            Site::Rack(_) => name.to_vec(),
            Site::Directory => [&self.note_prefix, taken_apart(name).1].concat(),
            Site::Former => named(self.former_prefix, taken_apart(name).1),
        }
    }

    fn at(&self, site: Site) -> Option<&Place> {
        self.places.iter().find(|place| place.site == site)
    }
}
