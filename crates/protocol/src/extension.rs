//! The hello of the extension and the answers that only agreed peers see
//! (`docs/protocol-extension.md`).

use evenkeel_types::{BootId, CacheletId, Epoch, ServerId, Version, WorkerRef};

use crate::number;
use crate::words::Words;

/// `evenkeel 1 epoch=<n> [from=<server>/<worker>] [vote=<server>/<boot>]`: a client offers the extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Version of the extension; [`Hello::VERSION`] is the only one there is.
    pub version: u64,
    /// Epoch of the map the client has; 0 when it has none or did not say.
    pub epoch: Epoch,
    /// The worker that sends replicas over this connection, when it is one: the newest connection of
    /// a worker ends its older ones, so that nothing they still hold can arrive late.
    pub from: Option<WorkerRef>,
    /// A server's life that asks whether it may serve by the map of that epoch.
    pub vote: Option<(ServerId, BootId)>,
}

impl Hello {
    /// The version this crate speaks.
    pub const VERSION: u64 = 1;

    /// Reads the words behind `evenkeel`. Unknown `name=value` words are skipped, so that later
    /// versions can add some; `None` when a word is no such pair or a known value no number.
    pub(crate) fn parse(mut words: Words<'_>) -> Option<Self> {
        let mut hello = Hello {
            version: number::plain(words.next()?)?,
            ..Hello::default()
        };
        for word in words {
            let (name, value) = pair(word)?;
            match name {
                b"epoch" => hello.epoch = Epoch(number::plain(value)?),
                b"from" => hello.from = Some(worker_ref(value)?),
                b"vote" => hello.vote = Some(server_life(value)?),
                _ => {}
            }
        }
        Some(hello)
    }

    /// Appends the words behind `evenkeel`.
    pub(crate) fn write_words(&self, out: &mut Vec<u8>) {
        number::write(out, self.version);
        out.extend_from_slice(b" epoch=");
        number::write(out, self.epoch.0);
        if let Some(worker) = self.from {
            out.extend_from_slice(b" from=");
            number::write(out, worker.server.0);
            out.push(b'/');
            number::write(out, worker.worker);
        }
        if let Some((server, boot)) = self.vote {
            out.extend_from_slice(b" vote=");
            number::write(out, server.0);
            out.push(b'/');
            number::write(out, boot.0);
        }
    }
}

/// `EVENKEEL 1 server=… worker=… boot=… epoch=… lease_ms=… [vote=…]`: the server agrees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelloReply {
    /// Version of the extension.
    pub version: u64,
    /// Who answers.
    pub worker: WorkerRef,
    /// The life of the server's process that answers.
    pub boot: BootId,
    /// Epoch of the map the server has.
    pub epoch: Epoch,
    /// How long a lease lasts from the moment of the read that got it, in milliseconds.
    pub lease_ms: u64,
    /// Whether it lets the server serve that asked for its vote. Absent where none did.
    pub vote: Option<bool>,
}

impl HelloReply {
    /// Reads the words behind `EVENKEEL`; the rules are those of a hello.
    pub(crate) fn parse(mut words: Words<'_>) -> Option<Self> {
        let mut reply = HelloReply {
            version: number::plain(words.next()?)?,
            ..Self::default()
        };
        for word in words {
            let (name, value) = pair(word)?;
            match name {
                b"server" => reply.worker.server = ServerId(small(value)?),
                b"worker" => reply.worker.worker = small(value)?,
                b"boot" => reply.boot = BootId(number::plain(value)?),
                b"epoch" => reply.epoch = Epoch(number::plain(value)?),
                b"lease_ms" => reply.lease_ms = number::plain(value)?,
                b"vote" => reply.vote = Some(number::plain(value)? == 1),
                _ => {}
            }
        }
        Some(reply)
    }
}

/// `migrate <word> …`: the source of a migration speaks to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrate {
    /// `begin <cachelet> <began> <since>`: what follows with `G` on this connection is of that cachelet.
    Begin {
        /// Which cachelet.
        cachelet: CacheletId,
        /// Which migration of it.
        began: Epoch,
        /// Epoch from which on the contents have gone on without a break.
        since: Epoch,
    },
    /// `activate <version>`: everything was sent; serve anyone who comes.
    Activate {
        /// The newest version that the source has given.
        newest: Version,
    },
    /// `confirm`: the source serves it no more.
    Confirm,
}

impl Migrate {
    /// Reads the words behind `migrate`. `None` unless they are exactly what is expected.
    pub(crate) fn parse(mut words: Words<'_>) -> Option<Self> {
        let word = words.next()?;
        let mut number = || number::plain(words.next()?);
        let migrate = match word {
            b"begin" => Migrate::Begin {
                cachelet: CacheletId(number()?.try_into().ok()?),
                began: Epoch(number()?),
                since: Epoch(number()?),
            },
            b"activate" => Migrate::Activate {
                newest: Version(number()?),
            },
            b"confirm" => Migrate::Confirm,
            _ => return None,
        };
        words.next().is_none().then_some(migrate)
    }

    /// Appends the words behind `migrate`.
    pub(crate) fn write_words(self, out: &mut Vec<u8>) {
        match self {
            Migrate::Begin {
                cachelet,
                began,
                since,
            } => {
                out.extend_from_slice(b"begin ");
                number::write(out, cachelet.0);
                out.push(b' ');
                number::write(out, began.0);
                out.push(b' ');
                number::write(out, since.0);
            }
            Migrate::Activate { newest } => {
                out.extend_from_slice(b"activate ");
                number::write(out, newest.0);
            }
            Migrate::Confirm => out.extend_from_slice(b"confirm"),
        }
    }
}

/// `MOVED <epoch> <server> <worker> <mark>`: the cachelet belongs to another worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Epoch of the answerer's map.
    pub epoch: Epoch,
    /// The owner by that map.
    pub owner: WorkerRef,
    /// What requests for the cachelet on this connection must carry from now on (`W`); 0 for nothing.
    pub mark: u64,
}

impl Moved {
    /// Reads the words behind `MOVED`. Words that follow are skipped.
    pub(crate) fn parse(mut words: Words<'_>) -> Option<Self> {
        let epoch = Epoch(number::plain(words.next()?)?);
        let server = ServerId(small(words.next()?)?);
        let worker = small(words.next()?)?;
        let mark = words.next().and_then(number::plain).unwrap_or(0);
        Some(Moved {
            epoch,
            owner: WorkerRef { server, worker },
            mark,
        })
    }
}

fn pair(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, value) = word.split_at(memchr::memchr(b'=', word)?);
    Some((name, &value[1..]))
}

/// Reads `<server>/<worker>`.
fn worker_ref(value: &[u8]) -> Option<WorkerRef> {
    let (server, worker) = value.split_at(memchr::memchr(b'/', value)?);
    Some(WorkerRef {
        server: ServerId(small(server)?),
        worker: small(&worker[1..])?,
    })
}

/// Reads `<server>/<boot>`.
fn server_life(value: &[u8]) -> Option<(ServerId, BootId)> {
    let (server, boot) = value.split_at(memchr::memchr(b'/', value)?);
    let boot = BootId(number::plain(&boot[1..])?);
    Some((ServerId(small(server)?), boot))
}

fn small(word: &[u8]) -> Option<u16> {
    number::plain(word)?.try_into().ok()
}
