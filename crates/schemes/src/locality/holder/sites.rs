//! Where commands go.

use crate::locality::topology::RackId;

/// Where a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// To the key's place in a rack.
    Rack(RackId),
    /// To the directory.
    Directory,
    /// To the pool from which this one is warmed, as an application's command of the same rack.
    Former,
}

/// Some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sites {
    racks: u64,
    directory: bool,
    former: bool,
}

impl Sites {
    /// Adds one.
    pub fn insert(&mut self, site: Site) {
        match site {
            Site::Rack(rack) => self.racks |= bit(rack),
            Site::Directory => self.directory = true,
            Site::Former => self.former = true,
        }
    }

    /// Takes one out. Whether it was there.
    pub fn remove(&mut self, site: Site) -> bool {
        let was_there = self.has(site);
        match site {
            Site::Rack(rack) => self.racks &= !bit(rack),
            Site::Directory => self.directory = false,
            Site::Former => self.former = false,
        }
        was_there
    }

    /// Whether it is one of them.
    pub fn has(self, site: Site) -> bool {
        match site {
            Site::Rack(rack) => self.racks & bit(rack) != 0,
            Site::Directory => self.directory,
            Site::Former => self.former,
        }
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self == Sites::default()
    }

    /// Each, racks in their order first.
    pub fn iter(self) -> impl Iterator<Item = Site> {
        let racks = RackId::all().map(Site::Rack);
        let all = racks.chain([Site::Directory, Site::Former]);
        all.filter(move |site| self.has(*site))
    }
}

fn bit(rack: RackId) -> u64 {
    1 << rack.number()
}

impl From<Site> for Sites {
    fn from(site: Site) -> Self {
        Sites::from_iter([site])
    }
}

impl FromIterator<Site> for Sites {
    fn from_iter<I: IntoIterator<Item = Site>>(all: I) -> Self {
        let mut sites = Sites::default();
        all.into_iter().for_each(|site| sites.insert(site));
        sites
    }
}
