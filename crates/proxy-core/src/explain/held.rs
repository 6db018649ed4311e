//! Where a key stands in a pool of which one rack holds each item: all its places, what each is asked, and what its answer shows.
//!
//! Which server a place is and what the item or note is called there is asked of what requests go through themselves, as all that is
//! [explained](super) is. Nobody is asked here.

use super::faults::{PlaceSeen, Stands};
use super::{server_at, server_seen, shown};
use crate::composed::announced;
use crate::config::TlsId;
use crate::failure::{NO_NAME, NO_NOTE};
use crate::pipe::login;
use crate::pool::racks::PoolRacks;
use crate::ring::named;
use crate::warm::{flags_of, is_marked};
use crate::worker::ProxyCore;
use core::time::Duration;
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::{KEY_LEN_MAX, MetaReply, MetaStatus, Reply, SentKey, text};
use evenkeel_schemes::locality::holder::{Kind, Site};
use evenkeel_schemes::mark::{self, Mark};
use evenkeel_types::is_key;

/// What is answered where no such pool is.
const NO_RACKS: &[u8] = b"CLIENT_ERROR no pool of this name has items that one rack holds\r\n";

/// The places of a key.
#[derive(Clone, Debug)]
pub struct HeldKey {
    /// The racks in their order, then the directory, where the pool has one.
    pub places: Vec<HeldPlace>,
    /// What stands for each rack of the pool in notes, and its name.
    racks: Vec<(u64, String)>,
}

/// A place of a key, and how it is asked.
#[derive(Clone, Debug)]
pub struct HeldPlace {
    /// Its rack; `None` for the directory.
    pub rack: Option<String>,
    /// The server's name in statistics and errors: each has one of its own.
    pub server: String,
    /// The server's host, for whom its certificate is where nothing else is said.
    pub host: String,
    /// Host and port.
    pub address: String,
    /// How TLS is spoken with it.
    pub tls: Option<TlsId>,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long an answer may take.
    pub request_timeout: Duration,
    /// What is said first on a connection, and answered `STORED`: who we are. Empty where nobody asks for that.
    pub greeting: Vec<u8>,
    /// What it is asked. The answer leaves the item as little used as it was.
    pub question: Vec<u8>,
    /// What the item or note is called there.
    name: Vec<u8>,
}

impl HeldKey {
    /// What stands at a place, by its answer to the question.
    pub fn stands(&self, reply: &Reply<'_>) -> Stands {
        match reply {
            Reply::Meta(meta) => match (meta.status, meta.value) {
                (MetaStatus::Miss, _) => Stands::Nothing,
                (_, Some(value)) if is_marked(meta) => self.mark(value),
                (_, Some(value)) => item(meta, value),
                (_, None) => unasked("the answer has no value".to_owned()),
            },
            Reply::ClientError(words) => unasked(format!("CLIENT_ERROR {}", shown(words))),
            Reply::ServerError(words) => unasked(format!("SERVER_ERROR {}", shown(words))),
            _ => unasked("it has no meta commands".to_owned()),
        }
    }

    fn mark(&self, value: &[u8]) -> Stands {
        match mark::read(value) {
            None => Stands::UnknownMark,
            Some(Mark::Placeholder) => Stands::Placeholder,
            Some(Mark::Lock) => Stands::Lock,
            Some(Mark::Note(token)) => Stands::Note {
                leads_to: self.named(token),
            },
            Some(Mark::Copy(token)) => Stands::Copy {
                leads_to: self.named(token),
                value_bytes: value.len() - mark::COPY_HEADER_LEN,
            },
        }
    }

    /// The rack that a note names, by its token.
    fn named(&self, token: u64) -> Option<String> {
        let rack = self.racks.iter().find(|(it, _)| *it == token);
        rack.map(|(_, name)| name.clone())
    }
}

impl HeldPlace {
    /// The place with what stands there.
    pub fn seen(&self, stands: Stands) -> PlaceSeen {
        PlaceSeen {
            rack: self.rack.clone(),
            server: self.server.clone(),
            address: self.address.clone(),
            name: shown(&self.name),
            stands,
        }
    }
}

fn item(meta: &MetaReply<'_>, value: &[u8]) -> Stands {
    Stands::Item {
        value_bytes: value.len(),
        flags: flags_of(meta).unwrap_or(0),
        // `t-1` is for ever.
        ttl_s: meta.flags.unsigned(b't'),
    }
}

fn unasked(why: String) -> Stands {
    Stands::Unasked { why }
}

/// The places of a key, as the pool of this name has it.
///
/// # Errors
/// The error line for what is no key, for a key that leaves no room for a name that the pool gives it, and where there is no such pool.
pub(crate) fn held_key(core: &ProxyCore, pool: &str, key: &[u8]) -> Result<HeldKey, &'static [u8]> {
    if !is_key(key) {
        return Err(text::BAD_FORMAT);
    }
    let mut pools = core.pools.iter().map(|(_, pool)| pool);
    let pool = pools.find(|it| *it.name == *pool).ok_or(NO_RACKS)?;
    let racks = pool.racks.as_deref().ok_or(NO_RACKS)?;
    // Its own items, however far it is on its way from a former pool.
    let name = named(pool.settings.name_prefix, key);
    let mut sites = racks.racks.others();
    sites.insert(racks.own());
    if racks.kind == Kind::Directory {
        sites.insert(Site::Directory);
    }
    for (site, refusal) in [(racks.own(), NO_NAME), (Site::Directory, NO_NOTE)] {
        if sites.has(site) && racks.name(site, &name).len() > KEY_LEN_MAX {
            return Err(refusal);
        }
    }
    let place = |site| place(core, racks, site, &name);
    let rack = |site| match site {
        Site::Rack(rack) => Some((racks.token(rack), rack_name(core, site)?)),
        Site::Directory | Site::Former => None,
    };
    Ok(HeldKey {
        places: sites.iter().filter_map(place).collect(),
        racks: sites.iter().filter_map(rack).collect(),
    })
}

fn place(core: &ProxyCore, racks: &PoolRacks, site: Site, name: &[u8]) -> Option<HeldPlace> {
    let id = server_at(core, racks, site, name)?;
    let backend = core.backends.get(id)?;
    let seen = server_seen(core, id, false)?;
    let mut greeting = Vec::new();
    if let Some(known) = &backend.login {
        login::compose(&mut greeting, known);
    }
    let name = racks.name(site, name);
    Some(HeldPlace {
        rack: rack_name(core, site),
        server: seen.name,
        host: backend.host.clone(),
        address: seen.address,
        tls: backend.tls,
        connect_timeout: backend.connect_timeout,
        request_timeout: backend.request_timeout,
        greeting,
        question: question(&name),
        name,
    })
}

fn rack_name(core: &ProxyCore, site: Site) -> Option<String> {
    match site {
        Site::Rack(rack) => Some(core.config.racks.name(Some(rack)).to_owned()),
        Site::Directory | Site::Former => None,
    }
}

fn question(name: &[u8]) -> Vec<u8> {
    let (mut out, mut encoded) = (Vec::new(), Vec::new());
    let name = SentKey::of(name, &mut encoded).unwrap_or(SentKey::plain(name));
    let line = announced(ask::meta_get(&mut out, name), name);
    line.flag(b'v').flag(b'f').flag(b't').flag(b'u').end();
    out
}
