//! The ways in which TLS is spoken with servers, by the numbers that the workers' cores know them by.

use evenkeel_proxy_core::TlsId;
use evenkeel_runtime::TlsClient;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How TLS is spoken with the servers of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsWay {
    pub client: TlsClient,
    /// Whom the servers' certificates are for; `None` for each server's own host name.
    pub server_name: Option<String>,
}

/// All ways that are in use; the whole process shares them.
#[derive(Clone, Debug, Default)]
pub struct TlsWays(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    ways: Vec<(TlsId, TlsWay)>,
    /// Numbers given so far: none is given twice.
    ids: u32,
}

impl TlsWays {
    /// The number of a way; a new one, or one whose files say something new, gets a new number.
    pub fn id(&self, way: &TlsWay) -> TlsId {
        let mut known = self.lock();
        if let Some((id, _)) = known.ways.iter().find(|(_, other)| other == way) {
            return *id;
        }
        known.ids += 1;
        let id = TlsId(known.ids);
        known.ways.push((id, way.clone()));
        id
    }

    /// The way of a number.
    pub fn way(&self, id: TlsId) -> Option<TlsWay> {
        let known = self.lock();
        let found = known.ways.iter().find(|(other, _)| *other == id);
        found.map(|(_, way)| way.clone())
    }

    /// Forgets all others.
    pub fn keep_only(&self, ids: &[TlsId]) {
        self.lock().ways.retain(|(id, _)| ids.contains(id));
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
