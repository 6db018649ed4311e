//! What is measured: a sample of a moment, and samples added up over a phase.

use crate::up::cluster::Cluster;
use crate::watch::{HotKey, ServerStats, Watch, rate};
use evenkeel_bench::{LiveSample, LoadHandle};

/// What happened in a span of time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What the load's clients saw.
    pub load: LiveSample,
    /// Requests that each server answered, its replica reads included; in the order of the servers.
    pub server_requests: Vec<u64>,
    /// Keys with replicas at the end of the span, hottest first.
    pub hot_keys: Vec<HotKey>,
}

impl Sample {
    /// Adds the span that follows.
    pub fn add(&mut self, next: &Sample) {
        add_load(&mut self.load, &next.load);
        for (sum, more) in self.server_requests.iter_mut().zip(&next.server_requests) {
            *sum += more;
        }
        self.hot_keys.clone_from(&next.hot_keys);
    }

    /// Requests a second that the clients had answered, and not by an error.
    pub fn requests_per_second(&self) -> f64 {
        let counters = &self.load.counters;
        let told = counters.errors - counters.unanswered;
        rate(counters.requests.saturating_sub(told), self.load.seconds)
    }

    /// Requests a second of one server.
    pub fn server_rate(&self, server: usize) -> f64 {
        rate(self.server_requests[server], self.load.seconds)
    }

    /// The most loaded server's load by the mean of all; 1 is perfect balance, and is said of
    /// servers without any load.
    pub fn max_over_mean(&self) -> f64 {
        max_over_mean(&self.server_requests)
    }

    /// Copies of hot keys besides the homes'.
    pub fn replicas(&self) -> usize {
        self.hot_keys.iter().map(|key| key.replicas).sum()
    }
}

fn add_load(sum: &mut LiveSample, next: &LiveSample) {
    sum.seconds += next.seconds;
    sum.add(next);
}

fn max_over_mean(loads: &[u64]) -> f64 {
    let sum: u64 = loads.iter().sum();
    let max = loads.iter().copied().max().unwrap_or(0);
    if sum == 0 {
        return 1.0;
    }
    max as f64 * loads.len() as f64 / sum as f64
}

/// Takes samples of a running cluster under load.
#[derive(Debug)]
pub struct Probe {
    watches: Vec<Watch>,
    /// What the load has said since the last sample.
    heard: Option<LiveSample>,
}

impl Probe {
    /// Watches all servers of a cluster.
    pub fn new(cluster: &Cluster) -> Self {
        let addresses = cluster.servers().filter_map(|server| server.address());
        Probe {
            watches: addresses.map(Watch::new).collect(),
            heard: None,
        }
    }

    /// Takes in what the load has to say. A load that is not listened to about ten times a second
    /// tells the rest of its figures only the next time, as of a later span.
    pub fn listen(&mut self, load: &mut LoadHandle) {
        let live = load.poll();
        match &mut self.heard {
            None => self.heard = Some(live),
            Some(sum) => add_load(sum, &live),
        }
    }

    /// What happened since the last sample.
    pub fn sample(&mut self, load: &mut LoadHandle) -> Sample {
        let looks: Vec<Option<ServerStats>> = {
            let looks = self.watches.iter_mut().map(Watch::look);
            looks.map(Result::ok).collect()
        };
        self.listen(load);
        let live = self.heard.take();
        join(&looks, live.expect("it was just listened to"))
    }
}

fn join(looks: &[Option<ServerStats>], live: LiveSample) -> Sample {
    let mut hot_keys: Vec<HotKey> = looks
        .iter()
        .flatten()
        .flat_map(|look| look.hot_keys.iter().cloned())
        .filter(|key| key.replicas > 0)
        .collect();
    hot_keys.sort_by(|a, b| b.requests_per_second.total_cmp(&a.requests_per_second));
    Sample {
        server_requests: looks
            .iter()
            .map(|look| look.as_ref().map_or(0, |stats| stats.counts.requests))
            .collect(),
        load: live,
        hot_keys,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::watch::Counts;
    use evenkeel_bench::Counters;
    use hdrhistogram::Histogram;

    /// A sample of one second with two hot keys of three replicas together.
    pub fn sample(server_requests: &[u64], latencies_us: &[u64]) -> Sample {
        let mut latency = Histogram::new(3).unwrap();
        for us in latencies_us {
            latency.record(us * 1000).unwrap();
        }
        let requests = server_requests.iter().sum();
        let hot = |key: &str, requests_per_second, replicas| HotKey {
            key: key.into(),
            home: String::new(),
            state: "HOT".into(),
            requests_per_second,
            replicas,
            why: None,
        };
        let look = |requests, hot_keys| {
            Some(ServerStats {
                counts: Counts {
                    requests,
                    ..Counts::default()
                },
                hot_keys,
                ..ServerStats::default()
            })
        };
        let mut looks: Vec<Option<ServerStats>> = server_requests
            .iter()
            .map(|&requests| look(requests, Vec::new()))
            .collect();
        looks[0] = look(server_requests[0], vec![hot("warm", 10.0, 1)]);
        looks[1] = look(server_requests[1], vec![hot("hot", 90.0, 2)]);
        join(
            &looks,
            LiveSample {
                seconds: 1.0,
                counters: Counters {
                    requests,
                    gets: requests,
                    hits: requests / 2,
                    ..Counters::default()
                },
                latency,
            },
        )
    }

    #[test]
    fn balance_is_the_most_loaded_server_by_the_mean() {
        assert_eq!(max_over_mean(&[10, 10, 10, 10]), 1.0);
        assert_eq!(max_over_mean(&[40, 0, 0, 0]), 4.0);
        assert_eq!(max_over_mean(&[0, 0]), 1.0);
        assert_eq!(max_over_mean(&[30, 10]), 1.5);
    }

    #[test]
    fn samples_add_up() {
        let mut sum = sample(&[30, 10], &[100; 9]);
        sum.add(&sample(&[10, 30], &[5000]));
        assert_eq!(sum.load.seconds, 2.0);
        assert_eq!(sum.server_requests, [40, 40]);
        assert_eq!(sum.max_over_mean(), 1.0);
        assert_eq!(sum.requests_per_second(), 40.0);
        assert_eq!(sum.load.latency_us(0.5).round(), 100.0);
        assert!((4990.0..5010.0).contains(&sum.load.latency_us(0.99)));
        assert_eq!(sum.replicas(), 3, "as of the last span");
        assert_eq!(sum.hot_keys[0].key, "hot", "hottest first");
    }
}
