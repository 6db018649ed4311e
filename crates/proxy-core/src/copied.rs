//! What is stored of an item as its copy.

use crate::bundles::Keeping;
use crate::composed::parse_own;
use crate::operations::Fetched;
use crate::warm::{fetched, is_stale};
use evenkeel_protocol::{MetaReply, Request};
use evenkeel_schemes::copies::{Header, lifetime};
use evenkeel_schemes::mark::is_mark;
use evenkeel_types::UnixSeconds;
use evenkeel_types::limits::EXPTIME_RELATIVE_MAX_S;

/// The copy of an item that its home has answered; `None` for what is not copied: it is too long, ends soon, is stale, or looks like a mark.
/// `chance` is any number.
pub(crate) fn copy_of(
    reply: &MetaReply<'_>,
    keeping: &Keeping,
    unix: UnixSeconds,
    chance: u32,
) -> Option<Fetched> {
    let unique = reply.flags.unsigned(b'c')?;
    let item = fetched(reply);
    if is_stale(reply) || is_mark(item.flags) || item.value.len() > keeping.value_max {
        return None;
    }
    let lives = lifetime(item.ttl, keeping.ttl, chance)?;
    let header = Header {
        unique,
        ends: unix.saturating_add(lives),
    };
    Some(Fetched {
        ttl: Some(lives.into()),
        value: [&header.to_bytes()[..], &item.value].concat(),
        ..item
    })
}

/// Whether a request only sets when its item ends, and later than any copy that there is does: then these may stay.
pub(crate) fn outlives_copies(request: &[u8], keeping: &Keeping, unix: UnixSeconds) -> bool {
    let exptime = match parse_own(request) {
        Some(Request::Touch { exptime, .. }) => Some(exptime),
        Some(Request::MetaGet(meta)) if !b"NER".iter().any(|it| meta.flags.has(*it)) => {
            meta.flags.exptime(b'T')
        }
        _ => None,
    };
    let copies_end = i64::from(keeping.ttl);
    exptime.is_some_and(|exptime| match exptime {
        0 => true,
        ..=EXPTIME_RELATIVE_MAX_S => exptime > copies_end,
        _ => exptime > i64::from(unix) + copies_end,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_protocol::{Limits, Reply, ReplyOutcome, parse_reply};

    const KEEPING: Keeping = Keeping {
        ttl: 60,
        value_max: 5,
        fill_share: 1.0,
        strict: true,
    };

    fn copy(said: &str) -> Option<Fetched> {
        match parse_reply(said.as_bytes(), &Limits::default()) {
            ReplyOutcome::Reply {
                reply: Reply::Meta(meta),
                ..
            } => copy_of(&meta, &KEEPING, 1_000, 0),
            _ => panic!("{said}"),
        }
    }

    #[test]
    fn a_copy_has_the_items_unique_and_its_own_end_before_the_value() {
        let copy = copy("VA 5 f7 t-1 c258\r\nvalue\r\n").expect("a copy");
        assert_eq!((copy.flags, copy.ttl), (7, Some(60)));
        let (header, value) = Header::parse(&copy.value).expect("a header");
        assert_eq!(
            (header.unique, header.ends, value),
            (258, 1_060, &b"value"[..])
        );
    }

    #[test]
    fn what_is_long_short_lived_stale_or_a_mark_is_not_copied() {
        for (said, is_copied) in [
            ("VA 0 f0 t-1 c1\r\n\r\n", true),
            ("VA 6 f0 t-1 c1\r\nvalues\r\n", false),
            ("VA 1 f0 t2 c1\r\nv\r\n", false),
            ("VA 1 f0 t3 c1\r\nv\r\n", true),
            ("VA 1 f0 t-1 c1 W\r\nv\r\n", false),
            ("VA 1 f0 t-1 c1 X Z\r\nv\r\n", false),
            ("VA 1 f1163283276 t-1 c1\r\nv\r\n", false),
            ("VA 1 f0 t-1\r\nv\r\n", false),
        ] {
            assert_eq!(copy(said).is_some(), is_copied, "{said}");
        }
    }

    #[test]
    fn what_gives_an_item_a_longer_life_than_copies_have_leaves_them() {
        for (request, outlives) in [
            ("touch k 0", true),
            ("touch k 61", true),
            ("touch k 60", false),
            ("touch k -1", false),
            // A Unix time.
            ("touch k 3000061", true),
            ("touch k 3000060", false),
            ("mg k v T100", true),
            ("mg k v T9", false),
            ("mg k v T100 N5", false),
            ("mg k v N100", false),
            ("mg k v", false),
            ("incr k 1", false),
            ("md k", false),
            ("md k I T100", false),
        ] {
            let line = format!("{request}\r\n");
            let found = outlives_copies(line.as_bytes(), &KEEPING, 3_000_000);
            assert_eq!(found, outlives, "{request}");
        }
    }
}
