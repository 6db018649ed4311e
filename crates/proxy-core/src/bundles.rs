//! Where the copies of a pool's items are (Replicate and Bundle).

use crate::server_list::ServerList;
use evenkeel_control::bundles::{BundleWish, COPIES_MAX};
use evenkeel_placement::copies::Copies;
use evenkeel_placement::cover::Cover;
use evenkeel_protocol::KEY_LEN_MAX;
use evenkeel_schemes::copies::PREFIX_LEN;
use evenkeel_types::KeyHash;
use std::fmt::Write;

/// Where the copies of a pool's items are, or would be: made once and shared by all workers.
#[derive(Debug)]
pub struct Bundles {
    ring: Copies,
    wish: BundleWish,
    keeping: Option<Keeping>,
}

/// How copies are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keeping {
    /// How many seconds a copy lives at most; at least 1.
    pub ttl: u32,
    /// Values of more bytes are not copied.
    pub value_max: usize,
    /// The part of each server's memory that copies may take which all proxies together store there within [`ttl`](Self::ttl): above 0, 1 at most.
    pub fill_share: f64,
    /// A write is an error if a copy may be left.
    pub strict: bool,
}

impl Default for Keeping {
    fn default() -> Self {
        Keeping {
            ttl: 60,
            value_max: 16 << 10,
            fill_share: 0.25,
            strict: true,
        }
    }
}

impl Bundles {
    /// So many copies of each item, its own place included, 2 to [`COPIES_MAX`], among these servers. Fewer where there are fewer servers. Without
    /// `keeping` they are only supposed. O(points): a tenth of a second for a thousand servers.
    pub fn new(list: &ServerList, copies: u8, keeping: Option<Keeping>) -> Self {
        let servers = list.servers().iter();
        let members: Vec<_> = servers.map(|it| (it.identity(), it.weight)).collect();
        Bundles {
            ring: Copies::new(&members),
            wish: Bundles::wish_of(list, copies.min(COPIES_MAX)),
            keeping,
        }
    }

    /// What a coordinator is told of so many copies. O(servers).
    pub fn wish_of(list: &ServerList, copies: u8) -> BundleWish {
        BundleWish {
            copies,
            servers: u32::try_from(list.servers().len()).unwrap_or(u32::MAX),
            fingerprint: fingerprint(list, copies),
        }
    }

    /// What a coordinator is told.
    pub fn wish(&self) -> BundleWish {
        self.wish
    }

    /// How they are kept, if they are not only supposed.
    pub fn keeping(&self) -> Option<Keeping> {
        self.keeping
    }

    /// How many each item has, its own place included.
    pub(crate) fn copies(&self) -> usize {
        self.wish.copies.into()
    }

    /// By which a cover chooses between servers that hold equally many.
    fn seeds(&self) -> &[u64] {
        self.ring.seeds()
    }

    /// Covers so many of a request's keys by servers that may be asked. `homes` gets the home of each key.
    pub(crate) fn cover<'k>(
        &self,
        (cover, homes): (&mut Cover, &mut Vec<u32>),
        list: &ServerList,
        keys: impl Iterator<Item = &'k [u8]>,
        wanted: usize,
        may_ask: impl Fn(u32) -> bool,
    ) {
        cover.clear();
        homes.clear();
        homes.extend(keys.map(|key| self.add(cover, list, key, &may_ask)));
        cover.choose(self.seeds(), wanted.min(homes.len()));
    }

    /// Adds a key to a cover, with those of its places that may be asked. Its home.
    fn add(
        &self,
        cover: &mut Cover,
        list: &ServerList,
        key: &[u8],
        may_ask: impl Fn(u32) -> bool,
    ) -> u32 {
        let mut all = [0; COPIES_MAX as usize];
        let all = self.places(list, key, &mut all);
        let home = all[0];
        let mut usable = [0; COPIES_MAX as usize];
        let mut found = 0;
        for &place in all.iter().filter(|place| may_ask(**place)) {
            usable[found] = place;
            found += 1;
        }
        match found {
            // It is answered as one whose home is out of use.
            0 => cover.add(KeyHash::of(key).0, &[home]),
            _ => cover.add(KeyHash::of(key).0, &usable[..found]),
        }
        home
    }

    /// The places of a key in the list, its home first: that alone where the name of a copy would be too long.
    pub(crate) fn places<'p>(
        &self,
        list: &ServerList,
        key: &[u8],
        places: &'p mut [u32; COPIES_MAX as usize],
    ) -> &'p [u32] {
        let (home, hash) = list.placement().server_and_hash(key);
        let wanted = match PREFIX_LEN + key.len() <= KEY_LEN_MAX {
            true => self.copies(),
            false => 1,
        };
        let found = self.ring.places(KeyHash(hash), home, &mut places[..wanted]);
        &places[..found]
    }
}

/// A hash of all that says where copies are.
fn fingerprint(list: &ServerList, copies: u8) -> u64 {
    let (distribution, hash) = list.rule();
    let tag = list.config().hash_tag.map(String::from).unwrap_or_default();
    let mut said = format!("{copies} {distribution} {hash} {tag}");
    for server in list.servers() {
        // Writing into memory cannot fail.
        let _ = write!(said, "\n{} {}", server.identity(), server.weight);
    }
    KeyHash::of(said.as_bytes()).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_placement::config::{PlacementConfig, Server};

    fn list(names: &[&str]) -> ServerList {
        let config = PlacementConfig {
            servers: names.iter().map(|name| Server::new(*name, 1)).collect(),
            ..PlacementConfig::default()
        };
        ServerList::new(config).expect("servers")
    }

    #[test]
    fn wishes_are_equal_where_copies_are_in_the_same_places() {
        let wish = |names: &[&str], copies| Bundles::new(&list(names), copies, None).wish();
        let one = wish(&["a", "b", "c"], 2);
        assert_eq!((one.copies, one.servers), (2, 3));
        assert_eq!(one, wish(&["a", "b", "c"], 2));
        for other in [wish(&["a", "b", "d"], 2), wish(&["a", "b", "c"], 3)] {
            assert_ne!(one.fingerprint, other.fingerprint);
        }
    }

    #[test]
    fn keys_that_leave_no_room_for_a_name_are_at_home_alone() {
        let servers = list(&["a", "b", "c"]);
        let bundles = Bundles::new(&servers, 3, None);
        let count = |len: usize| {
            let key = vec![b'k'; len];
            bundles
                .places(&servers, &key, &mut [0; COPIES_MAX as usize])
                .len()
        };
        assert_eq!([count(1), count(239), count(240), count(250)], [3, 3, 1, 1]);
    }

    #[test]
    fn places_that_may_not_be_asked_are_left_out_unless_none_may() {
        let servers = list(&["a", "b", "c"]);
        let bundles = Bundles::new(&servers, 2, None);
        let mut cover = Cover::default();
        let home = bundles.add(&mut cover, &servers, b"k", |_| true);
        let chosen = |may_ask: &dyn Fn(u32) -> bool| {
            let mut cover = Cover::default();
            bundles.add(&mut cover, &servers, b"k", may_ask);
            cover.choose(bundles.seeds(), 1);
            cover.server(0)
        };
        assert_eq!(chosen(&|_| true), Some(home));
        assert_ne!(chosen(&|place| place != home), Some(home));
        assert_eq!(chosen(&|_| false), Some(home));
    }
}
