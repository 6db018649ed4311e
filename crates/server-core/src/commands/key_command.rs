//! A command on one key, in whatever protocol it came: what it says, and what it is answered where it is not executed.

use crate::mesh::forwarded::Form;
use crate::observe::operation::Operation;
use crate::session::Session;
use crate::session::elsewhere::Elsewhere;
use crate::shard::engine::At;
use evenkeel_hotkeys::server::Reader;
use evenkeel_protocol::binary::{self, Command, Status, answer as binary_answer};
use evenkeel_protocol::compose::{answer, request as compose};
use evenkeel_protocol::{KeyScratch, Keys, Meta, MetaFlags, Moved, Request, text};
use evenkeel_types::{CacheletId, Epoch, copy};

/// The server may own the key, and may not serve it.
pub(crate) const NO_LEASE: &[u8] =
    b"SERVER_ERROR no serving lease for this key: neither a coordinator nor enough servers answer\r\n";
pub(crate) const NO_LEASE_BINARY: &[u8] = b"no serving lease for this key";

/// What a forwarded command is answered when its key changed worker on the way.
const KEY_MOVED: &[u8] = b"SERVER_ERROR key is changing its worker, try again\r\n";
const KEY_MOVED_BINARY: &[u8] = b"key is changing its worker, try again";

/// The form of a classic get.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GetForm {
    /// Exptime as sent, for `gat` and `gats`.
    pub touch: Option<i64>,
    pub with_cas: bool,
}

impl GetForm {
    /// `get`.
    pub const PLAIN: GetForm = GetForm {
        touch: None,
        with_cas: false,
    };

    /// Whether it is `get`.
    #[inline]
    pub fn is_plain(self) -> bool {
        self.touch.is_none() && !self.with_cas
    }

    /// The keys and the form of a classic get.
    #[inline]
    pub fn of<'a>(request: &Request<'a>) -> Option<(Keys<'a>, GetForm)> {
        let (keys, touch, with_cas) = match *request {
            Request::Get { keys, with_cas } => (keys, None, with_cas),
            Request::GetAndTouch {
                exptime,
                keys,
                with_cas,
            } => (keys, Some(exptime), with_cas),
            _ => return None,
        };
        Some((keys, GetForm { touch, with_cas }))
    }
}

/// A command on one key, as its protocol words it, and its bytes as they were sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyCommand<'r, 'a> {
    /// One key of a classic get. Its answer has no `END`.
    Get(GetForm),
    Text(&'r Request<'a>, &'r [u8]),
    Binary(&'r binary::Request<'a>, &'r [u8]),
}

/// What a client that knows the map says of it with a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub epoch: Epoch,
    /// The key's cachelet by that map, where the protocol tells it.
    pub cachelet: Option<CacheletId>,
    /// See [`Marks`](crate::session::marks::Marks).
    pub mark: Option<u64>,
}

impl KeyCommand<'_, '_> {
    /// Whether it is answered with the value of its key.
    pub fn is_read(self) -> bool {
        match self {
            KeyCommand::Get(_) => true,
            KeyCommand::Text(request, _) => matches!(request, Request::MetaGet(_)),
            KeyCommand::Binary(request, _) => matches!(
                request.command,
                Command::Get { .. } | Command::GetAndTouch { .. }
            ),
        }
    }

    /// What it does, for who looks on.
    pub fn operation(self) -> Operation {
        match self {
            KeyCommand::Get(_) => Operation::Read,
            KeyCommand::Text(request, _) => Operation::of(request),
            KeyCommand::Binary(request, _) => Operation::of_binary(request),
        }
    }

    /// The map that it names; a client that names none knows none, and cannot be sent elsewhere.
    #[inline]
    pub fn named(self, session: &Session) -> Option<Named> {
        if !session.agreed {
            return None;
        }
        match self {
            KeyCommand::Get(_) => None,
            KeyCommand::Text(request, _) => {
                let flags = &meta_of(request)?.flags;
                Some(Named {
                    epoch: Epoch(flags.unsigned(b'Y')?),
                    cachelet: None,
                    mark: flags.unsigned(b'W'),
                })
            }
            // Its vbucket names the cachelet by the map of its hello.
            KeyCommand::Binary(request, _) => Some(Named {
                epoch: session.epoch,
                cachelet: Some(CacheletId(request.vbucket)),
                mark: None,
            }),
        }
    }

    /// What its client knows of leases.
    #[inline]
    pub fn reader(self, named: &Named) -> Reader {
        match self {
            KeyCommand::Text(request, _)
                if meta_of(request).is_some_and(|meta| is_plain_read(&meta.flags)) =>
            {
                let epoch = named.epoch;
                Reader::Aware { epoch }
            }
            _ => Reader::Unaware,
        }
    }

    /// Where its key is, if no line of text may be able to hold that. See [`At::confined_to`].
    #[inline]
    pub fn confine(self, at: At, key: &[u8]) -> At {
        let is_any = match self {
            KeyCommand::Get(_) => false,
            KeyCommand::Text(request, _) => {
                meta_of(request).is_some_and(|meta| meta.flags.has(b'b'))
            }
            KeyCommand::Binary(..) => true,
        };
        match is_any {
            true => at.confined_to(key),
            false => at,
        }
    }

    /// How it travels to another worker.
    pub fn form(self) -> Form {
        match self {
            KeyCommand::Get(form) if form.is_plain() => Form::Key,
            _ => Form::Frame,
        }
    }

    pub fn write(self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            KeyCommand::Get(form) => match form.touch {
                None if form.is_plain() => out.extend_from_slice(key),
                None => compose::get(out, [key], form.with_cas),
                Some(exptime) => compose::get_and_touch(out, exptime, [key], form.with_cas),
            },
            KeyCommand::Text(_, frame) | KeyCommand::Binary(_, frame) => {
                copy::append(out, frame);
            }
        }
    }

    /// Whether an answer has a place in the order of its connection. Also a quiet command of the binary protocol: it
    /// may turn out to have one.
    pub fn is_answered(self) -> bool {
        match self {
            KeyCommand::Text(request, _) => !wants_no_reply(request),
            KeyCommand::Get(_) | KeyCommand::Binary(..) => true,
        }
    }

    pub fn say_moved(self, session: &mut Session, moved: &Moved) {
        match self {
            KeyCommand::Binary(request, _) => {
                let mut words = Vec::new();
                answer::moved(&mut words, moved);
                let words = words.strip_suffix(text::CRLF).unwrap_or(&words);
                let status = Status::NotMyVbucket;
                binary_answer::error_with(session.sink(), request.echo(), status, words);
            }
            KeyCommand::Get(_) | KeyCommand::Text(..) => answer::moved(session.sink(), moved),
        }
    }

    pub fn say_no_lease(self, session: &mut Session) {
        match self {
            // A miss.
            KeyCommand::Get(_) => {}
            KeyCommand::Text(..) if self.is_answered() => {
                session.say(NO_LEASE);
            }
            KeyCommand::Text(..) => {}
            KeyCommand::Binary(request, _) => {
                let (echo, status) = (request.echo(), Status::Busy);
                binary_answer::error_with(session.sink(), echo, status, NO_LEASE_BINARY);
            }
        }
    }

    pub fn say_elsewhere(self, session: &mut Session, why: Elsewhere) {
        match self {
            KeyCommand::Get(_) => session.elsewhere = Some(why),
            KeyCommand::Text(..) if self.is_answered() => {
                session.say(&why.line());
            }
            KeyCommand::Text(..) => {}
            KeyCommand::Binary(request, _) => {
                let (echo, why) = (request.echo(), why.to_string());
                let status = Status::NotMyVbucket;
                binary_answer::error_with(session.sink(), echo, status, why.as_bytes());
            }
        }
    }

    /// Its key changed worker on the way from another worker.
    pub fn say_key_moved(self, out: &mut Vec<u8>) {
        match self {
            // A miss.
            KeyCommand::Get(_) => {}
            KeyCommand::Text(..) => out.extend_from_slice(KEY_MOVED),
            KeyCommand::Binary(request, _) => {
                binary_answer::error_with(out, request.echo(), Status::Busy, KEY_MOVED_BINARY);
            }
        }
    }
}

/// A read that neither changes the item nor asks to be told to recache it.
fn is_plain_read(flags: &MetaFlags<'_>) -> bool {
    ![b'T', b'N', b'R', b'E']
        .into_iter()
        .any(|flag| flags.has(flag))
}

pub(crate) fn meta_of<'r, 'a>(request: &'r Request<'a>) -> Option<&'r Meta<'a>> {
    match request {
        Request::MetaGet(meta)
        | Request::MetaSet(meta)
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic(meta) => Some(meta),
        _ => None,
    }
}

/// The key of a command on one key; empty for other commands.
pub(crate) fn key_of<'s, 'a: 's>(request: &Request<'a>, scratch: &'s mut KeyScratch) -> &'s [u8] {
    match request {
        Request::Store(store) => store.key,
        Request::Delete { key, .. }
        | Request::Arithmetic { key, .. }
        | Request::Touch { key, .. } => key,
        Request::MetaGet(meta)
        | Request::MetaSet(meta)
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic(meta) => meta.key(scratch),
        Request::MetaDebug { key } => key.decode(scratch),
        _ => b"",
    }
}

fn wants_no_reply(request: &Request<'_>) -> bool {
    match request {
        Request::Store(store) => store.noreply,
        Request::Delete { noreply, .. }
        | Request::Arithmetic { noreply, .. }
        | Request::Touch { noreply, .. } => *noreply,
        _ => false,
    }
}
