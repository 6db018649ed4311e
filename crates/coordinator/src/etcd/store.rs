//! Reading and writing the state in etcd, as the leader with one token.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::pieces::{Manifest, Plan};
use super::wire::{Compare, RequestOp};
use super::{CallError, Etcd, Known};
use crate::store::{SaveError, Saving, StateStore};
use evenkeel_coordinator_core::SavedState;

/// Most left-over pieces that are deleted in one transaction.
const SWEPT_MAX: usize = 100;

/// Why a state cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// etcd did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// What is there is not what should be.
    #[error("the state in etcd under {prefix} cannot be used: {what}")]
    Unusable { prefix: String, what: String },
}

/// The state in etcd for one leader.
pub(crate) struct EtcdStore {
    etcd: Arc<Etcd>,
    token: u64,
    /// Told when a save was refused or has no known end: then nothing more may be written with this token.
    on_failure: Box<dyn Fn() + Send + Sync>,
    manifest: Option<Manifest>,
    /// Revision in which the manifest was last written; 0 when there is none.
    revision: i64,
    /// Pieces named so far.
    named: u64,
    has_failed: bool,
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = &self.token;
        f.debug_struct("EtcdStore")
            .field("token", token)
            .finish_non_exhaustive()
    }
}

impl EtcdStore {
    /// Reads what is there; `None` when nothing is, and nothing was ever known of this cluster.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub(crate) async fn open(
        etcd: Arc<Etcd>,
        token: u64,
        on_failure: Box<dyn Fn() + Send + Sync>,
    ) -> Result<(Self, Option<SavedState>), LoadError> {
        let unusable = |what: String| LoadError::Unusable {
            prefix: etcd.config.prefix.clone(),
            what,
        };
        let kept = etcd.get(etcd.key("state")).await?;
        let there = etcd.names(etcd.key("piece/")).await?;
        let (manifest, revision) = match &kept {
            Some(kept) => {
                let manifest = Manifest::decode(&kept.value).map_err(unusable)?;
                (Some(manifest), kept.mod_revision)
            }
            None => (None, 0),
        };
        let found = manifest.as_ref().map(|manifest| Known {
            lineage: manifest.lineage,
            epoch: manifest.epoch,
        });
        may_follow(etcd.known(), found).map_err(unusable)?;
        let state = match &manifest {
            None => None,
            Some(manifest) => {
                let mut pieces = BTreeMap::new();
                for name in manifest.pieces() {
                    if let Some(piece) = etcd.get(etcd.key(&format!("piece/{name}"))).await? {
                        pieces.insert(name.to_owned(), piece.value);
                    }
                }
                Some(manifest.assemble(&pieces).map_err(unusable)?)
            }
        };
        if let Some(found) = found {
            etcd.note(found);
        }
        let store = EtcdStore {
            etcd: Arc::clone(&etcd),
            token,
            on_failure,
            manifest,
            revision,
            named: 0,
            has_failed: false,
        };
        store.sweep(there).await?;
        Ok((store, state))
    }

    /// Deletes what former leaders have left behind in the middle of a save.
    async fn sweep(&self, there: Vec<String>) -> Result<(), LoadError> {
        let named: BTreeSet<&str> = self.manifest.iter().flat_map(Manifest::pieces).collect();
        let left: Vec<_> = there
            .iter()
            .filter(|name| !named.contains(name.as_str()))
            .collect();
        for some in left.chunks(SWEPT_MAX) {
            let deletes = some.iter().map(|name| self.delete(name)).collect();
            // Who does not lead any more is told so soon enough.
            self.etcd
                .write(vec![self.etcd.is_leader(self.token)], deletes)
                .await?;
        }
        Ok(())
    }

    fn delete(&self, piece: &str) -> RequestOp {
        RequestOp::delete(self.etcd.key(&format!("piece/{piece}")))
    }

    async fn replace(&mut self, state: &SavedState) -> Result<(), SaveError> {
        let (token, named) = (self.token, &mut self.named);
        let name = || {
            *named += 1;
            format!("{token}-{named}")
        };
        let plan = Plan::new(self.manifest.as_ref(), state, name);
        let etcd = Arc::clone(&self.etcd);
        let puts = |group: Vec<(String, Vec<u8>)>| -> Vec<RequestOp> {
            let put = |(name, piece)| RequestOp::put(etcd.key(&format!("piece/{name}")), piece, 0);
            group.into_iter().map(put).collect()
        };
        let mut groups = plan.groups;
        let last = groups.pop().unwrap_or_default();
        for group in groups {
            let written = etcd.write(vec![etcd.is_leader(token)], puts(group)).await?;
            written.ok_or(SaveError::NotLeader)?;
        }
        let key = etcd.key("state");
        let compares = vec![
            etcd.is_leader(token),
            // Whatever went wrong before: two states never stand on one.
            Compare::mod_revision(key.clone(), self.revision),
        ];
        let mut operations = puts(last);
        operations.push(RequestOp::put(key, plan.manifest.encode(), 0));
        operations.extend(plan.deletes.iter().map(|name| self.delete(name)));
        let written = etcd.write(compares, operations).await?;
        self.revision = written.ok_or(SaveError::NotLeader)?;
        etcd.note(Known {
            lineage: plan.manifest.lineage,
            epoch: plan.manifest.epoch,
        });
        self.manifest = Some(plan.manifest);
        Ok(())
    }
}

impl StateStore for EtcdStore {
    /// After one failure nothing more is written: what has become of that write is not known, and with the next
    /// token it cannot do harm.
    fn save<'a>(&'a mut self, state: &'a SavedState) -> Saving<'a> {
        Box::pin(async {
            if self.has_failed {
                return Err(SaveError::NotLeader);
            }
            let saved = self.replace(state).await;
            if saved.is_err() {
                self.has_failed = true;
                (self.on_failure)();
            }
            saved
        })
    }

    fn place(&self) -> String {
        format!("the state in etcd under {}", self.etcd.config.prefix)
    }
}

/// Whether a state that was found may follow on what is known of it; the error says what to do.
fn may_follow(known: Option<Known>, found: Option<Known>) -> Result<(), String> {
    let restore = "restore etcd from its newest backup; if the cluster is to begin anew, restart all \
                   coordinators and then all members";
    match (known, found) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(format!("it is gone, although there was one; {restore}")),
        (Some(known), Some(found)) if known.lineage != found.lineage => Err(format!(
            "it is that of another cluster than before; {restore}"
        )),
        (Some(known), Some(found)) if found.epoch < known.epoch => Err(format!(
            "it is of epoch {}, and there was one of epoch {}; {restore}",
            found.epoch, known.epoch
        )),
        (Some(_), Some(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_types::Epoch;

    #[test]
    fn an_etcd_that_forgot_is_not_taken_for_a_new_cluster() {
        let state = |lineage, epoch| {
            let epoch = Epoch(epoch);
            Some(Known { lineage, epoch })
        };
        for (known, found, expected) in [
            (None, None, None),
            (None, state(1, 5), None),
            (state(1, 5), state(1, 5), None),
            (state(1, 5), state(1, 6), None),
            (state(1, 5), None, Some("gone")),
            (state(1, 0), None, Some("gone")),
            (state(1, 5), state(1, 4), Some("epoch 4")),
            (state(1, 5), state(2, 9), Some("another cluster")),
        ] {
            let said = may_follow(known, found).err();
            match (expected, &said) {
                (None, None) => {}
                (Some(word), Some(said)) if said.contains(word) => {}
                _ => panic!("{known:?} {found:?}: {said:?}"),
            }
        }
    }
}
