//! Where the copies of a pool's items are (Replicate and Bundle).

use crate::racks::Racks;
use crate::server_list::ServerList;
use evenkeel_control::bundles::{BundleWish, COPIES_MAX};
use evenkeel_placement::copies::Copies;
use evenkeel_placement::cover::Cover;
use evenkeel_protocol::KEY_LEN_MAX;
use evenkeel_schemes::copies::PREFIX_LEN;
use evenkeel_schemes::generation::{self, taken_apart};
use evenkeel_schemes::locality::topology::RackId;
use evenkeel_types::KeyHash;
use std::fmt::Write;

/// Where the copies of a pool's items are, or would be: made once and shared by all workers.
#[derive(Debug)]
pub struct Bundles {
    ring: Copies,
    wish: BundleWish,
    keeping: Option<Keeping>,
    racks: Option<RackOfEach>,
    /// Items have names of the pool's own: a copy's is that of its item behind its own prefix.
    is_named: bool,
}

/// Where the servers of a list stand.
#[derive(Debug)]
struct RackOfEach {
    /// By position in the list.
    servers: Vec<Option<RackId>>,
    own: Option<RackId>,
}

impl RackOfEach {
    fn new(list: &ServerList, racks: &Racks) -> Self {
        let servers = list.servers().iter();
        RackOfEach {
            servers: (servers.map(|it| racks.of_server(&it.host, it.port, None))).collect(),
            own: racks.own(),
        }
    }
}

/// A place that is a little further away than the nearest is as good: which one is nearest would change with each
/// measurement otherwise. A fifth, as a divisor.
const AS_NEAR: u64 = 5;

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
    /// This many copies of each item, its own place included, 2 to [`COPIES_MAX`], among these servers. Fewer where there are fewer servers. Without
    /// `keeping` they are only supposed. O(points): a tenth of a second for a thousand servers.
    ///
    /// With `racks` copies of an item are in different ones, and reads go to the nearest: SDR of "Exploring non-typical memcache architectures for decreased
    /// latency and distributed network usage" (Talaga and Chapin). Servers whose rack is not known from their configuration count as of one rack.
    pub fn new(
        list: &ServerList,
        copies: u8,
        keeping: Option<Keeping>,
        racks: Option<&Racks>,
    ) -> Self {
        let servers = list.servers().iter();
        let members: Vec<_> = servers.map(|it| (it.identity(), it.weight)).collect();
        let wish = Bundles::wish_of(list, copies.min(COPIES_MAX), racks);
        let racks = racks.map(|racks| RackOfEach::new(list, racks));
        let group = |rack: &Option<RackId>| rack.map_or(u16::MAX, |rack| rack.number().into());
        let ring = match &racks {
            None => Copies::new(&members),
            Some(racks) => {
                let groups: Vec<u16> = racks.servers.iter().map(group).collect();
                Copies::apart(&members, &groups)
            }
        };
        Bundles {
            ring,
            wish,
            keeping,
            racks,
            is_named: false,
        }
    }

    /// The same of items that have names of their pool's [own](evenkeel_schemes::generation), if they have.
    #[must_use]
    pub fn of_named(self, is_named: bool) -> Self {
        Bundles { is_named, ..self }
    }

    /// What a coordinator is told of this many copies. O(servers).
    pub fn wish_of(list: &ServerList, copies: u8, racks: Option<&Racks>) -> BundleWish {
        BundleWish {
            copies,
            servers: u32::try_from(list.servers().len()).unwrap_or(u32::MAX),
            fingerprint: fingerprint(list, copies, racks),
        }
    }

    /// Whether reads go to the nearest copy, those of one key too.
    pub fn reads_near(&self) -> bool {
        self.racks.is_some()
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

    /// Covers this many of a request's keys by servers that may be asked. `homes` gets the home of each key. `distance` says how far away a server is in
    /// microseconds, if that is known: it is asked where reads go to the nearest copy.
    pub(crate) fn cover<'k>(
        &self,
        (cover, homes): (&mut Cover, &mut Vec<u32>),
        list: &ServerList,
        keys: impl Iterator<Item = &'k [u8]>,
        wanted: usize,
        (may_ask, distance): (impl Fn(u32) -> bool, impl Fn(u32) -> Option<u64>),
    ) {
        cover.clear();
        homes.clear();
        homes.extend(keys.map(|key| self.add(cover, list, key, (&may_ask, &distance))));
        cover.choose(self.seeds(), wanted.min(homes.len()));
    }

    /// Adds a key to a cover, with those of its places that may be asked and are near. Its home.
    fn add(
        &self,
        cover: &mut Cover,
        list: &ServerList,
        key: &[u8],
        (may_ask, distance): (impl Fn(u32) -> bool, impl Fn(u32) -> Option<u64>),
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
        if let Some(racks) = &self.racks {
            found = racks.keep_near(&mut usable[..found], distance);
        }
        match found {
            // It is answered as one whose home is out of use.
            0 => cover.add(KeyHash::of(key).0, &[home]),
            _ => cover.add(KeyHash::of(key).0, &usable[..found]),
        }
        home
    }

    /// The places of a key in the list, its home first: that alone where the name of a copy would be too long. The key may be told by the name of its
    /// item.
    pub(crate) fn places<'p>(
        &self,
        list: &ServerList,
        key: &[u8],
        places: &'p mut [u32; COPIES_MAX as usize],
    ) -> &'p [u32] {
        let (key, before) = match self.is_named {
            true => (taken_apart(key).1, generation::PREFIX_LEN),
            false => (key, 0),
        };
        let (home, hash) = list.placement().server_and_hash(key);
        let wanted = match PREFIX_LEN + before + key.len() <= KEY_LEN_MAX {
            true => self.copies(),
            false => 1,
        };
        let found = self.ring.places(KeyHash(hash), home, &mut places[..wanted]);
        &places[..found]
    }
}

impl RackOfEach {
    /// Keeps the place in the own rack, if there is one, or else those that are about as near as the nearest; how many these are.
    fn keep_near(&self, places: &mut [u32], distance: impl Fn(u32) -> Option<u64>) -> usize {
        let is_own = |place: &u32| self.own.is_some() && self.servers[*place as usize] == self.own;
        if let Some(own) = places.iter().position(is_own) {
            places.swap(0, own);
            return 1;
        }
        // What has not answered yet may be near.
        let far = |place: u32| distance(place).unwrap_or(0);
        let nearest = places.iter().map(|place| far(*place)).min().unwrap_or(0);
        let mut kept = 0;
        for at in 0..places.len() {
            if far(places[at]) <= nearest + nearest / AS_NEAR {
                places.swap(kept, at);
                kept += 1;
            }
        }
        kept
    }
}

/// A hash of all that says where copies are.
fn fingerprint(list: &ServerList, copies: u8, racks: Option<&Racks>) -> u64 {
    let (distribution, hash) = list.rule();
    let tag = list.config().hash_tag.map(String::from).unwrap_or_default();
    let mut said = format!("{copies} {distribution} {hash} {tag}");
    for server in list.servers() {
        // Writing into memory cannot fail.
        let _ = write!(said, "\n{} {}", server.identity(), server.weight);
        if let Some(racks) = racks {
            let rack = racks.of_server(&server.host, server.port, None);
            let _ = write!(said, " {}", racks.name(rack));
        }
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
        let wish = |names: &[&str], copies| Bundles::new(&list(names), copies, None, None).wish();
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
        let bundles = Bundles::new(&servers, 3, None, None);
        let count = |len: usize| {
            let key = vec![b'k'; len];
            bundles
                .places(&servers, &key, &mut [0; COPIES_MAX as usize])
                .len()
        };
        assert_eq!([count(1), count(239), count(240), count(250)], [3, 3, 1, 1]);
    }

    #[test]
    fn a_key_and_the_name_of_its_item_have_the_same_places() {
        let servers = list(&["a", "b", "c"]);
        let bundles = Bundles::new(&servers, 3, None, None).of_named(true);
        let prefix = generation::name_prefix(1, 7).expect("a generation");
        for (len, copies) in [(1, 3), (224, 3), (225, 1), (235, 1)] {
            let key = vec![b'k'; len];
            let places = |key: &[u8]| {
                let mut places = [0; COPIES_MAX as usize];
                bundles.places(&servers, key, &mut places).to_vec()
            };
            let of_key = places(&key);
            assert_eq!(of_key.len(), copies, "{len}");
            assert_eq!(of_key, places(&[&prefix[..], &key].concat()), "{len}");
        }
    }

    #[test]
    fn places_that_may_not_be_asked_are_left_out_unless_none_may() {
        let servers = list(&["a", "b", "c"]);
        let bundles = Bundles::new(&servers, 2, None, None);
        let mut cover = Cover::default();
        let home = bundles.add(&mut cover, &servers, b"k", (|_| true, |_| None));
        let chosen = |may_ask: &dyn Fn(u32) -> bool| {
            let mut cover = Cover::default();
            bundles.add(&mut cover, &servers, b"k", (may_ask, |_| None));
            cover.choose(bundles.seeds(), 1);
            cover.server(0)
        };
        assert_eq!(chosen(&|_| true), Some(home));
        assert_ne!(chosen(&|place| place != home), Some(home));
        assert_eq!(chosen(&|_| false), Some(home));
    }

    /// Three racks of two servers each: a, b and c; the proxy stands in the first, or in none.
    fn in_racks(own: Option<&str>) -> (ServerList, Bundles) {
        use evenkeel_schemes::locality::topology::{Rack, Topology};
        let rack = |name: &str| Rack {
            name: name.to_owned(),
            networks: Vec::new(),
            is_central: false,
        };
        let topology = Topology::new(["a", "b", "c"].map(rack).into()).expect("racks");
        let servers = list(&["a1", "a2", "b1", "b2", "c1", "c2"]);
        let given = servers.servers().iter().map(|server| {
            let rack = topology.named(&server.host[..1]).expect("it is there");
            ((server.host.clone(), server.port), rack)
        });
        let given = given.collect();
        let own = own.and_then(|name| topology.named(name));
        let racks = Racks::new(topology, own, given);
        let bundles = Bundles::new(&servers, 2, None, Some(&racks));
        (servers, bundles)
    }

    #[test]
    fn copies_are_in_different_racks_and_the_own_one_is_read() {
        let (servers, bundles) = in_racks(Some("a"));
        let rack = |place: u32| servers.servers()[place as usize].host.as_bytes()[0];
        let mut read_near = 0;
        for key in 0..300 {
            let key = format!("k{key}");
            let mut all = [0; COPIES_MAX as usize];
            let all = bundles.places(&servers, key.as_bytes(), &mut all);
            let [home, copy] = *all else {
                panic!("{all:?}");
            };
            assert_ne!(rack(home), rack(copy), "{key}");
            let mut cover = Cover::default();
            bundles.add(
                &mut cover,
                &servers,
                key.as_bytes(),
                (|_| true, |_| Some(1)),
            );
            cover.choose(bundles.seeds(), 1);
            let asked = cover.server(0).expect("one is asked");
            let near = all.iter().find(|place| rack(**place) == b'a');
            assert!(near.is_none_or(|near| *near == asked), "{key}");
            read_near += usize::from(near.is_some());
        }
        // Two of three racks have each.
        assert!((150..250).contains(&read_near), "{read_near}");
        let (_, of_none) = in_racks(None);
        assert_eq!(bundles.wish(), of_none.wish(), "all proxies want the same");
        assert_ne!(bundles.wish(), Bundles::new(&servers, 2, None, None).wish());
    }

    #[test]
    fn without_one_in_the_own_rack_the_nearest_is_read_or_any_that_is_about_as_near() {
        let (_, bundles) = in_racks(None);
        let racks = bundles.racks.as_ref().expect("there are");
        let kept = |far: [Option<u64>; 3]| {
            let mut places = [0, 2, 4];
            let kept = racks.keep_near(&mut places, |place| far[place as usize / 2]);
            let mut kept = places[..kept].to_vec();
            kept.sort_unstable();
            kept
        };
        assert_eq!(kept([Some(300), Some(100), Some(121)]), [2]);
        assert_eq!(kept([Some(300), Some(100), Some(120)]), [2, 4]);
        assert_eq!(kept([None, Some(100), None]), [0, 4], "not known yet");
        assert_eq!(kept([None; 3]), [0, 2, 4]);
    }
}
