//! Which servers are out of use, as operators are told: once for each server, though each worker has a connection of its own.

use evenkeel_proxy_core::{Cause, ServerState, StateChange};
use evenkeel_types::Instant;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tracing::{info, warn};

/// A server that stays out of use is told of again after this long.
const REMIND_AFTER: Duration = Duration::from_secs(60);

/// The servers that are out of use. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Outages(Arc<Mutex<Board>>);

/// A pool and a server of it.
type Server = (Arc<str>, String);

#[derive(Debug, Default)]
struct Board(BTreeMap<Server, Outage>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Outage {
    /// Why, as the first worker saw it.
    cause: Cause,
    /// Workers for whom it is out of use.
    workers: usize,
    /// Requests that those did not ask for whom it is in use again.
    not_asked: u64,
    since: Instant,
    told: Instant,
}

/// What is news.
#[derive(Clone, Debug, PartialEq, Eq)]
enum News {
    Down,
    StillDown,
    Up,
    Left,
}

impl Outages {
    /// Takes in what a worker has seen, and says what is news.
    pub fn handle(&self, now: Instant, state: &ServerState) {
        let server = (Arc::clone(&state.pool), state.server.clone());
        let news = self.with(|board| board.take(now, &server, &state.change));
        if let Some((news, outage)) = news {
            say(now, news, &server, &outage);
        }
    }

    /// Says which have been out of use for long, now and then.
    pub fn remind(&self, now: Instant) {
        for (server, outage) in self.with(|board| board.due(now)) {
            say(now, News::StillDown, &server, &outage);
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Board) -> T) -> T {
        // Counts are sound between any two statements.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Board {
    fn take(
        &mut self,
        now: Instant,
        server: &Server,
        change: &StateChange,
    ) -> Option<(News, Outage)> {
        if let StateChange::Down { cause } = change {
            let outage = self.0.entry(server.clone()).or_insert(Outage {
                cause: cause.clone(),
                workers: 0,
                not_asked: 0,
                since: now,
                told: now,
            });
            outage.workers += 1;
            return (outage.workers == 1).then(|| (News::Down, outage.clone()));
        }
        let outage = self.0.get_mut(server)?;
        outage.workers -= 1;
        let mut news = News::Left;
        if let StateChange::Up { not_asked } = change {
            outage.not_asked += not_asked;
            news = News::Up;
        }
        match outage.workers {
            0 => self.0.remove(server).map(|outage| (news, outage)),
            _ => None,
        }
    }

    fn due(&mut self, now: Instant) -> Vec<(Server, Outage)> {
        let outages = self.0.iter_mut();
        let due = outages.filter(|(_, outage)| now.since(outage.told) >= REMIND_AFTER);
        due.map(|(server, outage)| {
            outage.told = now;
            (server.clone(), outage.clone())
        })
        .collect()
    }
}

fn say(now: Instant, news: News, (pool, server): &Server, outage: &Outage) {
    let (cause, not_asked) = (&outage.cause, outage.not_asked);
    let down_s = now.since(outage.since).as_millis() as f64 / 1000.0;
    match news {
        News::Down => warn!(%pool, server, %cause, "server is down"),
        News::StillDown => warn!(%pool, server, %cause, down_s, "server is still down"),
        News::Up => info!(%pool, server, down_s, not_asked, "server is up"),
        News::Left => {
            info!(%pool, server, down_s, "server was down, and is not in its pool any more")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOWN: StateChange = StateChange::Down {
        cause: Cause::Refused,
    };

    fn up(not_asked: u64) -> StateChange {
        StateChange::Up { not_asked }
    }

    #[test]
    fn what_all_workers_see_is_told_once() {
        let mut board = Board::default();
        let server = ("main".into(), "a:1".to_owned());
        let at = Instant::from_millis;
        let mut take = |ms: u64, change: &StateChange| board.take(at(ms), &server, change);
        let (news, outage) = take(0, &DOWN).unwrap();
        assert_eq!((news, outage.workers), (News::Down, 1));
        assert_eq!(take(5, &DOWN), None);
        assert_eq!(take(10, &up(3)), None, "for the other it is not");
        let (news, outage) = take(20, &up(4)).unwrap();
        assert_eq!((news, outage.not_asked), (News::Up, 7));
        assert_eq!(outage.since, at(0));
        assert_eq!(take(30, &StateChange::Left), None, "nobody was told");
        assert!(take(40, &DOWN).is_some());
        assert_eq!(take(50, &StateChange::Left).unwrap().0, News::Left);
    }

    #[test]
    fn one_that_stays_down_is_told_of_each_minute() {
        let mut board = Board::default();
        let server = ("main".into(), "a:1".to_owned());
        let at = Instant::from_millis;
        board.take(at(0), &server, &DOWN);
        let told: Vec<u64> = (0..=180)
            .filter(|second| !board.due(at(second * 1000)).is_empty())
            .collect();
        assert_eq!(told, [60, 120, 180]);
    }
}
