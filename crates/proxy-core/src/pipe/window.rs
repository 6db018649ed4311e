//! How many requests may be under way to a server at once.
//!
//! What is sent waits in the server's sockets, where nobody can do anything about it: it cannot be asked
//! elsewhere when the server dies, not be joined by others who want the same, and the answers tell what was
//! true long after they were asked for. For leases that is fatal: a lease counts from when its read was
//! sent, and a server that is a second behind grants leases of a second that are over when they arrive. So
//! the very keys whose load it should give away would keep it behind for ever.
//!
//! So a server that lets requests wait gets no more of them at once than it answers in about
//! [`WAIT_MAX`] or a quarter of its lease; the others wait here. One request at a time is watched. If it took
//! longer, as many are let through as would have been answered in time, by what was ahead of it (Little's
//! law); if it took half as long or less and others had to wait here, twice as many; in between one more.
//! What the way to the server and back takes without any waiting does not count. The kernel measures that, but only to the first relay on the
//! way, such as a sidecar or a tunnel to another data centre. So a request that is alone under way tells it, too: nothing of
//! ours is before it. The shortest of such requests lately counts, since it may have been others who kept the server busy. Whether it was the
//! way or the server shows when more are under way at once.
//!
//! Of a server that nothing is known of yet, [`WINDOW_START`] may be under way, and twice as many each time that they were too few.
//!
//! As long as no server lets requests wait, this costs a comparison for each request, each write and each answer.

use crate::limits::BACKEND_REQUESTS_MAX;
use crate::stats::distance::Distance;
use core::time::Duration;
use evenkeel_types::Instant;

/// How long a request may wait at a server, besides the way to it and back.
pub const WAIT_MAX: Duration = Duration::from_millis(5);

/// What part of a lease it may wait at most.
pub const WAIT_DIVISOR_OF_LEASE: u32 = 4;

/// This many may always be under way. One is enough where a server takes longer for it than the way to it, and where many proxies
/// have this many each before a slow server.
pub const WINDOW_MIN: usize = 1;

/// This many are let through before anything is known of the server. What its sockets hold cannot be taken back, and one of a millisecond
/// a request would be a second behind a thousand of them.
const WINDOW_START: usize = 32;

/// This many more are let through where requests wait, but not too long. Proxies before the same server take
/// parts of what they have but get the same added, so that in time they have the same (Chiu and Jain,
/// "Analysis of the increase and decrease algorithms for congestion avoidance", 1989).
const WINDOW_STEP: usize = 1;

/// The request that is watched.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// Where it ends in the stream of bytes.
    end: u64,
    written: Instant,
    /// How many were under way when it was written, itself included.
    under_way: usize,
}

/// The window of one connection.
#[derive(Debug)]
pub(crate) struct Window {
    size: usize,
    watched: Option<Watched>,
    /// Whether others had to wait since it is watched.
    was_full: bool,
    /// Whether any had to wait here since it was as large as can be.
    limits: bool,
    /// Whether the size tells how many the server answers in time.
    is_found: bool,
    /// What requests took that were alone under way.
    alone: Distance,
}

impl Default for Window {
    fn default() -> Self {
        Window {
            size: WINDOW_START,
            watched: None,
            was_full: false,
            limits: false,
            is_found: false,
            alone: Distance::default(),
        }
    }
}

impl Window {
    /// Most requests that may be under way.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether it keeps nothing back.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.limits
    }

    /// This many requests are queued or under way.
    #[inline]
    pub fn holds(&mut self, requests: usize) {
        if requests > self.size {
            self.was_full = true;
            self.limits = true;
        }
    }

    /// About how long it takes until so many that wait here are sent, if it is known how many the server answers: a window full of them
    /// takes the way and [`WAIT_MAX`]. At the least, for a server that takes longer for one. `measured` is as in [`Window::answered`].
    pub fn time_of(&self, now: Instant, waiting: usize, measured: Option<u64>) -> Option<Duration> {
        let windows = waiting as f64 / self.size as f64;
        let way = self.way(now, measured);
        self.is_found.then(|| (way + WAIT_MAX).mul_f64(windows))
    }

    /// What the way to the server and back takes, of which the kernel has measured this many microseconds. What a request takes besides that is the server's
    /// work as long as it is no more than a request may wait.
    fn way(&self, now: Instant, measured: Option<u64>) -> Duration {
        let measured = Duration::from_micros(measured.unwrap_or(0));
        let alone = self.alone.us(now).map(Duration::from_micros);
        alone
            .filter(|alone| *alone > measured + WAIT_MAX)
            .unwrap_or(measured)
    }

    /// All up to `end` is written, and of `requests` unanswered ones as many as may be.
    #[inline]
    pub fn wrote(&mut self, now: Instant, end: u64, requests: usize) {
        self.holds(requests);
        if self.watched.is_none() {
            self.watched = Some(Watched {
                end,
                written: now,
                under_way: requests.min(self.size),
            });
        }
    }

    /// A request that ends there is answered. `measured` is the round trip on the connection by the kernel, in microseconds, `lease`
    /// the server's lease, zero if it has none. Whether the window was made smaller.
    #[inline]
    pub fn answered(
        &mut self,
        now: Instant,
        end: u64,
        measured: Option<u64>,
        lease: Duration,
    ) -> bool {
        let Some(watched) = self.watched.filter(|watched| end >= watched.end) else {
            return false;
        };
        self.watched = None;
        // The first that is alone may be slow because the server is: from one at once the window grows by what the next ones take.
        let way = self.way(now, measured);
        if watched.under_way == 1 {
            self.alone.see(watched.written, now);
        }
        self.judge(now.since(watched.written), watched.under_way, way, lease)
    }

    fn judge(&mut self, took: Duration, under_way: usize, way: Duration, lease: Duration) -> bool {
        let wait_max = if lease.is_zero() {
            WAIT_MAX
        } else {
            WAIT_MAX.min(lease / WAIT_DIVISOR_OF_LEASE)
        };
        let waited = took.saturating_sub(way);
        let before = self.size;
        if waited > wait_max {
            let part = (way + wait_max).as_secs_f64() / took.as_secs_f64();
            let size = (under_way as f64 * part) as usize;
            self.size = size.clamp(WINDOW_MIN, BACKEND_REQUESTS_MAX);
            (self.limits, self.is_found) = (true, true);
        } else if self.was_full {
            let is_small = waited <= wait_max / 2;
            let more = if is_small { self.size } else { WINDOW_STEP };
            self.is_found |= !is_small;
            self.size = (self.size + more).min(BACKEND_REQUESTS_MAX);
            self.limits = self.size < BACKEND_REQUESTS_MAX;
        }
        self.was_full = false;
        self.size < before
    }

    /// Another connection begins. What the server can do is not forgotten.
    pub fn restart(&mut self) {
        self.watched = None;
        self.was_full = false;
        self.alone = Distance::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const SECOND: Duration = Duration::from_secs(1);

    /// A server that takes this long for each request, and one that asks it for more than that.
    struct Line {
        window: Window,
        now: Instant,
        service: Duration,
        way: Duration,
        /// Whether the kernel sees all of the way.
        is_measured: bool,
        /// Written and unanswered: when.
        under_way: VecDeque<Instant>,
        written: u64,
        answered: u64,
        /// Until when the server is at work.
        busy_until: Instant,
        /// How often the window was made smaller.
        shrunk: u32,
    }

    impl Line {
        fn new(service: Duration, way: Duration) -> Self {
            Line {
                window: Window::default(),
                now: Instant(1),
                service,
                way,
                is_measured: true,
                under_way: VecDeque::new(),
                written: 0,
                answered: 0,
                busy_until: Instant(0),
                shrunk: 0,
            }
        }

        /// With this many waiting, lets as many go as may, and awaits an answer. How long that request took.
        fn step(&mut self, waiting: usize) -> Duration {
            let before = self.written;
            while self.under_way.len() < self.window.size().min(waiting) {
                self.under_way.push_back(self.now);
                self.written += 1;
            }
            if self.written > before {
                self.window.wrote(self.now, self.written, waiting);
            }
            let sent = self.under_way.pop_front().expect("one may always go");
            let arrives = sent + self.way / 2;
            self.busy_until = self.busy_until.max(arrives) + self.service;
            self.now = self.now.max(self.busy_until + self.way / 2);
            self.answered += 1;
            let way = self.way.as_micros() as u64;
            let measured = Some(if self.is_measured { way } else { 50 });
            let shrunk = self
                .window
                .answered(self.now, self.answered, measured, SECOND);
            self.shrunk += u32::from(shrunk);
            self.now.since(sent)
        }
    }

    #[test]
    fn a_server_that_keeps_up_gets_what_there_is_soon() {
        for way in [Duration::ZERO, Duration::from_millis(150)] {
            let mut line = Line::new(Duration::from_micros(10), way);
            line.step(WINDOW_START);
            assert!(line.window.is_open(), "as long as nothing waits here");
            for _ in 0..2_000 {
                line.step(400);
            }
            // Two and a half milliseconds of work, besides what is on its way.
            assert!(line.window.size() >= 250, "{way:?}: {:?}", line.window);
            assert_eq!(line.shrunk, 0);
        }
    }

    #[test]
    fn a_server_that_is_behind_gets_what_it_answers_in_time() {
        let millisecond = Duration::from_millis(1);
        for way in [Duration::ZERO, Duration::from_millis(150)] {
            let mut line = Line::new(millisecond, way);
            for _ in 0..6000 {
                line.step(2000);
            }
            let expected = 5 + way.as_millis() as usize;
            let size = line.window.size();
            assert!(
                (expected * 2 / 3..=expected * 4 / 3).contains(&size),
                "{size} with {way:?}"
            );
            let longest = (0..1000).map(|_| line.step(2000)).max();
            assert!(longest < Some(2 * (WAIT_MAX + way)), "{longest:?}");
            // It can do more.
            line.service = Duration::from_micros(10);
            for _ in 0..6000 {
                line.step(2000);
            }
            assert!(line.window.size() >= 300, "{:?}", line.window);
        }
    }

    #[test]
    fn a_server_behind_a_relay_gets_what_there_is_once_a_request_was_alone() {
        let mut line = Line::new(Duration::from_micros(10), Duration::from_millis(40));
        line.is_measured = false;
        (0..3).for_each(|_| _ = line.step(1));
        // The way is looked for anew now and then: for four windows of the way the window is small.
        let mut begun = line.now;
        let mut slow = 0;
        for _ in 0..2_000_000 {
            line.step(400);
            if line.window.size() < 100 {
                slow += line.now.since(begun).as_millis();
            }
            begun = line.now;
        }
        let all = Duration::from_nanos(line.now.0).as_millis();
        assert!(all > 200_000 && slow < all / 20, "{slow} of {all} ms");
    }

    #[test]
    fn what_others_had_a_server_do_is_not_taken_for_the_way_for_long() {
        let mut line = Line::new(Duration::from_millis(1), Duration::ZERO);
        line.is_measured = false;
        // A request that is alone behind much that others asked.
        line.busy_until = line.now + Duration::from_millis(80);
        line.step(1);
        let until = line.now + Duration::from_secs(70);
        while line.now < until {
            line.step(2000);
        }
        let longest = (0..1000).map(|_| line.step(2000)).max();
        assert!(longest < Some(3 * WAIT_MAX), "{longest:?}");
    }

    #[test]
    fn a_server_that_stands_still_and_goes_on_is_not_kept_small() {
        let mut line = Line::new(Duration::from_micros(10), Duration::ZERO);
        (0..100).for_each(|_| _ = line.step(10));
        line.busy_until = line.now + SECOND;
        (0..20).for_each(|_| _ = line.step(10));
        assert!(line.shrunk > 0);
        (0..1000).for_each(|_| _ = line.step(100));
        assert!(line.window.size() >= 100, "{:?}", line.window);
    }

    #[test]
    fn short_leases_allow_short_waits() {
        let mut window = Window::default();
        window.wrote(Instant(0), 10, 100);
        let later = Instant(0) + Duration::from_millis(20);
        assert!(window.answered(later, 10, None, Duration::from_millis(40)));
        assert_eq!(window.size(), WINDOW_START / 4);
        window.wrote(later, 20, 8);
        let later = later + SECOND;
        assert!(window.answered(later, 20, None, SECOND));
        assert_eq!(window.size(), WINDOW_MIN, "but never fewer than that");
    }

    #[test]
    fn only_what_ends_behind_the_watched_request_tells_of_it() {
        let mut window = Window::default();
        window.wrote(Instant(0), 10, 1);
        let later = Instant(0) + SECOND;
        assert!(!window.answered(later, 9, None, SECOND));
        window.restart();
        assert!(!window.answered(later, 10, None, SECOND), "forgotten");
        assert!(window.is_open());
    }
}
