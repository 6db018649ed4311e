//! What servers of pools of any memcached understand.
//!
//! What applications say in text is passed on in the words they chose. What they say in binary has to be
//! said in other words: the classic ones where these say it all, meta commands where they do not. The
//! answer to the greeting tells whether a server knows meta commands. A value in a meta command must
//! not be sent to one that does not: it would be read as commands. Meta commands of one line may be
//! tried, since they are answered with an error.
//!
//! Connections are made when they are needed first, and until then nothing is known. So the first
//! requests of a binary connection wait until the servers that were never asked have said who they are,
//! or could not be reached.

use crate::pipe::backend::{Link, Peer};
use crate::pool::Servers;
use crate::request::way::{WayKey, WayTo};
use crate::show::Unfit;
use crate::{BackendId, ClientId, ProxyCore};
use core::mem;
use evenkeel_protocol::Reply;
use evenkeel_types::Instant;

/// What is said instead of asking a server for what it has no words for.
pub(crate) const NO_META: &[u8] =
    b"SERVER_ERROR the key's server knows no meta commands, which this needs\r\n";

/// Meta commands as they are now are known since this version, major and minor.
const META_SINCE: (u32, u32) = (1, 6);

/// What a server understands besides classic commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Speech {
    /// It has not said who it is.
    #[default]
    Unknown,
    /// Nothing.
    Classic,
    /// Meta commands.
    Meta,
}

impl Speech {
    /// What a server understands that says this of its version.
    pub fn of_version(words: &[u8]) -> Self {
        let mut numbers = words.split(|&byte| byte == b'.');
        let mut next = || {
            let word = core::str::from_utf8(numbers.next()?).ok()?;
            word.parse::<u32>().ok()
        };
        let version = next().zip(next());
        match version.is_some_and(|version| version >= META_SINCE) {
            true => Speech::Meta,
            false => Speech::Classic,
        }
    }
}

impl ProxyCore {
    /// What the server understands that a key goes to.
    pub(crate) fn speech(&self, way: &WayTo, key: WayKey<'_>) -> Speech {
        if way.as_meta {
            return Speech::Meta;
        }
        let pool = self.pools.get(way.pool.0).map(|pool| &pool.servers);
        let Some(Servers::Memcached(pool)) = pool else {
            return Speech::Unknown;
        };
        let to = way.place.unwrap_or_else(|| pool.home(key.stored));
        let backend = self.backends.get(to.0);
        backend.map_or(Speech::Unknown, |backend| backend.speech)
    }

    /// A server has answered the greeting.
    pub(crate) fn learn_speech(&mut self, id: BackendId, reply: &Reply<'_>) -> Result<(), Unfit> {
        let speech = match reply {
            Reply::Version(words) => Speech::of_version(words),
            _ => Speech::Classic,
        };
        let Some(backend) = self.backends.get_mut(id.0) else {
            return Ok(());
        };
        let before = mem::replace(&mut backend.speech, speech);
        // It would not understand what is queued for its predecessor.
        let is_lost = before == Speech::Meta && speech != before && backend.queued_requests() > 0;
        self.hear_waiting();
        if is_lost { Err(Unfit) } else { Ok(()) }
    }

    /// Greets the servers that were never asked anything, and says whether any of them is about to say
    /// who it is. If so, the client is heard again when it has.
    pub(crate) fn awaits_greetings(&mut self, now: Instant, id: ClientId) -> bool {
        if !mem::replace(&mut self.has_binary, true) {
            self.greet_strangers(now);
        }
        let awaits = self.backends.iter().any(|(_, backend)| {
            let is_under_way = matches!(
                backend.link,
                Link::Connecting { .. } | Link::Greeting { .. }
            );
            backend.peer == Peer::Memcached
                && backend.speech == Speech::Unknown
                && is_under_way
                && backend.takes_requests()
        });
        if awaits {
            self.await_greetings.push(id);
        }
        awaits
    }

    /// Connects to the servers that were never asked anything, if what they understand matters.
    pub(crate) fn greet_strangers(&mut self, now: Instant) {
        if !self.has_binary {
            return;
        }
        for key in self.backends.keys() {
            let backend = self.backends.get(key);
            let is_stranger = backend.is_some_and(|backend| {
                backend.peer == Peer::Memcached
                    && backend.speech == Speech::Unknown
                    && backend.link == Link::Idle
                    && backend.takes_requests()
            });
            if is_stranger {
                self.connect(now, BackendId(key));
            }
        }
    }

    /// A server has said who it is, or cannot: hears the clients again that waited for it.
    pub(crate) fn hear_waiting(&mut self) {
        for id in mem::take(&mut self.await_greetings) {
            if let Some(client) = self.clients.get_mut(id.0) {
                client.stalled = false;
            }
            self.feed_client(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_tell_who_knows_meta_commands() {
        for version in ["1.6.18", "1.6.45-evenkeel-0.1.0", "1.6", "1.10.0", "2.0.1"] {
            assert_eq!(Speech::of_version(version.as_bytes()), Speech::Meta);
        }
        for version in ["1.5.22", "1.4.15", "0.5.0", "mcrouter 0.41", "1", "", "x.y"] {
            assert_eq!(Speech::of_version(version.as_bytes()), Speech::Classic);
        }
    }
}
