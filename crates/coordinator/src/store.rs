//! Where the state is kept: one small interface, so that the shared core does not know whether it is a file or etcd.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use evenkeel_coordinator_core::SavedState;

/// A place for the state of one coordinator.
pub(crate) trait StateStore: fmt::Debug + Send {
    /// Replaces the state that is kept. When it is done, the state survives the loss of this process.
    ///
    /// # Errors
    ///
    /// Why not. What is kept then is the former state, or (with etcd) possibly this one.
    fn save<'a>(&'a mut self, state: &'a SavedState) -> Saving<'a>;

    /// What it is called in messages.
    fn place(&self) -> String;
}

/// A save under way.
pub(crate) type Saving<'a> = Pin<Box<dyn Future<Output = Result<(), SaveError>> + Send + 'a>>;

/// Why a state was not saved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaveError {
    /// The disk's.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// etcd's; nobody may know whether the state was written.
    #[error(transparent)]
    Etcd(#[from] crate::etcd::CallError),
    /// etcd refused: another coordinator leads, or this one must not go on.
    #[error("this coordinator leads no more")]
    NotLeader,
}

/// Nowhere: the state is forgotten with the process.
#[derive(Debug)]
pub(crate) struct MemoryStore;

impl StateStore for MemoryStore {
    fn save<'a>(&'a mut self, _: &'a SavedState) -> Saving<'a> {
        Box::pin(async { Ok(()) })
    }

    fn place(&self) -> String {
        "memory".to_owned()
    }
}
