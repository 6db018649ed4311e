//! Keys that servers know by another name: a route may take its prefix off and put another before.
//!
//! ```text
//!   application          servers
//!   "user:" + rest  ──>  "v2:" + rest      what is asked
//!   "user:" + rest  <──  "v2:" + rest      what is answered
//! ```
//!
//! Where an answer names its key, the name must be turned back, also when another configuration has
//! come in force since it was asked. So every answer's slot knows its renaming by a number, and a
//! number keeps its meaning as long as a slot or a route has it.

use crate::ring::unique_mask;
use evenkeel_protocol::{KEY_LEN_MAX, SentKey, base64};
use evenkeel_schemes::generation::{PREFIX_LEN, taken_apart};
use evenkeel_schemes::name::is_reserved;

/// Which renaming; the default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RenameId(u32);

impl RenameId {
    /// Keys stay as they are.
    pub const NONE: RenameId = RenameId(0);

    /// Keys stay as they are, behind names of a ring.
    pub const NAMED: RenameId = RenameId(1);

    /// How many bytes stand before an application's key in what servers call it, where nothing else differs.
    #[inline]
    pub fn before_key(self, name: &[u8]) -> Option<usize> {
        match self {
            RenameId::NONE => Some(0),
            RenameId::NAMED if is_reserved(name) => Some(PREFIX_LEN),
            RenameId::NAMED => Some(0),
            _ => None,
        }
    }
}

/// One renaming.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rename {
    /// What applications begin the keys with.
    outside: Box<[u8]>,
    /// What servers find there instead.
    inside: Box<[u8]>,
    /// They find it behind a name of a ring's [generation](evenkeel_schemes::generation).
    is_named: bool,
}

/// A key under the name that servers know.
#[derive(Debug, Default)]
pub(crate) struct Renamed {
    stored: Vec<u8>,
    /// As it stands in a request, where that is base64.
    encoded: Vec<u8>,
}

impl Renamed {
    /// Writes the key behind what a ring's names begin with. False if it is too long to be sent.
    pub fn put_behind(&mut self, prefix: &[u8], key: &[u8], base64: bool) -> bool {
        self.stored.clear();
        self.stored.extend_from_slice(prefix);
        self.stored.extend_from_slice(key);
        self.encode(base64)
    }

    fn encode(&mut self, base64: bool) -> bool {
        self.encoded.clear();
        if base64 {
            base64::encode(&self.stored, &mut self.encoded);
        }
        let len = self.stored.len().max(self.encoded.len());
        !self.stored.is_empty() && len <= KEY_LEN_MAX
    }

    /// The key as it is stored.
    pub fn stored(&self) -> &[u8] {
        &self.stored
    }

    /// The key as it is sent.
    pub fn sent(&self, base64: bool) -> SentKey<'_> {
        let text = if base64 { &self.encoded } else { &self.stored };
        SentKey { text, base64 }
    }
}

impl Rename {
    pub fn new(outside: &[u8], inside: &[u8]) -> Self {
        Rename {
            outside: outside.into(),
            inside: inside.into(),
            is_named: false,
        }
    }

    /// The same where servers know items by names of a ring.
    pub fn named(&self) -> Self {
        Rename {
            is_named: true,
            ..self.clone()
        }
    }

    /// Whether servers know keys by names of a ring. What has a mark there is nobody's item.
    pub fn is_named(&self) -> bool {
        self.is_named
    }

    /// What the unique of the item with a name is combined with where applications see it; 0 for nothing.
    pub fn unique_mask(&self, name: &[u8]) -> u64 {
        match self.is_named {
            true => unique_mask(name),
            false => 0,
        }
    }

    /// Writes the servers' name of a key. False if it is none: empty, or too long to be sent.
    pub fn to_inside(&self, key: &[u8], base64: bool, renamed: &mut Renamed) -> bool {
        let rest = key.strip_prefix(&*self.outside).unwrap_or(key);
        renamed.stored.clear();
        renamed.stored.extend_from_slice(&self.inside);
        renamed.stored.extend_from_slice(rest);
        renamed.encode(base64)
    }

    /// Appends the application's name of a key that a server names.
    pub fn to_outside(&self, key: &[u8], out: &mut Vec<u8>) {
        let key = match self.is_named {
            true => taken_apart(key).1,
            false => key,
        };
        out.extend_from_slice(&self.outside);
        out.extend_from_slice(key.strip_prefix(&*self.inside).unwrap_or(key));
    }

    /// The same for a key as it stands in an answer, which may be base64.
    pub fn text_to_outside(&self, text: &[u8], base64: bool, out: &mut Vec<u8>) {
        if !base64 {
            return self.to_outside(text, out);
        }
        let mut decoded = [0; KEY_LEN_MAX];
        let Some(len) = base64::decode(text, &mut decoded) else {
            // Not what was asked about; the application can make no more of it than we can.
            return out.extend_from_slice(text);
        };
        let mut key = Vec::new();
        self.to_outside(&decoded[..len], &mut key);
        base64::encode(&key, out);
    }
}

/// All renamings that a route or an answer under way refers to.
#[derive(Debug)]
pub(crate) struct Renames {
    /// By number less one. A place without one is free.
    entries: Vec<Option<Rename>>,
}

impl Default for Renames {
    fn default() -> Self {
        Renames {
            entries: vec![Some(Rename::new(b"", b"").named())],
        }
    }
}

impl Renames {
    /// The renaming of that number, `None` where keys stay as they are.
    #[inline]
    pub fn get(&self, id: RenameId) -> Option<&Rename> {
        if id == RenameId::NONE {
            return None;
        }
        self.entries.get(id.0 as usize - 1)?.as_ref()
    }

    /// The number of a renaming: its own, or a free one.
    pub fn number(&mut self, rename: Rename) -> RenameId {
        if rename.outside == rename.inside {
            return match rename.is_named {
                true => RenameId::NAMED,
                false => RenameId::NONE,
            };
        }
        let same = |entry: &Option<Rename>| entry.as_ref() == Some(&rename);
        let found = self.entries.iter().position(same);
        let at = found.or_else(|| self.entries.iter().position(Option::is_none));
        let at = at.unwrap_or(self.entries.len());
        let number = u32::try_from(at + 1).expect("memory has no room for this many");
        if at == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[at] = Some(rename);
        RenameId(number)
    }

    /// Forgets every renaming whose number is not among these.
    pub fn keep(&mut self, used: &std::collections::BTreeSet<RenameId>) {
        for (number, entry) in (1u32..).zip(&mut self.entries) {
            if !used.contains(&RenameId(number)) && RenameId(number) != RenameId::NAMED {
                *entry = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_key_comes_back_under_the_name_it_was_asked_by() {
        for (outside, inside, key, stored) in [
            ("user:", "", "user:7", Some("7")),
            ("user:", "v2:", "user:7", Some("v2:7")),
            ("", "app/", "k", Some("app/k")),
            ("user:", "", "user:", None),
            ("user:", "x", "user:", Some("x")),
        ] {
            let rename = Rename::new(outside.as_bytes(), inside.as_bytes());
            let mut renamed = Renamed::default();
            for base64 in [false, true] {
                let fits = rename.to_inside(key.as_bytes(), base64, &mut renamed);
                assert_eq!(fits, stored.is_some(), "{outside} {inside} {key}");
                let Some(stored) = stored else { continue };
                assert_eq!(renamed.stored(), stored.as_bytes());
                let mut back = Vec::new();
                rename.text_to_outside(renamed.sent(base64).text, base64, &mut back);
                let mut expected = key.as_bytes().to_vec();
                if base64 {
                    expected.clear();
                    base64::encode(key.as_bytes(), &mut expected);
                }
                assert_eq!(back, expected);
            }
        }
    }

    #[test]
    fn a_key_that_grows_too_long_is_none() {
        let rename = Rename::new(b"", b"12345");
        let mut renamed = Renamed::default();
        let key = [b'k'; KEY_LEN_MAX];
        assert!(rename.to_inside(&key[..245], false, &mut renamed));
        assert!(!rename.to_inside(&key[..246], false, &mut renamed));
        // 185 bytes are 248 in base64, 186 are 248, 188 are 252.
        assert!(rename.to_inside(&key[..180], true, &mut renamed));
        assert!(!rename.to_inside(&key[..183], true, &mut renamed));
    }

    #[test]
    fn a_number_keeps_its_meaning_while_it_is_used() {
        let mut renames = Renames::default();
        let (a, b) = (Rename::new(b"a", b"b"), Rename::new(b"b", b"a"));
        let first = renames.number(a.clone());
        let second = renames.number(b.clone());
        assert_eq!(renames.number(a.clone()), first);
        assert_ne!(first, second);
        assert_eq!(renames.number(Rename::new(b"c", b"c")), RenameId::NONE);
        assert_eq!(renames.get(RenameId::NONE), None);
        let named = Rename::new(b"c", b"c").named();
        assert_eq!(renames.number(named), RenameId::NAMED);
        renames.keep(&BTreeSet::from([second]));
        assert_eq!((renames.get(first), renames.get(second)), (None, Some(&b)));
        assert!(renames.get(RenameId::NAMED).is_some_and(Rename::is_named));
        assert_eq!(renames.number(Rename::new(b"d", b"")), first, "reused");
    }
}
