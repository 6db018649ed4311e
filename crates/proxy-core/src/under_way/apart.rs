//! A line of gets, taken apart into questions about one key each.

use crate::composed::parse_own;
use crate::pipe::in_flight::{Ask, Progress, Question, Tag};
use evenkeel_protocol::compose::request as ask;
use evenkeel_protocol::{Request, SentKey};
use evenkeel_types::KeyHash;

/// The questions of a line of which nothing is answered, in meta commands, so that each goes the way of its key from now on. What is no
/// such line stays as it is.
pub(crate) fn key_by_key(question: Question) -> Vec<Question> {
    let tag = question.tag;
    let keys = match parse_own(&question.bytes) {
        Some(Request::Get { keys, .. }) if tag.ask == Ask::Values => keys,
        _ => return vec![question],
    };
    let slots = match &question.progress {
        Progress::Group(group) => group.slots_left().collect(),
        _ => vec![tag.slot],
    };
    let of_key = |(key, slot)| {
        let mut bytes = Vec::new();
        let line = ask::meta_get(&mut bytes, SentKey::plain(key));
        line.flag(b'v').flag(b'f').flag(b'c').end();
        Question {
            tag: Tag {
                slot,
                ask: Ask::Single,
                hash: KeyHash(0),
                shared_by: None,
                ..tag
            },
            bytes,
            progress: Progress::Nothing,
        }
    };
    keys.iter().zip(slots).map(of_key).collect()
}
