//! Addresses that were found, for how long they are good, and who waits for one.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Names that are known at a time: those of two maps of the most servers. The oldest makes room for a new one.
const NAMES_MAX: usize = 8192;

/// An address is good for this long at most, even if its record says longer: a server that has moved is found again soon, and one
/// question in ten seconds is nothing to a name server.
pub(super) const GOOD_MAX: Duration = Duration::from_secs(10);

/// After a question that brought nothing, the name is not asked for again for this long.
pub(super) const FAILED_FOR: Duration = Duration::from_secs(1);

/// What is done with an address.
pub(super) type Then = Box<dyn FnOnce(Option<IpAddr>) + Send>;

/// What became of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// This is the answer.
    Known(Option<IpAddr>),
    /// Somebody asks already, and tells.
    IsAsked,
    /// Anyone who looked it up has to have it asked.
    MustBeAsked,
}

/// Those who are told an address.
#[must_use]
pub(super) struct Waiters {
    address: Option<IpAddr>,
    waiting: Vec<Then>,
}

impl Waiters {
    /// Tells them; not under a lock.
    pub(super) fn tell(self) {
        for then in self.waiting {
            then(self.address);
        }
    }
}

struct Entry {
    /// The last address that was found.
    last_good: Option<IpAddr>,
    /// Until then that is the answer, also if it is none.
    good_until: Instant,
    is_asked: bool,
    waiting: Vec<Then>,
}

/// All names that are known or asked for.
#[derive(Default)]
pub(super) struct NameCache {
    names: BTreeMap<String, Entry>,
}

impl fmt::Debug for NameCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameCache")
            .field("names", &self.names.len())
            .finish()
    }
}

impl NameCache {
    /// Looks a name up. `then` comes back where the answer is known.
    pub(super) fn look_up(
        &mut self,
        now: Instant,
        host: &str,
        then: Then,
    ) -> (Lookup, Option<Then>) {
        if !self.names.contains_key(host) {
            if self.names.len() >= NAMES_MAX && !self.make_room() {
                return (Lookup::Known(None), Some(then));
            }
            let entry = Entry {
                last_good: None,
                good_until: now,
                is_asked: false,
                waiting: Vec::new(),
            };
            self.names.insert(host.to_owned(), entry);
        }
        let entry = self
            .names
            .get_mut(host)
            .expect("it is there, or was put there");
        if now < entry.good_until {
            return (Lookup::Known(entry.last_good), Some(then));
        }
        entry.waiting.push(then);
        match std::mem::replace(&mut entry.is_asked, true) {
            true => (Lookup::IsAsked, None),
            false => (Lookup::MustBeAsked, None),
        }
    }

    /// The answer takes long: until then the last good address is the answer, if there is one.
    pub(super) fn use_last_good(&mut self, host: &str, until: Instant) -> Waiters {
        match self.names.get_mut(host) {
            Some(entry) if entry.last_good.is_some() => {
                entry.good_until = until;
                entry.tell()
            }
            _ => Waiters {
                address: None,
                waiting: Vec::new(),
            },
        }
    }

    /// A question has ended: with an address and until when it is good, or without.
    pub(super) fn note(
        &mut self,
        now: Instant,
        host: &str,
        found: Option<(IpAddr, Instant)>,
    ) -> Waiters {
        let Some(entry) = self.names.get_mut(host) else {
            return Waiters {
                address: None,
                waiting: Vec::new(),
            };
        };
        entry.is_asked = false;
        match found {
            Some((address, valid_until)) => {
                entry.last_good = Some(address);
                entry.good_until = valid_until.min(now + GOOD_MAX);
            }
            None => entry.good_until = now + FAILED_FOR,
        }
        entry.tell()
    }

    /// Forgets the name that has been out of date for longest. False when all are being asked for.
    fn make_room(&mut self) -> bool {
        let idle = self.names.iter().filter(|(_, entry)| !entry.is_asked);
        let oldest = idle.min_by_key(|(_, entry)| entry.good_until);
        let Some(oldest) = oldest.map(|(name, _)| name.clone()) else {
            return false;
        };
        self.names.remove(&oldest).is_some()
    }
}

impl Entry {
    fn tell(&mut self) -> Waiters {
        Waiters {
            address: self.last_good,
            waiting: std::mem::take(&mut self.waiting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    const HOST: &str = "a.test";

    #[derive(Clone, Default)]
    struct Heard(Arc<Mutex<Vec<Option<IpAddr>>>>);

    impl Heard {
        fn then(&self) -> Then {
            let heard = self.0.clone();
            Box::new(move |address| heard.lock().expect("no panic").push(address))
        }

        fn take(&self) -> Vec<Option<IpAddr>> {
            std::mem::take(&mut self.0.lock().expect("no panic"))
        }
    }

    fn ip(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    fn lookup(cache: &mut NameCache, now: Instant, heard: &Heard) -> Lookup {
        cache.look_up(now, HOST, heard.then()).0
    }

    #[test]
    fn one_question_serves_all_who_wait_and_later_ones_for_a_while() {
        let (mut cache, heard, now) = (NameCache::default(), Heard::default(), Instant::now());
        assert_eq!(lookup(&mut cache, now, &heard), Lookup::MustBeAsked);
        assert_eq!(lookup(&mut cache, now, &heard), Lookup::IsAsked);
        let hour = now + Duration::from_secs(3600);
        cache.note(now, HOST, Some((ip(1), hour))).tell();
        assert_eq!(heard.take(), [Some(ip(1)); 2]);
        let known = Lookup::Known(Some(ip(1)));
        let last = now + GOOD_MAX - Duration::from_nanos(1);
        assert_eq!(lookup(&mut cache, last, &heard), known);
        let over = lookup(&mut cache, now + GOOD_MAX, &heard);
        assert_eq!(over, Lookup::MustBeAsked, "a long record is cut short");
    }

    #[test]
    fn a_silent_name_server_leaves_the_last_good_address() {
        let (mut cache, heard, now) = (NameCache::default(), Heard::default(), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        lookup(&mut cache, now, &heard);
        cache.note(now, HOST, Some((ip(1), later(1)))).tell();
        heard.take();
        assert_eq!(
            lookup(&mut cache, later(2), &heard),
            Lookup::MustBeAsked,
            "short records are heeded"
        );
        cache.use_last_good(HOST, later(12)).tell();
        assert_eq!(heard.take(), [Some(ip(1))]);
        // Anyone who comes while the question is under way does not wait either.
        let known = Lookup::Known(Some(ip(1)));
        assert_eq!(lookup(&mut cache, later(3), &heard), known);
        cache.note(later(12), HOST, None).tell();
        assert_eq!(lookup(&mut cache, later(12), &heard), known);
        let again = lookup(&mut cache, later(12) + FAILED_FOR, &heard);
        assert_eq!(again, Lookup::MustBeAsked);
        cache.note(later(14), HOST, Some((ip(2), later(20)))).tell();
        assert_eq!(heard.take(), [Some(ip(2))]);
    }

    #[test]
    fn a_name_that_nobody_knows_is_not_asked_for_all_the_time() {
        let (mut cache, heard, now) = (NameCache::default(), Heard::default(), Instant::now());
        lookup(&mut cache, now, &heard);
        cache.use_last_good(HOST, now + GOOD_MAX).tell();
        assert_eq!(heard.take(), [], "there is none to resolve for");
        cache.note(now, HOST, None).tell();
        assert_eq!(heard.take(), [None]);
        let known = Lookup::Known(None);
        assert_eq!(lookup(&mut cache, now, &heard), known);
        let again = lookup(&mut cache, now + FAILED_FOR, &heard);
        assert_eq!(again, Lookup::MustBeAsked);
    }

    #[test]
    fn names_are_bounded_and_those_being_asked_for_stay() {
        let (mut cache, heard, now) = (NameCache::default(), Heard::default(), Instant::now());
        for number in 0..NAMES_MAX {
            cache.look_up(now, &format!("{number}.test"), heard.then());
        }
        assert_eq!(lookup(&mut cache, now, &heard), Lookup::Known(None));
        cache.note(now, "7.test", None).tell();
        assert_eq!(lookup(&mut cache, now, &heard), Lookup::MustBeAsked);
        assert_eq!(cache.names.len(), NAMES_MAX);
        assert!(!cache.names.contains_key("7.test"));
    }
}
