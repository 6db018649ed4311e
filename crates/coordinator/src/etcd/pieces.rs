//! How a state lies in etcd: a manifest, and pieces that are each small enough for one value.
//!
//! etcd takes 1.5 MiB in one request by default, and the state of a large cluster may have many times that. So it is cut
//! into pieces under names that are never used twice. The manifest says which pieces belong together, and is written
//! last: until then the former state is whole, and from then on the new one. What a writer that died has left behind is
//! named by no manifest and is swept up by the next leader.
//!
//! Version 1 had texts of proxies' configurations beside the state. They are ignored, and swept up in the same way.

use std::collections::BTreeMap;

use evenkeel_types::{Epoch, KeyHash};
use serde::{Deserialize, Serialize};

use evenkeel_coordinator_core::SavedState;

/// Longest piece in bytes: two fit into a request beside their names.
pub(super) const PIECE_LEN_MAX: usize = 512 << 10;

/// Most bytes of pieces in one transaction: etcd's default bound on a request is 1.5 MiB.
const GROUP_LEN_MAX: usize = 1 << 20;

/// Most pieces that are deleted along with a manifest: etcd takes 128 operations in a transaction by default.
const DELETED_MAX: usize = 100;

/// Most pieces of a manifest that is believed: several times those of the largest state.
const PIECES_MAX: usize = 1024;

/// Version of the layout.
const VERSION: u32 = 2;

/// Oldest version that is read.
const VERSION_READ_MIN: u32 = 1;

/// What belongs together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    version: u32,
    /// As in the state, to be seen without reading it.
    pub(super) lineage: u64,
    /// As in the state.
    pub(super) epoch: Epoch,
    /// The state as JSON.
    state: Blob,
}

/// Bytes in pieces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Blob {
    len: usize,
    /// XXH3-64 of all of it, against accidents.
    checksum: u64,
    /// Names of the pieces, in order.
    pieces: Vec<String>,
}

/// What to write, in this order: each group in a transaction, and the manifest in the last.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) manifest: Manifest,
    /// Names and contents of pieces.
    pub(super) groups: Vec<Vec<(String, Vec<u8>)>>,
    /// Pieces that belong to nothing once the manifest is there.
    pub(super) deletes: Vec<String>,
}

impl Manifest {
    /// Reads one; the error says in words what is wrong.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let corrupt = |error: serde_json::Error| format!("its manifest is corrupt: {error}");
        let Version { version } = serde_json::from_slice(bytes).map_err(corrupt)?;
        if !(VERSION_READ_MIN..=VERSION).contains(&version) {
            return Err(format!(
                "it has version {version}; this program reads {VERSION_READ_MIN} to {VERSION}"
            ));
        }
        let manifest: Manifest = serde_json::from_slice(bytes).map_err(corrupt)?;
        if manifest.pieces().count() > PIECES_MAX {
            return Err("its manifest names too many pieces".to_owned());
        }
        Ok(manifest)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and names can be written as JSON")
    }

    /// The names of all its pieces.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &str> {
        self.state.pieces.iter().map(String::as_str)
    }

    /// The state of these pieces.
    ///
    /// # Errors
    /// Says in words what is missing or damaged.
    pub(super) fn assemble(
        &self,
        pieces: &BTreeMap<String, Vec<u8>>,
    ) -> Result<SavedState, String> {
        let state: SavedState = serde_json::from_slice(&self.state.assemble(pieces)?)
            .map_err(|error| format!("it is corrupt: {error}"))?;
        if (state.lineage, state.epoch) != (self.lineage, self.epoch) {
            return Err("its lineage or epoch is not that of its manifest".to_owned());
        }
        Ok(state)
    }
}

impl Blob {
    fn assemble(&self, pieces: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for name in &self.pieces {
            let piece = pieces.get(name);
            bytes.extend_from_slice(piece.ok_or_else(|| format!("piece {name} is missing"))?);
        }
        if bytes.len() != self.len || checksum(&bytes) != self.checksum {
            return Err("it is corrupt: a checksum is wrong".to_owned());
        }
        Ok(bytes)
    }
}

impl Plan {
    /// How to replace `former` by `state`. `name` gives names that no piece has ever had.
    pub(super) fn new(
        former: Option<&Manifest>,
        state: &SavedState,
        name: impl FnMut() -> String,
    ) -> Self {
        let body = serde_json::to_vec(state).expect("a state is numbers, words and lists of them");
        let mut cutter = Cutter {
            name,
            groups: Vec::new(),
        };
        let manifest = Manifest {
            version: VERSION,
            lineage: state.lineage,
            epoch: state.epoch,
            state: cutter.cut(&body),
        };
        // Names are never used twice, so that none of the former's is among the new ones.
        let deletes = former.into_iter().flat_map(Manifest::pieces);
        let deletes = deletes.take(DELETED_MAX).map(str::to_owned).collect();
        Plan {
            manifest,
            groups: cutter.groups,
            deletes,
        }
    }
}

struct Cutter<N> {
    name: N,
    groups: Vec<Vec<(String, Vec<u8>)>>,
}

impl<N: FnMut() -> String> Cutter<N> {
    fn cut(&mut self, bytes: &[u8]) -> Blob {
        let mut pieces = Vec::new();
        for piece in bytes.chunks(PIECE_LEN_MAX) {
            let name = (self.name)();
            pieces.push(name.clone());
            let len = |group: &Vec<(String, Vec<u8>)>| -> usize {
                group.iter().map(|(_, piece)| piece.len()).sum()
            };
            let has_room = |group: &&mut Vec<_>| len(group) + piece.len() <= GROUP_LEN_MAX;
            match self.groups.last_mut().filter(has_room) {
                Some(group) => group.push((name, piece.to_vec())),
                None => self.groups.push(vec![(name, piece.to_vec())]),
            }
        }
        Blob {
            len: bytes.len(),
            checksum: checksum(bytes),
            pieces,
        }
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    KeyHash::of(bytes).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_coordinator_core::{CoordinatorConfig, CoordinatorCore, Heartbeat};
    use evenkeel_types::map::NAME_LEN_MAX;
    use evenkeel_types::{Instant, Now};
    use serde_json::json;

    /// A state with this many servers, whose names are as long as they may be.
    fn state(servers: u16) -> SavedState {
        let config = CoordinatorConfig {
            initial_servers: usize::from(servers.max(1)),
            ..CoordinatorConfig::new("test")
        };
        let mut core = CoordinatorCore::new(config, 5, Instant(0)).unwrap();
        let now = Now {
            monotonic: Instant(0),
            unix: 0,
        };
        for n in 0..servers {
            let heartbeat = json!({
                "cluster": "test",
                "kind": "server",
                "name": format!("{n:0>NAME_LEN_MAX$}"),
                "boot": 1,
                "host": format!("h{n}"),
                "port": 1,
                "worker_ports": [2],
            });
            let heartbeat: Heartbeat = serde_json::from_value(heartbeat).unwrap();
            core.handle_heartbeat(now, &heartbeat).unwrap();
        }
        core.saved_state()
    }

    fn names(prefix: &str) -> impl FnMut() -> String {
        let mut count = 0;
        move || {
            count += 1;
            format!("{prefix}{count}")
        }
    }

    fn keep(store: &mut BTreeMap<String, Vec<u8>>, plan: &Plan) {
        for (name, piece) in plan.groups.iter().flatten() {
            assert!(
                store.insert(name.clone(), piece.clone()).is_none(),
                "{name}"
            );
        }
        for name in &plan.deletes {
            assert!(store.remove(name).is_some(), "{name}");
        }
    }

    #[test]
    fn large_states_come_back_and_no_request_is_too_large() {
        let mut cutter = Cutter {
            name: names("a"),
            groups: Vec::new(),
        };
        let bytes = b"state".repeat(1 << 20);
        let blob = cutter.cut(&bytes);
        assert!(blob.pieces.len() > 8);
        let mut store = BTreeMap::new();
        for group in cutter.groups {
            let len: usize = group.iter().map(|(name, p)| name.len() + p.len()).sum();
            assert!(len < 3 << 19, "{len}");
            store.extend(group);
        }
        assert_eq!(blob.assemble(&store), Ok(bytes));
    }

    #[test]
    fn a_state_takes_the_place_of_the_former_and_nothing_is_left_behind() {
        let mut store = BTreeMap::new();
        let first = Plan::new(None, &state(900), names("a"));
        keep(&mut store, &first);
        assert_eq!(first.manifest.assemble(&store), Ok(state(900)));
        let read = Manifest::decode(&first.manifest.encode());
        assert_eq!(read.as_ref(), Ok(&first.manifest));
        let second = Plan::new(Some(&first.manifest), &state(2), names("b"));
        keep(&mut store, &second);
        assert_eq!(second.manifest.assemble(&store), Ok(state(2)));
        let kept: Vec<_> = store.keys().map(String::as_str).collect();
        assert_eq!(kept, second.manifest.pieces().collect::<Vec<_>>());
    }

    #[test]
    fn a_state_of_the_version_with_texts_of_configurations_is_read_without_them() {
        let expected = state(2);
        let mut former = serde_json::to_value(&expected).unwrap();
        let kept = json!({ "revision": 3, "text": "" });
        former["proxy_configs"] = json!({ "revision": 3, "texts": { "default": kept } });
        let mut cutter = Cutter {
            name: names("a"),
            groups: Vec::new(),
        };
        let of_state = cutter.cut(&serde_json::to_vec(&former).unwrap());
        let of_text = cutter.cut(b"[pools.a]\n");
        let manifest = json!({
            "version": 1,
            "lineage": expected.lineage,
            "epoch": expected.epoch,
            "state": of_state,
            "texts": { "default": { "revision": 3, "blob": of_text } },
        });
        let manifest = Manifest::decode(&serde_json::to_vec(&manifest).unwrap()).unwrap();
        let pieces = cutter.groups.into_iter().flatten().collect();
        assert_eq!(manifest.assemble(&pieces), Ok(expected));
        // What no manifest names is swept up.
        assert_eq!(manifest.pieces().collect::<Vec<_>>(), ["a1"]);
    }

    #[test]
    fn what_is_missing_or_damaged_is_noticed() {
        let plan = Plan::new(None, &state(900), names("a"));
        let mut store = BTreeMap::new();
        keep(&mut store, &plan);
        for name in plan.manifest.pieces() {
            let mut cut = store.clone();
            let piece = cut.remove(name).unwrap();
            let mut changed = piece.clone();
            changed[0] ^= 1;
            for (bad, said) in [
                (None, "missing"),
                (Some(piece[1..].to_vec()), "checksum"),
                (Some(changed), "checksum"),
            ] {
                cut.extend(bad.map(|bad| (name.to_owned(), bad)));
                let error = plan.manifest.assemble(&cut).unwrap_err();
                assert!(error.contains(said), "{error}");
            }
        }
        let mut other = plan.manifest.clone();
        other.epoch = Epoch(3_000);
        assert!(other.assemble(&store).unwrap_err().contains("epoch"));
        for bad in ["", "{}", "{\"version\":3}", "[]", "{\"version\":2}"] {
            assert!(Manifest::decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
