//! What stands between braces, and how text becomes bytes.

use crate::tests::world::{COPY_TOKEN, World, keys_of, placement};
use crate::{Bundles, DEFAULT_POOL, ServerList};
use evenkeel_control::bundles::COPIES_MAX;
use evenkeel_protocol::base64;
use evenkeel_schemes::copies;
use evenkeel_schemes::generation::name_prefix;
use evenkeel_schemes::locality::local_copies::tag;
use evenkeel_schemes::locality::topology::Rack;
use evenkeel_schemes::mark::{self, Copied};
use evenkeel_schemes::name::note_prefix;
use evenkeel_schemes::stage::FORMER_UNIQUES;

/// What names a ring in the names of its items: `{g2:k}` is what the item of `k` is called in generation 2, `{g2:k1}` that of `{k1}`.
pub const INCARNATION: u64 = 7;

/// A rack of this name: `{note:b}` is the value of a note that names it, `{copy:b:5:x}` that of a copy of the value `x` with the client flags 5, `{u:b:7}` the unique 7 of one of its servers as applications see
/// it, and `{fu:b:7}` if the pool is a former one. `{n:k}` is what the note of `k` is called in the directory of the first pool.
pub fn rack_named(name: &str) -> Rack {
    Rack {
        name: name.to_owned(),
        networks: Vec::new(),
        is_central: false,
    }
}

/// Names of keys by the servers that have them.
pub struct Keys {
    /// Servers in the beginning: so `{c:k}` is what the copy of `k` is called, and `{p12}` a key with the home 1 and a copy at 2.
    pub servers: u16,
    /// They are Evenkeel servers.
    pub by_map: bool,
}

impl Keys {
    /// The text with `{k1}` and its like replaced.
    pub fn expand(&self, text: &str) -> Result<String, String> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some((before, name)) = rest.split_once('{') {
            let (name, behind) = name.split_once('}').ok_or("a brace is not closed")?;
            expanded += before;
            expanded += &self.named(name).ok_or(format!("what is {{{name}}}?"))?;
            rest = behind;
        }
        Ok(expanded + rest)
    }

    fn named(&self, name: &str) -> Option<String> {
        if let Some((generation, key)) = name.strip_prefix('g').and_then(|of| of.split_once(':')) {
            let prefix = name_prefix(INCARNATION, generation.parse().ok()?)?;
            let plain = key.strip_suffix(":base64");
            let (key, is_encoded) = (plain.unwrap_or(key), plain.is_some());
            let key = self.named(key).unwrap_or_else(|| key.to_owned());
            let name = [&prefix, key.as_bytes()].concat();
            let mut encoded = Vec::new();
            base64::encode(&name, &mut encoded);
            let text = if is_encoded { encoded } else { name };
            return String::from_utf8(text).ok();
        }
        if let Some(key) = name.strip_prefix("c:") {
            let key = self.named(key).unwrap_or_else(|| key.to_owned());
            let name = [&copies::name_prefix(COPY_TOKEN)[..], key.as_bytes()].concat();
            return String::from_utf8(name).ok();
        }
        if let Some(key) = name.strip_prefix("n:") {
            let name = [&note_prefix(DEFAULT_POOL)[..], key.as_bytes()].concat();
            return String::from_utf8(name).ok();
        }
        if let Some(rack) = name.strip_prefix("note:") {
            let note = mark::note(rack_named(rack).token());
            return String::from_utf8(note.to_vec()).ok();
        }
        if let Some(copied) = name.strip_prefix("copy:") {
            let mut parts = copied.splitn(3, ':');
            let (rack, flags, value) = (parts.next()?, parts.next()?, parts.next()?);
            let flags = flags.parse().ok()?;
            let copied = Copied {
                rack: rack_named(rack).token(),
                tag: tag(flags, value.as_bytes()),
                flags,
                value: value.as_bytes(),
            };
            return String::from_utf8(copied.to_bytes()).ok();
        }
        if let Some((rack, unique)) = name.strip_prefix("u:").and_then(|it| it.split_once(':')) {
            let unique: u64 = unique.parse().ok()?;
            return Some((unique ^ rack_named(rack).unique_mask()).to_string());
        }
        if let Some((rack, unique)) = name.strip_prefix("fu:").and_then(|it| it.split_once(':')) {
            let unique: u64 = unique.parse().ok()?;
            let shown = unique ^ rack_named(rack).unique_mask() ^ FORMER_UNIQUES;
            return Some(shown.to_string());
        }
        if let Some(places) = name.strip_prefix('p') {
            return self.key_of_places(places);
        }
        let (name, form) = name.split_once(':').unwrap_or((name, ""));
        let (name, count) = name.split_once('*').unwrap_or((name, "1"));
        let (kind, which) = name.split_at_checked(1)?;
        let digits = which.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let place = match which[digits.len()..].bytes().next() {
            Some(letter) => usize::from(letter - b'a'),
            None => 0,
        };
        let mut keys = self.keys_of(digits.parse().ok()?).skip(place);
        match (kind, form) {
            ("k", "") => {
                let keys = keys.take(count.parse().ok()?).map(|(key, _)| key);
                Some(keys.collect::<Vec<_>>().join(" "))
            }
            ("c", "") if self.by_map => Some(keys.next()?.1.to_string()),
            ("k", "base64") => {
                let mut encoded = Vec::new();
                base64::encode(keys.next()?.0.as_bytes(), &mut encoded);
                String::from_utf8(encoded).ok()
            }
            _ => None,
        }
    }

    /// A key whose home is the first of these servers, and whose copies are at the others, in this order: `12` has the home 1. Behind that a letter
    /// says which one.
    fn key_of_places(&self, places: &str) -> Option<String> {
        let digits = places.trim_end_matches(|c: char| c.is_ascii_lowercase());
        let nth = places[digits.len()..].bytes().next();
        let nth = nth.map_or(0, |letter| usize::from(letter - b'a'));
        let wanted: Vec<u32> = digits
            .bytes()
            .map(|digit| u32::from(digit - b'1'))
            .collect();
        let list = ServerList::new(placement(101..=100 + self.servers)).ok()?;
        let bundles = Bundles::new(&list, u8::try_from(wanted.len()).ok()?, None, None);
        let keys = (0..100_000).map(|n| format!("key{n}"));
        let mut found = keys.filter(|key| {
            let mut places = [0; COPIES_MAX as usize];
            bundles.places(&list, key.as_bytes(), &mut places) == wanted
        });
        found.nth(nth)
    }

    /// The keys of a server, with their cachelets.
    fn keys_of(&self, server: u16) -> Box<dyn Iterator<Item = (String, u16)>> {
        match self.by_map {
            true => Box::new(keys_of(server, self.servers)),
            false => Box::new(memcached_keys_of(server, self.servers).map(|key| (key, 0))),
        }
    }
}

/// Keys that a pool of any memcached servers has at one of them.
fn memcached_keys_of(server: u16, servers: u16) -> impl Iterator<Item = String> {
    let mut world = World::memcached(servers);
    let client = world.client();
    (0..).map(|i| format!("k{i}")).filter(move |key| {
        world.send(client, format!("delete {key} noreply\r\n"));
        let is_there = world.has_asked(100 + server);
        for port in 101..=100 + servers {
            if world.has_asked(port) {
                world.asked(port);
                world.reply(port, "NOT_FOUND\r\n");
            }
        }
        is_there
    })
}

/// Lines, each ended.
pub fn lines(text: &str) -> Result<String, String> {
    let parts = text.split(" |").filter(|part| part.trim() != "nothing");
    let lines = parts.map(|part| part.strip_prefix(' ').unwrap_or(part).to_owned() + "\r\n");
    unescape(&lines.collect::<String>())
}

/// Text with its escapes replaced.
pub fn unescape(text: &str) -> Result<String, String> {
    let escapes = [("\\r", "\r"), ("\\n", "\n"), ("\\0", "\0")];
    let replaced = |text: String, (escape, meant): (&str, &str)| text.replace(escape, meant);
    let mut text = escapes.into_iter().fold(text.to_owned(), replaced);
    while let Some((before, rest)) = text.split_once("\\(") {
        let (repeated, behind) = rest.split_once(')').ok_or("a repetition has no end")?;
        let (part, count) = repeated.rsplit_once('*').ok_or("how often?")?;
        let count = count.parse().map_err(|_| "how often?")?;
        text = [before, &part.repeat(count), behind].concat();
    }
    match text.split_once('\\') {
        Some((_, escape)) => Err(format!("what is \\{escape}?")),
        None => Ok(text),
    }
}

/// Whether the text is what a step says, where `...` stands for anything.
pub fn is_like(expected: &str, text: &str) -> bool {
    let Some((first, others)) = expected.split_once("...") else {
        return expected == text;
    };
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = others.split("...").collect();
    // What only ends the last line is no part.
    let last = parts
        .pop()
        .filter(|last| *last != "\r\n")
        .unwrap_or_default();
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether a count is `4`, or within `4..10`.
pub fn is_count(expected: &str, count: u64) -> Result<bool, String> {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("{text:?} is no count"))
    };
    match expected.split_once("..") {
        Some((least, "")) => Ok(count >= number(least)?),
        Some((least, most)) => Ok((number(least)?..=number(most)?).contains(&count)),
        None => Ok(count == number(expected)?),
    }
}
