//! Connections to the places of keys: plain, over TLS, and with a login, as the pool's settings say.
//!
//! One that fails is not tried again: a command is over soon, and each try may take as long as the pool's timeouts.

use crate::explain::connect;
use crate::tls::TlsWays;
use evenkeel_protocol::{Limits, Reply, ReplyOutcome, parse_reply};
use evenkeel_proxy_core::{HeldKey, HeldPlace, PlaceSeen, Stands};
use evenkeel_runtime::TlsStream;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Read, Write};

/// What carries the bytes of a connection.
trait Wire: Read + Write {}

impl<W: Read + Write> Wire for W {}

/// Connections by the names of the servers; or why there is none.
pub struct Links {
    ways: TlsWays,
    /// What an answer may have.
    limits: Limits,
    links: BTreeMap<String, Result<Box<dyn Wire>, String>>,
}

impl Links {
    /// None yet.
    pub fn new(ways: TlsWays, limits: Limits) -> Self {
        Links {
            ways,
            limits,
            links: BTreeMap::new(),
        }
    }

    /// What all places of a key show. They are all asked before the first answer is awaited.
    pub fn look_at(&mut self, key: &HeldKey) -> Vec<PlaceSeen> {
        for place in &key.places {
            // What fails is told below.
            let _ = self.with(place, |wire, _| wire.write_all(&place.question));
        }
        let places = key.places.iter().map(|place| {
            let shown = self.with(place, |wire, limits| {
                reply(wire, limits, |reply| key.stands(reply))
            });
            let stands = shown.unwrap_or_else(|why| Stands::Unasked { why });
            place.seen(stands)
        });
        places.collect()
    }

    /// Does something with the connection of a place, which is made if it was not. What fails ends the connection.
    fn with<T>(
        &mut self,
        place: &HeldPlace,
        act: impl FnOnce(&mut dyn Wire, &Limits) -> std::io::Result<T>,
    ) -> Result<T, String> {
        let Links {
            ways,
            limits,
            links,
        } = self;
        let link = links
            .entry(place.server.clone())
            .or_insert_with(|| open(place, ways, limits).map_err(|error| words(&error)));
        let wire = link.as_mut().map_err(|why| why.clone())?;
        act(&mut **wire, limits).map_err(|error| {
            let why = words(&error);
            *link = Err(why.clone());
            why
        })
    }
}

/// A connection on which it was said who we are.
fn open(place: &HeldPlace, ways: &TlsWays, limits: &Limits) -> std::io::Result<Box<dyn Wire>> {
    let stream = connect(&place.address, place.connect_timeout, place.request_timeout)?;
    stream.set_nodelay(true)?;
    let mut wire: Box<dyn Wire> = match place.tls {
        None => Box::new(stream),
        Some(tls) => {
            let way = ways.way(tls).ok_or(ErrorKind::NotFound)?;
            let name = way.server_name.as_ref().unwrap_or(&place.host);
            let stream = TlsStream::connect(stream, &way.client, name);
            Box::new(stream.map_err(Error::other)?)
        }
    };
    if !place.greeting.is_empty() {
        wire.write_all(&place.greeting)?;
        let is_let_in = reply(&mut *wire, limits, |reply| *reply == Reply::Stored)?;
        if !is_let_in {
            return Err(Error::other(
                "it does not accept the name and password of auth_file",
            ));
        }
    }
    Ok(wire)
}

/// Reads one answer, and no byte more.
fn reply<T>(
    wire: &mut dyn Wire,
    limits: &Limits,
    of: impl FnOnce(&Reply<'_>) -> T,
) -> std::io::Result<T> {
    let mut input = Vec::new();
    loop {
        let read = input.len();
        match parse_reply(&input, limits) {
            ReplyOutcome::Reply { reply, .. } => return Ok(of(&reply)),
            ReplyOutcome::Incomplete { total } => input.resize(total, 0),
            ReplyOutcome::Malformed => {
                let what = "its answer is not that of a memcached, or larger than max_item_size";
                return Err(Error::new(ErrorKind::InvalidData, what));
            }
        }
        wire.read_exact(&mut input[read..])?;
    }
}

fn words(error: &Error) -> String {
    match error.kind() {
        // Of a socket whose time is over.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it did not answer in time".to_owned(),
        ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ => error.to_string(),
    }
}
