//! How a state lies in etcd: a manifest, and pieces that are each small enough for one value.
//!
//! etcd takes 1.5 MiB in one request by default, and a state with its configurations of proxies may have many times
//! that. So the state without those texts, and each text, are cut into pieces under names that are never used twice.
//! The manifest says which pieces belong together, and is written last: until then the former state is whole, and
//! from then on the new one. A text that has not changed keeps its pieces. What a writer that died has left behind is
//! named by no manifest and is swept up by the next leader.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_types::{Epoch, KeyHash};
use serde::{Deserialize, Serialize};

use crate::api::SavedState;

/// Longest piece in bytes: two fit into a request beside their names.
pub(super) const PIECE_LEN_MAX: usize = 512 << 10;

/// Most bytes of pieces in one transaction: etcd's default bound on a request is 1.5 MiB.
const GROUP_LEN_MAX: usize = 1 << 20;

/// Most pieces that are deleted along with a manifest: etcd takes 128 operations in a transaction by default.
const DELETED_MAX: usize = 100;

/// Most pieces of a manifest that is believed: several times those of the largest state.
const PIECES_MAX: usize = 1024;

/// Version of the layout. A program reads its own alone.
const VERSION: u32 = 1;

/// What belongs together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    version: u32,
    /// As in the state, to be seen without reading it.
    pub(super) lineage: u64,
    /// As in the state.
    pub(super) epoch: Epoch,
    /// The state as JSON, the texts of configurations left out.
    state: Blob,
    /// By name, the texts.
    texts: BTreeMap<String, Text>,
}

/// A text of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Text {
    revision: u64,
    blob: Blob,
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
        if version != VERSION {
            return Err(format!(
                "it has version {version}; this program reads {VERSION}"
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
        let texts = self.texts.values().map(|text| &text.blob);
        let blobs = std::iter::once(&self.state).chain(texts);
        blobs.flat_map(|blob| blob.pieces.iter().map(String::as_str))
    }

    /// The state of these pieces.
    ///
    /// # Errors
    /// Says in words what is missing or damaged.
    pub(super) fn assemble(
        &self,
        pieces: &BTreeMap<String, Vec<u8>>,
    ) -> Result<SavedState, String> {
        let mut state: SavedState = serde_json::from_slice(&self.state.assemble(pieces)?)
            .map_err(|error| format!("it is corrupt: {error}"))?;
        let names = |texts: &mut dyn Iterator<Item = &String>| texts.cloned().collect::<Vec<_>>();
        let (named, there) = (
            names(&mut state.proxy_configs.texts.keys()),
            names(&mut self.texts.keys()),
        );
        if named != there {
            return Err("its configurations of proxies are not those of its manifest".to_owned());
        }
        if (state.lineage, state.epoch) != (self.lineage, self.epoch) {
            return Err("its lineage or epoch is not that of its manifest".to_owned());
        }
        for (name, text) in &self.texts {
            let bytes = text.blob.assemble(pieces)?;
            let bytes = String::from_utf8(bytes);
            let saved = state.proxy_configs.texts.get_mut(name);
            match (bytes, saved) {
                (Ok(bytes), Some(saved)) if saved.revision == text.revision => saved.text = bytes,
                _ => return Err(format!("its configuration {name:?} is corrupt")),
            }
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
        let mut cutter = Cutter {
            name,
            groups: Vec::new(),
        };
        let mut texts = BTreeMap::new();
        for (name, saved) in &state.proxy_configs.texts {
            let kept = former.filter(|former| former.lineage == state.lineage);
            let kept = kept.and_then(|former| former.texts.get(name));
            let text = match kept {
                // A revision is given to one text of a lineage alone.
                Some(kept) if kept.revision == saved.revision => kept.clone(),
                _ => Text {
                    revision: saved.revision,
                    blob: cutter.cut(saved.text.as_bytes()),
                },
            };
            texts.insert(name.clone(), text);
        }
        let mut without_texts = state.clone();
        for saved in without_texts.proxy_configs.texts.values_mut() {
            saved.text.clear();
        }
        let body = serde_json::to_vec(&without_texts)
            .expect("a state is numbers, words and lists of them");
        let manifest = Manifest {
            version: VERSION,
            lineage: state.lineage,
            epoch: state.epoch,
            state: cutter.cut(&body),
            texts,
        };
        let kept: BTreeSet<&str> = manifest.pieces().collect();
        let deletes = former.into_iter().flat_map(Manifest::pieces);
        let deletes = deletes.filter(|piece| !kept.contains(piece));
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
    use crate::api::proxy_config::{Expected, PROXY_CONFIG_NAME};
    use crate::api::{CoordinatorConfig, CoordinatorCore};
    use evenkeel_types::Instant;

    fn core(texts: &[(&str, String)]) -> CoordinatorCore {
        let config = CoordinatorConfig::new("test");
        let mut core = CoordinatorCore::new(config, 5, Instant(0)).unwrap();
        for (name, text) in texts {
            core.put_proxy_config(name, text, Expected::Anything)
                .unwrap();
        }
        core
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
    fn the_largest_texts_come_back_and_no_request_is_too_large() {
        let text = |n: usize| format!("{n}{}", "\n# x".repeat((1 << 18) - 1));
        let texts: Vec<_> = (0..16).map(|n| (format!("c{n}"), text(n))).collect();
        let texts: Vec<_> = texts.iter().map(|(n, t)| (n.as_str(), t.clone())).collect();
        let state = core(&texts).saved_state();
        let plan = Plan::new(None, &state, names("a"));
        let mut store = BTreeMap::new();
        keep(&mut store, &plan);
        for group in &plan.groups {
            let len: usize = group
                .iter()
                .map(|(name, piece)| name.len() + piece.len())
                .sum();
            assert!(len < 3 << 19, "{len}");
        }
        assert_eq!(plan.manifest.assemble(&store), Ok(state));
        let read = Manifest::decode(&plan.manifest.encode());
        assert_eq!(read, Ok(plan.manifest));
    }

    #[test]
    fn what_has_not_changed_is_not_written_again_and_nothing_is_left_behind() {
        let mut core = core(&[("big", "# x\n".repeat(200_000)), ("other", "# y".into())]);
        let mut store = BTreeMap::new();
        let first = Plan::new(None, &core.saved_state(), names("a"));
        keep(&mut store, &first);
        core.put_proxy_config("other", "# z", Expected::Anything)
            .unwrap();
        let second = Plan::new(Some(&first.manifest), &core.saved_state(), names("b"));
        let bytes: usize = second.groups.iter().flatten().map(|(_, p)| p.len()).sum();
        assert!(bytes < 10_000, "{bytes}");
        keep(&mut store, &second);
        assert_eq!(second.manifest.assemble(&store), Ok(core.saved_state()));
        let named: BTreeSet<_> = second.manifest.pieces().collect();
        assert_eq!(
            store.keys().map(String::as_str).collect::<BTreeSet<_>>(),
            named
        );
    }

    #[test]
    fn what_is_missing_or_damaged_is_noticed() {
        let core = core(&[(PROXY_CONFIG_NAME, "# x\n".repeat(200_000))]);
        let plan = Plan::new(None, &core.saved_state(), names("a"));
        let mut store = BTreeMap::new();
        keep(&mut store, &plan);
        for name in plan.manifest.pieces() {
            let mut cut = store.clone();
            let piece = cut.remove(name).unwrap();
            assert!(
                plan.manifest
                    .assemble(&cut)
                    .unwrap_err()
                    .contains("missing")
            );
            cut.insert(name.to_owned(), piece[1..].to_vec());
            assert!(
                plan.manifest
                    .assemble(&cut)
                    .unwrap_err()
                    .contains("checksum")
            );
            let mut changed = piece.clone();
            changed[0] ^= 1;
            cut.insert(name.to_owned(), changed);
            assert!(
                plan.manifest
                    .assemble(&cut)
                    .unwrap_err()
                    .contains("checksum")
            );
        }
        let mut other = plan.manifest.clone();
        other.epoch = Epoch(3);
        assert!(other.assemble(&store).unwrap_err().contains("epoch"));
        other = plan.manifest.clone();
        other.texts.clear();
        assert!(
            other
                .assemble(&store)
                .unwrap_err()
                .contains("configurations")
        );
        for bad in ["", "{}", "{\"version\":2}", "[]", "{\"version\":1}"] {
            assert!(Manifest::decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
