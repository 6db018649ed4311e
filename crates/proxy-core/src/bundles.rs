//! Where the copies of a pool's items would be (Replicate and Bundle).

use crate::server_list::ServerList;
use evenkeel_control::bundles::COPIES_MAX;
use evenkeel_placement::copies::Copies;
use evenkeel_placement::cover::Cover;
use evenkeel_types::KeyHash;

/// Where the copies of a pool's items would be: made once and shared by all workers.
#[derive(Debug)]
pub struct Bundles {
    copies: usize,
    ring: Copies,
}

impl Bundles {
    /// So many copies of each item, its own place included, 2 to [`COPIES_MAX`], among these servers. Fewer where there are fewer servers. O(points): a
    /// tenth of a second for a thousand servers.
    pub fn new(list: &ServerList, copies: u8) -> Self {
        let servers = list.servers().iter();
        let members: Vec<_> = servers.map(|it| (it.identity(), it.weight)).collect();
        Bundles {
            copies: usize::from(copies.min(COPIES_MAX)),
            ring: Copies::new(&members),
        }
    }

    /// How many each item would have, its own place included.
    pub(crate) fn copies(&self) -> usize {
        self.copies
    }

    /// By which a cover chooses between servers that hold equally many.
    pub(crate) fn seeds(&self) -> &[u64] {
        self.ring.seeds()
    }

    /// Adds a key to a cover. Its home.
    pub(crate) fn add(&self, cover: &mut Cover, list: &ServerList, key: &[u8]) -> u32 {
        let (home, hash) = list.placement().server_and_hash(key);
        let mut places = [0; COPIES_MAX as usize];
        let places = &mut places[..self.copies];
        let found = self.ring.places(KeyHash(hash), home, places);
        cover.add(KeyHash::of(key).0, &places[..found]);
        home as u32
    }
}
