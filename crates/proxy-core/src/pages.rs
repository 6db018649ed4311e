//! Pages of sessions, as far as a proxy can tell them.
//!
//! An application says which page it makes, and for whose session, by a `get` of a key that is kept free for it, or with the opaque of
//! its meta commands. Of one that does not, what it sends over a connection after a pause is the next page, and its session is where the connection
//! comes from.

use core::time::Duration;
use evenkeel_profile::{Flags, Sampling};
use evenkeel_types::{Instant, KeyHash};

/// What a connection does after such a pause is another page: longer than a page waits for its next answer, shorter than from one
/// page of a busy web server to the next.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// What is known of a connection while requests are recorded.
#[derive(Debug)]
pub(crate) struct Visit {
    /// Hash of where it comes from.
    from: u64,
    pub session: u64,
    pub page: u32,
    /// The application has said them.
    is_said: bool,
    /// Whether the page is in the sample.
    pub flags: Flags,
    /// When the application last sent something.
    last: Instant,
}

impl Visit {
    /// A connection from somewhere, whose pages are numbered from here on: connections from one place do not share pages.
    pub fn new(from: &[u8], page: u32, now: Instant, sampling: &Sampling) -> Self {
        let from = KeyHash::of(from).0;
        let mut visit = Visit {
            from,
            session: from,
            page,
            is_said: false,
            flags: Flags::default(),
            last: now,
        };
        visit.begin(sampling);
        visit
    }

    /// Hash of where it comes from.
    pub fn client(&self) -> u32 {
        self.from as u32
    }

    /// The application sends something.
    #[inline]
    pub fn go_on(&mut self, now: Instant, sampling: &Sampling) {
        if now.since(self.last) >= PAUSE && !self.is_said {
            self.page = self.page.wrapping_add(1);
            self.begin(sampling);
        }
        self.last = now;
    }

    /// The application says which page it makes from now on.
    pub fn say(&mut self, said: &PageSaid<'_>, sampling: &Sampling) {
        self.session = KeyHash::of(said.session).0;
        self.page = KeyHash::of(said.page).0 as u32;
        self.is_said = true;
        self.begin(sampling);
    }

    fn begin(&mut self, sampling: &Sampling) {
        self.flags = Flags::OF_PAGES.when(sampling.picks_page(self.session, self.page));
    }
}

/// A page that an application names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSaid<'a> {
    page: &'a [u8],
    session: &'a [u8],
}

impl<'a> PageSaid<'a> {
    /// `PAGE:SESSION`, what follows the key that is kept free and a colon.
    pub fn in_key(rest: &'a [u8]) -> Option<Self> {
        let colon = rest.iter().position(|byte| *byte == b':')?;
        Some(PageSaid {
            page: &rest[..colon],
            session: &rest[colon + 1..],
        })
    }

    /// `pPAGE.sSESSION`, the opaque of a meta command.
    pub fn in_opaque(opaque: &'a [u8]) -> Option<Self> {
        let rest = opaque.strip_prefix(b"p")?;
        let end = rest.windows(2).position(|pair| pair == b".s")?;
        Some(PageSaid {
            page: &rest[..end],
            session: &rest[end + 2..],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_said_in_two_ways() {
        let said = |page, session| Some(PageSaid { page, session });
        assert_eq!(PageSaid::in_key(b"7:ab"), said(b"7", b"ab"));
        assert_eq!(PageSaid::in_key(b"7:a:b"), said(b"7", b"a:b"));
        assert_eq!(PageSaid::in_key(b":"), said(b"", b""));
        assert_eq!(PageSaid::in_key(b"7"), None);
        assert_eq!(PageSaid::in_opaque(b"p7.sab"), said(b"7", b"ab"));
        assert_eq!(PageSaid::in_opaque(b"p1.2.s3.s4"), said(b"1.2", b"3.s4"));
        for none in [&b""[..], b"p", b"7.sab", b"p7", b"p7.", b"abc"] {
            assert_eq!(PageSaid::in_opaque(none), None);
        }
    }

    #[test]
    fn a_pause_begins_a_page_unless_the_application_says_them() {
        let sampling = Sampling::FULL;
        let at = |ms: u64| Instant::from_millis(1000 + ms);
        let mut visit = Visit::new(b"10.0.0.9", u32::MAX, at(0), &sampling);
        assert_eq!(
            (visit.page, visit.session),
            (u32::MAX, KeyHash::of(b"10.0.0.9").0)
        );
        for (ms, page) in [(49, u32::MAX), (98, u32::MAX), (148, 0), (150, 0), (400, 1)] {
            visit.go_on(at(ms), &sampling);
            assert_eq!(visit.page, page, "{ms}");
        }
        let said = PageSaid::in_key(b"7:ab").expect("a page");
        visit.say(&said, &sampling);
        visit.go_on(at(900), &sampling);
        assert_eq!(
            (visit.page, visit.session),
            (KeyHash::of(b"7").0 as u32, KeyHash::of(b"ab").0)
        );
        assert_eq!(visit.client(), KeyHash::of(b"10.0.0.9").0 as u32);
    }
}
