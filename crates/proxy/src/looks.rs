//! When the file of the configuration is read again without anybody saying so.
//!
//! It is looked at once a second. What it says is tried once two looks in a row have found the same, for it may be
//! looked at while it is written. What was refused is tried again after a while, for the reason may be another file,
//! or a cluster that was not there yet.
//!
//! Rejected: to be told of changes by the system. What replaces a file in a container (a link to a folder that is
//! exchanged) or on a network's disk sends no event, or one about something else.

use std::time::{Duration, Instant};

/// A file that was refused is tried again after this long.
const RETRY: Duration = Duration::from_secs(30);

/// What a look has found: the fingerprint of the file, or why it cannot be read.
pub type Found = Result<String, String>;

/// What is to be done after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Keep,
    /// Another file was refused, and this is the one in force: nothing is refused any more.
    Back,
    /// To try what the file says.
    Try,
}

/// What was seen of the file.
#[derive(Debug, Default)]
pub struct Looks {
    last: Option<Found>,
    /// The file that was refused, if that is what became of the last that was tried, and when.
    refused: Option<(Found, Instant)>,
}

impl Looks {
    /// Takes in what a look has found, where the file with the fingerprint `active_config` is what the process works by.
    pub fn handle_look(&mut self, found: &Found, active_config: &str, now: Instant) -> Verdict {
        let is_settled = self.last.as_ref() == Some(found);
        self.last = Some(found.clone());
        if !is_settled {
            return Verdict::Keep;
        }
        let is_active = found.as_deref() == Ok(active_config);
        match &self.refused {
            Some((refused, at)) if refused == found => match now.duration_since(*at) >= RETRY {
                true => Verdict::Try,
                false => Verdict::Keep,
            },
            Some(_) if is_active => {
                self.refused = None;
                Verdict::Back
            }
            None if is_active => Verdict::Keep,
            _ => Verdict::Try,
        }
    }

    /// Takes in what became of a file that was tried.
    pub fn handle_end(&mut self, found: Found, is_taken: bool, now: Instant) {
        self.refused = (!is_taken).then_some((found, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        looks: Looks,
        active_config: String,
        now: Instant,
    }

    impl World {
        fn new() -> Self {
            World {
                looks: Looks::default(),
                active_config: "a".into(),
                now: Instant::now(),
            }
        }

        /// A second later the file is found so.
        fn look(&mut self, found: Result<&str, &str>) -> Verdict {
            self.now += Duration::from_secs(1);
            let found = found.map(str::to_owned).map_err(str::to_owned);
            self.looks
                .handle_look(&found, &self.active_config, self.now)
        }

        fn end(&mut self, found: Result<&str, &str>, is_taken: bool) {
            let found = found.map(str::to_owned).map_err(str::to_owned);
            if let (Ok(digest), true) = (&found, is_taken) {
                self.active_config.clone_from(digest);
            }
            self.looks.handle_end(found, is_taken, self.now);
        }
    }

    #[test]
    fn another_file_is_tried_once_it_was_found_twice() {
        let mut world = World::new();
        for (found, verdict) in [
            (Ok("a"), Verdict::Keep),
            (Ok("a"), Verdict::Keep),
            (Ok("half"), Verdict::Keep),
            (Ok("b"), Verdict::Keep),
            (Ok("b"), Verdict::Try),
        ] {
            assert_eq!(world.look(found), verdict, "{found:?}");
        }
        world.end(Ok("b"), true);
        assert_eq!(world.look(Ok("b")), Verdict::Keep);
        // An operator was faster: what two looks have found is in force already.
        assert_eq!(world.look(Ok("c")), Verdict::Keep);
        world.end(Ok("c"), true);
        assert_eq!(world.look(Ok("c")), Verdict::Keep);
    }

    #[test]
    fn what_was_refused_is_tried_again_after_a_while_and_what_takes_its_place_at_once() {
        let mut world = World::new();
        for bad in [Ok("bad"), Err("it is not there")] {
            assert_eq!(world.look(bad), Verdict::Keep);
            assert_eq!(world.look(bad), Verdict::Try);
            world.end(bad, false);
            for _ in 1..RETRY.as_secs() {
                assert_eq!(world.look(bad), Verdict::Keep);
            }
            assert_eq!(world.look(bad), Verdict::Try);
            world.end(bad, false);
        }
        assert_eq!(world.look(Ok("b")), Verdict::Keep);
        assert_eq!(world.look(Ok("b")), Verdict::Try);
    }

    #[test]
    fn the_file_active_ends_a_refusal_unless_it_is_what_was_refused() {
        let mut world = World::new();
        world.end(Ok("bad"), false);
        assert_eq!(world.look(Ok("a")), Verdict::Keep);
        assert_eq!(world.look(Ok("a")), Verdict::Back);
        assert_eq!(world.look(Ok("a")), Verdict::Keep);
        // Another file that it names could not be used when an operator wanted it to be read again.
        world.end(Ok("a"), false);
        assert_eq!(world.look(Ok("a")), Verdict::Keep);
        world.now += RETRY;
        assert_eq!(world.look(Ok("a")), Verdict::Try);
    }
}
