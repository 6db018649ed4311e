//! The connections of applications.

use crate::client::Client;
use crate::ids::ClientId;
use crate::output::{Outbox, Output};
use crate::pipe::in_flight::Tag;
use crate::slab::Slab;
use core::mem;

/// The connections of applications, by name.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    slab: Slab<Client>,
    /// Those whose first request waits for servers to say who they are.
    await_greetings: Vec<ClientId>,
}

impl Clients {
    /// A connection was accepted.
    pub fn insert(&mut self, client: Client) -> ClientId {
        ClientId(self.slab.insert(client))
    }

    /// Forgets a connection.
    pub fn remove(&mut self, id: ClientId) -> Option<Client> {
        self.slab.remove(id.0)
    }

    #[inline]
    pub fn get(&self, id: ClientId) -> Option<&Client> {
        self.slab.get(id.0)
    }

    #[inline]
    pub fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        self.slab.get_mut(id.0)
    }

    /// The names of all of them.
    pub fn ids(&self) -> Vec<ClientId> {
        self.slab.keys().into_iter().map(ClientId).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.slab.iter().map(|(_, client)| client)
    }

    /// There is output for the driver to write.
    #[inline]
    pub fn write(&mut self, outbox: &mut Outbox, id: ClientId) {
        if let Some(client) = self.get_mut(id)
            && !client.write_queued
        {
            client.write_queued = true;
            outbox.push(Output::WriteClient(id));
        }
    }

    /// The driver is to give the input again.
    pub fn feed(&mut self, outbox: &mut Outbox, id: ClientId) {
        if let Some(client) = self.get_mut(id)
            && !client.feed_queued
        {
            client.feed_queued = true;
            outbox.push(Output::FeedClient(id));
        }
    }

    /// The driver writes to a connection as it was told.
    #[inline]
    pub fn written_by_driver(&mut self, id: ClientId) {
        if let Some(client) = self.get_mut(id) {
            client.write_queued = false;
        }
    }

    /// The driver shows what a connection has sent as it was told.
    #[inline]
    pub fn fed_by_driver(&mut self, id: ClientId) {
        if let Some(client) = self.get_mut(id) {
            client.feed_queued = false;
        }
    }

    /// The first request of a client waits for servers to say who they are.
    pub fn await_greetings(&mut self, id: ClientId) {
        self.await_greetings.push(id);
    }

    /// A server has said who it is, or cannot: hears the clients again that waited for it.
    pub fn handle_waiting(&mut self, outbox: &mut Outbox) {
        for id in mem::take(&mut self.await_greetings) {
            if let Some(client) = self.get_mut(id) {
                client.stalled = false;
            }
            self.feed(outbox, id);
        }
    }

    /// Whether anything that the client asked before this is still awaited, wherever from.
    pub fn awaits_before(&self, tag: &Tag) -> bool {
        let client = self.get(tag.client);
        client.is_some_and(|client| client.awaits_before(tag.slot))
    }

    /// Whether requests of the client are parked.
    pub fn has_parked(&self, id: ClientId) -> bool {
        self.get(id).is_some_and(|client| client.parked > 0)
    }
}
