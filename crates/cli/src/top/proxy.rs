//! A proxy's servers as it sees them: what waits for each, what is refused, how many requests may be under way.

use crate::watch::{Asker, HotKey, Numbers, parse_hot_key, rate, read_list};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};

const QUESTIONS: &[u8] = b"stats proxy\r\nstats servers\r\nstats hotkeys\r\n";

/// A server's line.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// As the proxy calls it; in a cluster a worker of a server.
    pub name: String,
    /// `up`, `down`, `connecting` or `idle`.
    pub state: String,
    pub requests_per_second: f64,
    /// Requests that wait in the proxy or are under way now.
    pub queued: u64,
    /// How long it takes to answer as many; nothing where none was answered.
    pub queue_ms: Option<f64>,
    /// How many may be under way at once; 0 for as many as there are.
    pub window: u64,
    /// Refused since the server cannot keep up.
    pub shed_per_second: f64,
    /// Failed connections and late answers.
    pub failures_per_second: f64,
    /// The shortest that was measured.
    pub round_trip_us: u64,
}

/// Everything of one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Since the last moment.
    pub seconds: f64,
    /// Whether the proxy has answered; if not, nothing else is told.
    pub answered: bool,
    /// Why it has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    pub requests_per_second: f64,
    pub shed_per_second: f64,
    /// Gets that were answered with an identical one.
    pub collapsed_per_second: f64,
    /// Reads of hot keys at replicas.
    pub replica_reads_per_second: f64,
    /// Reads that were shown the newest value known instead of what a replica had.
    pub kept_per_second: f64,
    /// Reads that were asked again at the home.
    pub asked_again_per_second: f64,
    /// The one with the longest queue first.
    pub servers: Vec<Line>,
    /// Those with copies, then those that get most: the hottest of each first. Their home is a pool.
    pub hot_keys: Vec<HotKey>,
}

/// What the proxy has counted: of itself, and of each server by name.
#[derive(Clone, Debug, Default)]
struct Counted {
    own: Numbers,
    servers: BTreeMap<String, Server>,
    hot_keys: Vec<HotKey>,
}

#[derive(Clone, Debug, Default)]
struct Server {
    state: String,
    counts: Numbers,
}

impl Counted {
    fn read(answers: &mut BufReader<TcpStream>) -> io::Result<Counted> {
        let mut counted = Counted::default();
        read_list(answers, |name, value| counted.own.take(name, value))?;
        read_list(answers, |name, value| counted.take_of_server(name, value))?;
        read_list(answers, |key, facts| {
            counted.hot_keys.extend(parse_hot_key(key, facts));
        })?;
        Ok(counted)
    }

    /// `NAME:count 7`. A name may have colons.
    fn take_of_server(&mut self, name: &str, value: &str) {
        let Some((server, row)) = name.rsplit_once(':') else {
            return;
        };
        let server = self.servers.entry(server.to_owned()).or_default();
        match row {
            "state" => value.clone_into(&mut server.state),
            _ => server.counts.take(row, value),
        }
    }
}

impl Figures {
    /// What happened in `seconds` between two looks.
    fn between(seconds: f64, before: &Counted, now: &Counted) -> Figures {
        // Smaller numbers are those of a new life, which started at 0.
        let rate = |before: u64, now: u64| rate(now.checked_sub(before).unwrap_or(now), seconds);
        let nothing = Server::default();
        let lines = now.servers.iter().map(|(name, server)| {
            let past = before.servers.get(name).unwrap_or(&nothing);
            let rate = |row| rate(past.counts.of(row), server.counts.of(row));
            let (queued, answered) = (server.counts.of("queued_requests"), rate("answers"));
            Line {
                name: name.clone(),
                state: server.state.clone(),
                requests_per_second: rate("requests"),
                queued,
                queue_ms: (answered > 0.0).then(|| queued as f64 / answered * 1e3),
                window: server.counts.of("window"),
                shed_per_second: rate("shed"),
                failures_per_second: rate("failures"),
                round_trip_us: server.counts.of("round_trip_us"),
            }
        });
        let mut servers: Vec<Line> = lines.collect();
        servers.sort_by_key(|line| std::cmp::Reverse(line.queued));
        let own = |name| rate(before.own.of(name), now.own.of(name));
        Figures {
            seconds,
            answered: true,
            cause: None,
            hot_keys: now.hot_keys.clone(),
            requests_per_second: servers.iter().map(|line| line.requests_per_second).sum(),
            shed_per_second: own("requests_shed"),
            collapsed_per_second: own("gets_collapsed"),
            replica_reads_per_second: own("replica_reads"),
            kept_per_second: own("reads_kept"),
            asked_again_per_second: own("reads_asked_again_older")
                + own("reads_asked_again_missing"),
            servers,
        }
    }

    /// In one line.
    pub fn head(&self) -> String {
        if !self.answered {
            let cause = self.cause.as_deref().unwrap_or("it was not asked");
            return format!("the proxy does not answer: {cause}");
        }
        format!(
            "{:.0} requests/s to {} servers, {:.0} refused/s, {:.0} collapsed/s; hot keys: {:.0} replica reads/s, {:.0} kept/s, \
             {:.0} asked again/s",
            self.requests_per_second,
            self.servers.len(),
            self.shed_per_second,
            self.collapsed_per_second,
            self.replica_reads_per_second,
            self.kept_per_second,
            self.asked_again_per_second
        )
    }
}

/// Column heads, in the order of [`Line::cells`], and widths.
pub const COLUMNS: [(&str, u16); 9] = [
    ("server", 24),
    ("state", 11),
    ("requests/s", 11),
    ("queued", 8),
    ("queue ms", 9),
    ("window", 7),
    ("refused/s", 10),
    ("failures/s", 11),
    ("round trip us", 13),
];

impl Line {
    /// As it is shown.
    pub fn cells(&self) -> [String; COLUMNS.len()] {
        let window = match self.window {
            0 => "open".into(),
            window => window.to_string(),
        };
        let queue = self.queue_ms.map_or("-".into(), |ms| format!("{ms:.1}"));
        [
            self.name.clone(),
            self.state.clone(),
            format!("{:.0}", self.requests_per_second),
            self.queued.to_string(),
            queue,
            window,
            format!("{:.0}", self.shed_per_second),
            format!("{:.0}", self.failures_per_second),
            self.round_trip_us.to_string(),
        ]
    }
}

/// Asks a proxy again and again.
#[derive(Debug)]
pub struct Observer {
    asker: Asker,
    last: Option<Counted>,
}

impl Observer {
    /// Does not connect yet.
    pub fn new(address: SocketAddr) -> Self {
        Observer {
            asker: Asker::new(address),
            last: None,
        }
    }

    /// What happened since the last look, `seconds` ago.
    pub fn look(&mut self, seconds: f64) -> Figures {
        let now = match self.asker.ask(QUESTIONS, Counted::read) {
            Ok(now) => now,
            Err(error) => {
                return Figures {
                    cause: Some(error.to_string()),
                    ..Figures::default()
                };
            }
        };
        let figures = Figures::between(seconds, self.last.as_ref().unwrap_or(&now), &now);
        self.last = Some(now);
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_between_and_the_longest_queue_comes_first() {
        let counted = |requests: u64, shed: u64, queued: u64| {
            let mut counted = Counted::default();
            counted.own.take("requests_shed", &shed.to_string());
            for (name, value) in [
                ("s1/0:state", "up".to_owned()),
                ("s1/0:address", "h:1".to_owned()),
                ("h:2:requests", requests.to_string()),
                ("h:2:answers", requests.to_string()),
                ("h:2:queued_requests", queued.to_string()),
                ("h:2:window", "5".to_owned()),
            ] {
                counted.take_of_server(name, &value);
            }
            counted
        };
        let figures = Figures::between(2.0, &counted(100, 7, 0), &counted(300, 10, 50));
        assert_eq!(figures.shed_per_second, 1.5);
        let names: Vec<_> = figures.servers.iter().map(|line| &*line.name).collect();
        assert_eq!(names, ["h:2", "s1/0"]);
        let first = &figures.servers[0];
        assert_eq!((first.requests_per_second, first.queued), (100.0, 50));
        assert_eq!((first.queue_ms, first.window), (Some(500.0), 5));
        assert_eq!(figures.servers[1].state, "up");
        assert_eq!(figures.servers[1].cells()[5], "open");
        // A new life of the proxy.
        let figures = Figures::between(2.0, &counted(300, 10, 50), &counted(20, 0, 0));
        assert_eq!(figures.servers[0].requests_per_second, 10.0);
    }
}
