//! etcd as the place that several coordinators share: the leader's key, leases, and the state.
//!
//! ```text
//!   /evenkeel/CLUSTER/leader    address of the leader, on its lease; created in the revision that is its token
//!   /evenkeel/CLUSTER/state     manifest of the newest state
//!   /evenkeel/CLUSTER/piece/…   what the manifest is about
//! ```
//!
//! One node of etcd is asked at a time, and the next one after a failure: whether a node is alive is known sooner
//! here than by a balancer, for the leader asks it every few hundred milliseconds anyway. Every call has a limit.
//! What is written, the leader's key apart, is written by transactions that compare the revision in which that key
//! was created with the writer's token.

mod args;
mod client;
mod pieces;
mod store;
mod wire;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_runtime::since_boot;
use evenkeel_types::Epoch;
use serde::Serialize;

use client::{Client, Error};
use evenkeel_control::http::shortened;
use evenkeel_coordinator_core::election::{ACTION_TIMEOUT, Input, LEASE, Leader, LeaseId};
use wire::{Compare, KeyValue, RangeRequest, RequestOp, TxnRequest};

pub use args::EtcdArgs;
pub(crate) use args::EtcdConfig;
pub(crate) use store::EtcdStore;

/// Longest wait for one call that reads or writes the state.
const STATE_TIMEOUT: Duration = Duration::from_secs(2);

/// What was asked of etcd, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Look,
    Grant,
    Campaign,
    Renew,
    Revoke,
    Load,
    Save,
}

impl Operation {
    pub(crate) const ALL: [Operation; 7] = [
        Operation::Look,
        Operation::Grant,
        Operation::Campaign,
        Operation::Renew,
        Operation::Revoke,
        Operation::Load,
        Operation::Save,
    ];

    /// Its name in metrics and answers; stable.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Operation::Look => "look",
            Operation::Grant => "grant",
            Operation::Campaign => "campaign",
            Operation::Renew => "renew",
            Operation::Revoke => "revoke",
            Operation::Load => "load",
            Operation::Save => "save",
        }
    }
}

/// Why a call has no result. Its text is one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("etcd at {endpoint} did not answer in time")]
    Late { endpoint: String },
    #[error("etcd at {endpoint}: {what}")]
    Failed { endpoint: String, what: String },
    #[error("the lease is gone")]
    LeaseGone,
}

/// What was last known of the state, be it from another leader: so that an etcd that has lost it, or was set back,
/// is not taken for a new cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) lineage: u64,
    pub(crate) epoch: Epoch,
}

/// What is told of etcd.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct EtcdView {
    /// Addresses, the one that is asked at present first.
    pub(crate) endpoints: Vec<String>,
    /// Failed calls by operation, each present.
    pub(crate) errors: BTreeMap<&'static str, u64>,
    pub(crate) last_error: Option<EtcdErrorView>,
}

/// The last failed call.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EtcdErrorView {
    operation: &'static str,
    message: String,
    /// How long ago.
    age_ms: u64,
}

impl std::fmt::Display for EtcdErrorView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ago = Duration::from_millis(self.age_ms).as_secs();
        write!(f, "{} ({}, {ago} s ago)", self.message, self.operation)
    }
}

/// The connection.
pub(crate) struct Etcd {
    config: EtcdConfig,
    current: Mutex<Current>,
    failures: Mutex<Failures>,
    known: Mutex<Option<Known>>,
}

/// The node that is asked.
#[derive(Default)]
struct Current {
    /// Counts changes of node; modulo their number it is the position in the list.
    turn: usize,
    client: Option<Client>,
}

#[derive(Default)]
struct Failures {
    counts: [u64; Operation::ALL.len()],
    last: Option<(Operation, String, Instant)>,
}

impl std::fmt::Debug for Etcd {
    /// The password stays out of it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let endpoints = &self.config.endpoints;
        f.debug_struct("Etcd")
            .field("endpoints", endpoints)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Etcd {
    /// Does not connect yet.
    pub(crate) fn new(config: EtcdConfig) -> Self {
        Etcd {
            config,
            current: Mutex::default(),
            failures: Mutex::default(),
            known: Mutex::new(None),
        }
    }

    /// What is to be told of it.
    pub(crate) fn view(&self) -> EtcdView {
        let mut endpoints = self.config.endpoints.clone();
        let count = endpoints.len();
        endpoints.rotate_left(lock(&self.current).turn % count);
        let failures = lock(&self.failures);
        let counts = Operation::ALL.map(|each| (each.as_str(), failures.counts[each as usize]));
        let last = failures.last.as_ref();
        EtcdView {
            endpoints,
            errors: counts.into(),
            last_error: last.map(|(operation, message, at)| EtcdErrorView {
                operation: operation.as_str(),
                message: message.clone(),
                age_ms: u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX),
            }),
        }
    }

    /// Reads the leader's key, and on the way what is known of the state.
    pub(crate) async fn look(&self) -> Input {
        let (leader, state) = (self.key("leader"), self.key("state"));
        let txn = TxnRequest {
            success: vec![RequestOp::get(leader), RequestOp::get(state)],
            ..TxnRequest::default()
        };
        let ask = |client: Client| async move { client.txn(txn).await };
        let Ok(answer) = self.call(Operation::Look, ACTION_TIMEOUT, ask).await else {
            return Input::NotSeen;
        };
        let mut found = answer
            .responses
            .into_iter()
            .map(|response| response.range?.kvs.into_iter().next());
        let leader = found.next().flatten();
        if let Some(manifest) = found.next().flatten()
            && let Ok(manifest) = pieces::Manifest::decode(&manifest.value)
        {
            self.note(Known {
                lineage: manifest.lineage,
                epoch: manifest.epoch,
            });
        }
        Input::Seen(leader.as_ref().map(leader_of))
    }

    /// Asks for a lease.
    pub(crate) async fn grant(&self) -> Input {
        let asked = since_boot();
        let seconds = i64::try_from(LEASE.as_secs()).unwrap_or(i64::MAX);
        let ask = |client: Client| async move { client.grant(seconds).await };
        match self.call(Operation::Grant, ACTION_TIMEOUT, ask).await {
            Ok(granted) => Input::Granted {
                lease: granted.id,
                // etcd may grant more than was asked for; renewals then last as long.
                ttl: Duration::from_secs(u64::try_from(granted.ttl).unwrap_or(0)),
                asked,
            },
            Err(_) => Input::NotGranted,
        }
    }

    /// Creates the leader's key with this address, unless there is one.
    pub(crate) async fn campaign(&self, lease: LeaseId, address: &str) -> Input {
        let key = self.key("leader");
        let txn = TxnRequest {
            compare: vec![Compare::create_revision(key.clone(), 0)],
            success: vec![RequestOp::put(key.clone(), address.into(), lease)],
            failure: vec![RequestOp::get(key)],
        };
        let ask = |client: Client| async move { client.txn(txn).await };
        let Ok(answer) = self.call(Operation::Campaign, ACTION_TIMEOUT, ask).await else {
            return Input::NotKnown;
        };
        if answer.succeeded {
            return match u64::try_from(answer.revision()) {
                Ok(token) if token > 0 => Input::Won { token },
                _ => Input::NotKnown,
            };
        }
        let got = answer.responses.first().and_then(|got| got.range.as_ref());
        match got.and_then(|got| got.kvs.first()) {
            Some(leader) => Input::Beaten(leader_of(leader)),
            None => Input::NotKnown,
        }
    }

    /// Renews a lease that lives for `ttl`, and sees that the leader's key has this token; 0 when there is none yet.
    pub(crate) async fn renew(&self, lease: LeaseId, token: u64, ttl: Duration) -> Input {
        let asked = since_boot();
        let has_key = TxnRequest {
            compare: vec![self.is_leader(token)],
            ..TxnRequest::default()
        };
        let ask = |client: Client| async move {
            client.renew(lease).await?;
            // Somebody may have deleted the key beside the lease.
            Ok(token == 0 || client.txn(has_key).await?.succeeded)
        };
        match self.call(Operation::Renew, ACTION_TIMEOUT, ask).await {
            Ok(true) => Input::Renewed { lease, ttl, asked },
            Ok(false) | Err(CallError::LeaseGone) => Input::LeaseGone { lease },
            Err(_) => Input::NotRenewed { lease },
        }
    }

    /// Gives a lease back.
    pub(crate) async fn revoke(&self, lease: LeaseId) -> Input {
        let ask = |client: Client| async move { client.revoke(lease).await };
        // A lease that cannot be given back ends by itself.
        let _ = self.call(Operation::Revoke, ACTION_TIMEOUT, ask).await;
        Input::Revoked
    }

    /// What is known of the state.
    fn known(&self) -> Option<Known> {
        *lock(&self.known)
    }

    /// Notes what a state is. Another lineage, or an older epoch, never takes the place of what is known.
    fn note(&self, seen: Known) {
        let mut known = lock(&self.known);
        let is_newer = |known: &Known| known.lineage == seen.lineage && known.epoch <= seen.epoch;
        if known.as_ref().is_none_or(is_newer) {
            *known = Some(seen);
        }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.config.prefix)
    }

    /// The comparison that every write depends on.
    fn is_leader(&self, token: u64) -> Compare {
        // A token came from etcd as one of its revisions.
        let revision = i64::try_from(token).unwrap_or(i64::MAX);
        Compare::create_revision(self.key("leader"), revision)
    }

    /// One key.
    async fn get(&self, key: String) -> Result<Option<KeyValue>, CallError> {
        let range = RangeRequest::one(key);
        let ask = |client: Client| async move { client.range(range).await };
        let got = self.call(Operation::Load, STATE_TIMEOUT, ask).await?;
        Ok(got.kvs.into_iter().next())
    }

    /// The names of all keys that begin so, without what they begin with.
    async fn names(&self, prefix: String) -> Result<Vec<String>, CallError> {
        let len = prefix.len();
        let range = RangeRequest::names(prefix);
        let ask = |client: Client| async move { client.range(range).await };
        let got = self.call(Operation::Load, STATE_TIMEOUT, ask).await?;
        let keys = got.kvs.into_iter();
        let keys = keys.filter_map(|kv| String::from_utf8(kv.key).ok());
        let names = keys.filter_map(|key| Some(key.get(len..)?.to_owned()));
        Ok(names.collect())
    }

    /// Whether the comparisons held, and the revision in which the operations were executed.
    async fn write(
        &self,
        compare: Vec<Compare>,
        success: Vec<RequestOp>,
    ) -> Result<Option<i64>, CallError> {
        let txn = TxnRequest {
            compare,
            success,
            failure: Vec::new(),
        };
        let ask = |client: Client| async move { client.txn(txn).await };
        let answer = self.call(Operation::Save, STATE_TIMEOUT, ask).await?;
        Ok(answer.succeeded.then(|| answer.revision()))
    }

    /// Asks the present node, within this time; after a failure it is the next one's turn.
    async fn call<T, F>(
        &self,
        operation: Operation,
        limit: Duration,
        ask: impl FnOnce(Client) -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let (turn, client) = {
            let current = lock(&self.current);
            (current.turn, current.client.clone())
        };
        let endpoint = self.config.endpoints[turn % self.config.endpoints.len()].clone();
        let asking = async {
            let client = match client {
                Some(client) => client,
                None => self.connect(turn, &endpoint).await?,
            };
            ask(client).await
        };
        let error = match tokio::time::timeout(limit, asking).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(Error::LeaseGone)) => return Err(CallError::LeaseGone),
            Ok(Err(error)) => CallError::Failed {
                endpoint,
                what: advice(&error),
            },
            Err(_) => CallError::Late { endpoint },
        };
        let mut current = lock(&self.current);
        // Of several calls that fail together one is enough.
        if current.turn == turn {
            current.turn += 1;
            current.client = None;
        }
        drop(current);
        let mut failures = lock(&self.failures);
        failures.counts[operation as usize] += 1;
        failures.last = Some((operation, error.to_string(), Instant::now()));
        Err(error)
    }

    async fn connect(&self, turn: usize, endpoint: &str) -> Result<Client, Error> {
        let client = Client::connect(endpoint, &self.config.access, ACTION_TIMEOUT).await?;
        let mut current = lock(&self.current);
        if current.turn == turn {
            current.client = Some(client.clone());
        }
        Ok(client)
    }
}

/// Whose key it is. Nobody is sent to an address that is none.
fn leader_of(key: &KeyValue) -> Leader {
    Leader {
        address: shortened(&String::from_utf8_lossy(&key.value)),
        token: u64::try_from(key.create_revision).unwrap_or(0),
    }
}

/// What etcd says, and what to do where that is known.
fn advice(error: &Error) -> String {
    let said = match error {
        Error::Status(status) => status.message().to_owned(),
        Error::Transport(error) => {
            use std::error::Error as _;
            error
                .source()
                .map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
        }
        error => error.to_string(),
    };
    let said = shortened(&said);
    let hints = [
        (
            "user name is empty",
            "etcd asks for a user: give --etcd-user and a password",
        ),
        (
            "authentication is not enabled",
            "etcd has no users: leave --etcd-user away, or enable its authentication",
        ),
        (
            "authentication failed",
            "look at --etcd-user and its password",
        ),
        (
            "permission denied",
            "give etcd's user a role that may read and write the keys under /evenkeel/",
        ),
        (
            "database space exceeded",
            "compact and defragment etcd, then disarm its alarm",
        ),
        (
            "request is too large",
            "raise etcd's --max-request-bytes to its default of 1572864 at least",
        ),
        (
            "certificate",
            "look at --etcd-ca, --etcd-cert and --etcd-key",
        ),
    ];
    match hints.iter().find(|(words, _)| said.contains(words)) {
        Some((_, hint)) => format!("{said}; {hint}"),
        None => said,
    }
}
