//! What the places of a key show, in a pool of which one rack holds each item, and what is wrong with that.
//!
//! Wrong is what no command of a proxy leaves for good, or what costs a step: items in two racks, and a note that leads to none. A lock is
//! somebody under way, so that a note which leads there may come true. Nothing anywhere is as good as an item in one rack.
//!
//! Places are asked one beside the other, and not at one instant: a key that moves meanwhile may look wrong. So a fault is what
//! [each look](KeyReport::look) has shown alike.

use core::fmt;
use serde::Serialize;

/// What stands at a place of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "stands", rename_all = "snake_case")]
pub enum Stands {
    /// Nothing.
    Nothing,
    /// An item of the application's.
    Item {
        /// Size of its value.
        value_bytes: usize,
        /// Its client flags.
        flags: u32,
        /// Seconds that it has to live; `None` without an end.
        ttl_s: Option<u64>,
    },
    /// A lock: somebody is about to store an item.
    Lock,
    /// A placeholder: somebody brings the item from a former pool.
    Placeholder,
    /// A note: the item is in another rack.
    Note {
        /// Which; `None` for one that the pool does not have.
        leads_to: Option<String>,
    },
    /// A note, with a copy behind it of what the other rack has had.
    Copy {
        /// Which; `None` for one that the pool does not have.
        leads_to: Option<String>,
        /// Size of the value that was copied.
        value_bytes: usize,
    },
    /// A mark of a format or kind that this version does not know.
    UnknownMark,
    /// It could not be asked.
    Unasked {
        /// Why.
        why: String,
    },
}

/// A place of a key, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlaceSeen {
    /// Its rack; `None` for the directory.
    pub rack: Option<String>,
    /// The server's name in statistics and errors.
    pub server: String,
    /// Where it is.
    pub address: String,
    /// What the item or note is called there; what is no UTF-8 in it is shown as U+FFFD.
    pub name: String,
    /// What stands there.
    #[serde(flatten)]
    pub stands: Stands,
}

/// What is wrong with a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    /// More than one rack has an item.
    TwoHold {
        /// Those that do.
        racks: Vec<String>,
    },
    /// A note leads to no item.
    Dangles {
        /// The rack where it stands; `None` for the directory.
        at: Option<String>,
        /// The rack to which it leads; `None` for one that the pool does not have.
        leads_to: Option<String>,
    },
}

/// How a key stands, by one look or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyReport {
    /// The key; what is no UTF-8 in it is shown as U+FFFD.
    pub key: String,
    /// How often it was looked at.
    pub looks: u32,
    /// What each look has shown to be wrong.
    pub faults: Vec<Fault>,
    /// The newest look has shown something wrong that an earlier one has not: the key moves.
    #[serde(rename = "moving")]
    pub is_moving: bool,
    /// What the newest look has shown: the racks in their order, then the directory.
    pub places: Vec<PlaceSeen>,
}

impl KeyReport {
    /// A key that was not looked at yet.
    pub fn new(key: String) -> Self {
        KeyReport {
            key,
            looks: 0,
            faults: Vec::new(),
            is_moving: false,
            places: Vec::new(),
        }
    }

    /// Takes in what one look at all its places has shown.
    pub fn look(&mut self, places: Vec<PlaceSeen>) {
        let found = faults(&places);
        match self.looks {
            0 => self.faults = found.clone(),
            _ => self.faults.retain(|fault| found.contains(fault)),
        }
        self.looks += 1;
        self.is_moving = found != self.faults;
        self.places = places;
    }

    /// The places that could not be asked: what is said of the key leaves them out.
    pub fn unasked(&self) -> impl Iterator<Item = &PlaceSeen> {
        let is_unasked = |place: &&PlaceSeen| matches!(place.stands, Stands::Unasked { .. });
        self.places.iter().filter(is_unasked)
    }
}

/// What is wrong with what stands at all places of a key.
fn faults(places: &[PlaceSeen]) -> Vec<Fault> {
    let holds = |place: &&PlaceSeen| matches!(place.stands, Stands::Item { .. });
    let holders = places.iter().filter(holds);
    let holders: Vec<String> = holders.filter_map(|place| place.rack.clone()).collect();
    let two = (holders.len() > 1).then_some(Fault::TwoHold { racks: holders });
    // With a directory nobody goes where a copy leads.
    let has_directory = places.iter().any(|place| place.rack.is_none());
    let notes = places.iter().filter_map(|place| match &place.stands {
        Stands::Note { leads_to } => Some((place, leads_to)),
        Stands::Copy { leads_to, .. } if !has_directory => Some((place, leads_to)),
        _ => None,
    });
    let dangling = notes.filter(|(_, leads_to)| dangles(leads_to.as_deref(), places));
    let dangling = dangling.map(|(place, leads_to)| Fault::Dangles {
        at: place.rack.clone(),
        leads_to: leads_to.clone(),
    });
    two.into_iter().chain(dangling).collect()
}

/// Whether a note leads to no item. It does not where somebody is about to store, nor where nobody knows what stands there.
fn dangles(leads_to: Option<&str>, places: &[PlaceSeen]) -> bool {
    let Some(rack) = leads_to else {
        return true;
    };
    let mut places = places.iter();
    let found = places.find(|place| place.rack.as_deref() == Some(rack));
    found.is_none_or(|place| {
        matches!(
            place.stands,
            Stands::Nothing | Stands::Note { .. } | Stands::Copy { .. }
        )
    })
}

impl fmt::Display for Stands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stands::Nothing => f.write_str("nothing"),
            Stands::Item {
                value_bytes,
                flags,
                ttl_s,
            } => {
                write!(f, "an item: {value_bytes} bytes, client flags {flags}, ")?;
                match ttl_s {
                    Some(seconds) => write!(f, "{seconds} s left"),
                    None => f.write_str("no end"),
                }
            }
            Stands::Lock => f.write_str("a lock: somebody is about to store"),
            Stands::Placeholder => f.write_str("a placeholder: somebody brings the item"),
            Stands::Note {
                leads_to: Some(rack),
            } => write!(f, "a note to rack {rack}"),
            Stands::Note { leads_to: None } => {
                f.write_str("a note to a rack that the pool does not have")
            }
            Stands::Copy {
                leads_to,
                value_bytes,
            } => {
                write!(f, "a copy of {value_bytes} bytes, and a note to ")?;
                match leads_to {
                    Some(rack) => write!(f, "rack {rack}"),
                    None => f.write_str("a rack that the pool does not have"),
                }
            }
            Stands::UnknownMark => f.write_str("a mark of an unknown format"),
            Stands::Unasked { why } => write!(f, "cannot be asked: {why}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::TwoHold { racks } => {
                match racks.len() {
                    2 => f.write_str("two")?,
                    count => write!(f, "{count}")?,
                }
                write!(f, " racks hold it: {}", racks.join(", "))
            }
            Fault::Dangles { at, leads_to } => {
                match at {
                    Some(rack) => write!(f, "the note in rack {rack} dangles: ")?,
                    None => f.write_str("the note in the directory dangles: ")?,
                }
                match leads_to {
                    None => f.write_str("it names a rack that the pool does not have"),
                    Some(_) if at == leads_to => f.write_str("it names its own rack"),
                    Some(rack) => write!(f, "rack {rack} does not hold the item"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands at the places of a key: in the racks `a`, `b` and so on, and last in the directory, where there is one.
    ///
    /// `i` is an item, `-` nothing, `l` a lock, `p` a placeholder, `m` a mark that is not known, `?` not asked, `1` a copy of what the first
    /// rack has had; any other letter is a note to the rack in capitals, `X` to one that the pool does not have.
    fn places(racks: &str, directory: Option<char>) -> Vec<PlaceSeen> {
        let names = ('a'..).map(|rack| Some(rack.to_string()));
        let racks = names.zip(racks.chars());
        let all = racks.chain(directory.map(|stands| (None, stands)));
        let place = |(rack, stands)| PlaceSeen {
            rack,
            server: String::new(),
            address: String::new(),
            name: String::new(),
            stands: match stands {
                'i' => Stands::Item {
                    value_bytes: 1,
                    flags: 0,
                    ttl_s: None,
                },
                '-' => Stands::Nothing,
                'l' => Stands::Lock,
                'p' => Stands::Placeholder,
                'm' => Stands::UnknownMark,
                '1' => Stands::Copy {
                    leads_to: Some("a".to_owned()),
                    value_bytes: 1,
                },
                '?' => Stands::Unasked { why: String::new() },
                'X' => Stands::Note { leads_to: None },
                rack => Stands::Note {
                    leads_to: Some(rack.to_ascii_lowercase().to_string()),
                },
            },
        };
        all.map(place).collect()
    }

    fn said(faults: &[Fault]) -> String {
        let said: Vec<_> = faults.iter().map(ToString::to_string).collect();
        said.join("; ")
    }

    #[test]
    fn what_stands_at_the_places_says_what_is_wrong() {
        let a_is_empty = "the note in rack b dangles: rack a does not hold the item";
        let directory = "the note in the directory dangles: ";
        for (racks, at_directory, expected) in [
            ("---", None, String::new()),
            ("iAA", None, String::new()),
            ("i-A", None, String::new()),
            ("--i", None, String::new()),
            ("i1A", None, String::new()),
            ("-1-", None, a_is_empty.to_owned()),
            ("-1-", Some('-'), String::new()),
            ("1--", Some('A'), format!("{directory}rack a does not hold the item")),
            ("l--", None, String::new()),
            ("p-m", None, String::new()),
            ("ii-", None, "two racks hold it: a, b".to_owned()),
            ("iii", None, "3 racks hold it: a, b, c".to_owned()),
            (
                "-Ai",
                None,
                a_is_empty.to_owned(),
            ),
            // A read follows it, and needs a step more.
            ("CAi", None, a_is_empty.to_owned()),
            ("iXi", None, "two racks hold it: a, c; the note in rack b dangles: it names a rack that the pool does not have".to_owned()),
            ("iB-", None, "the note in rack b dangles: it names its own rack".to_owned()),
            ("Z--", None, "the note in rack a dangles: rack z does not hold the item".to_owned()),
            // Somebody is on the way there, or it is not known.
            ("lAA", None, String::new()),
            ("pA-", None, String::new()),
            ("mA-", None, String::new()),
            ("?A-", None, String::new()),
            ("?Ai", None, String::new()),
            ("i--", Some('A'), String::new()),
            ("i--", Some('-'), String::new()),
            ("i--", Some('l'), String::new()),
            ("i--", Some('?'), String::new()),
            ("l--", Some('A'), String::new()),
            ("---", Some('-'), String::new()),
            ("---", Some('B'), format!("{directory}rack b does not hold the item")),
            ("i--", Some('B'), format!("{directory}rack b does not hold the item")),
            ("i--", Some('X'), format!("{directory}it names a rack that the pool does not have")),
            ("i-i", Some('A'), "two racks hold it: a, c".to_owned()),
        ] {
            let found = faults(&places(racks, at_directory));
            assert_eq!(said(&found), expected, "{racks} {at_directory:?}");
        }
    }

    #[test]
    fn a_fault_is_what_each_look_shows() {
        let looked = |looks: &[&str]| {
            let mut report = KeyReport::new("k".to_owned());
            for racks in looks {
                report.look(places(racks, None));
            }
            (said(&report.faults), report.is_moving)
        };
        let two = "two racks hold it: a, b".to_owned();
        assert_eq!(looked(&["iA-"]), (String::new(), false));
        assert_eq!(looked(&["ii-", "ii-"]), (two.clone(), false));
        assert_eq!(looked(&["ii-", "iA-"]), (String::new(), false));
        assert_eq!(looked(&["ii-", "-ii"]), (String::new(), true));
        // What came later is none, and shows that the key moves.
        assert_eq!(looked(&["ii-", "iiX"]), (two, true));
    }

    #[test]
    fn places_that_were_not_asked_are_named() {
        let mut report = KeyReport::new("k".to_owned());
        report.look(places("i?-", Some('?')));
        let unasked: Vec<_> = report.unasked().map(|place| place.rack.clone()).collect();
        assert_eq!(unasked, [Some("b".to_owned()), None]);
    }

    #[test]
    fn programs_read_what_stands_where() {
        let mut report = KeyReport::new("k".to_owned());
        report.look(places("iX", Some('A')));
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(json["places"][0]["stands"], "item");
        assert_eq!(json["places"][0]["value_bytes"], 1);
        assert_eq!(json["places"][1]["stands"], "note");
        assert_eq!(json["places"][2]["leads_to"], "a");
        assert_eq!(json["faults"][0]["fault"], "dangles");
        assert_eq!(json["faults"][0]["at"], "b");
    }
}
