//! The load of each server, looked at again and again while other keys become hot.

use super::{LoadedFleet, keys_served_by};
use anyhow::ensure;
use std::time::{Duration, Instant};

/// What was seen, look by look.
#[derive(Clone, Debug)]
pub struct Watched {
    /// When other keys became hot.
    switched: Instant,
    /// Distance of two looks.
    step: Duration,
    /// In each look, of each server: when it answered, and the keys that it had served by then.
    looks: Vec<Vec<(Instant, u64)>>,
}

impl LoadedFleet<'_> {
    /// Puts this many requests a second on the fleet, makes other keys hot once, and counts what each server has served
    /// every `step` from `before` that until `after` it.
    ///
    /// # Errors
    /// When a server does not answer, or the load ends by itself.
    pub fn watch_switch(
        &self,
        requests_per_second: f64,
        before: Duration,
        after: Duration,
        step: Duration,
    ) -> anyhow::Result<Watched> {
        let servers = self.fleet.server_addresses();
        let running = self.start(requests_per_second, None)?;
        let begun = Instant::now() + self.load.warm_up;
        let (switch_due, end) = (begun + before, begun + before + after);
        let (mut switched, mut looks, mut due) = (None, Vec::new(), begun);
        while due <= end {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if due >= switch_due && switched.is_none() {
                running.iter().for_each(|load| load.switch_hot_keys());
                switched = Some(Instant::now());
            }
            let look = servers.iter().map(|&server| {
                let keys = keys_served_by(server)?;
                Ok((Instant::now(), keys))
            });
            looks.push(look.collect::<anyhow::Result<Vec<_>>>()?);
            ensure!(
                !running.iter().any(|load| load.is_finished()),
                "the load ended by itself"
            );
            due += step;
        }
        for load in running {
            load.stop()?;
        }
        Ok(Watched {
            switched: switched.unwrap_or(switch_due),
            step,
            looks,
        })
    }
}

impl Watched {
    /// Keys a second of each server in windows of this length, one for each look: with the end of the window, in
    /// seconds after other keys became hot (negative before).
    pub fn loads(&self, window: Duration) -> Vec<(f64, Vec<f64>)> {
        let steps = (window.as_secs_f64() / self.step.as_secs_f64())
            .round()
            .max(1.0) as usize;
        let pairs = self.looks.iter().zip(self.looks.iter().skip(steps));
        pairs
            .map(|(first, last)| {
                let rate = |(first, last): (&(Instant, u64), &(Instant, u64))| {
                    let seconds = last.0.duration_since(first.0).as_secs_f64();
                    (last.1.saturating_sub(first.1)) as f64 / seconds.max(f64::MIN_POSITIVE)
                };
                let rates = first.iter().zip(last).map(rate).collect();
                // By the server that answered first: later ones are of more time after the change, not of less.
                let end = last.first().map_or(self.switched, |(at, _)| *at);
                (self.since_switch(end), rates)
            })
            .collect()
    }

    fn since_switch(&self, at: Instant) -> f64 {
        let after = at.saturating_duration_since(self.switched).as_secs_f64();
        let before = self.switched.saturating_duration_since(at).as_secs_f64();
        after - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_rates_between_looks_a_window_apart() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        // One server at 100 keys a second, and one that idles until the change and then serves 200, answering late.
        let look = |n: u64| {
            let busy = (at(250 * n), 25 * n);
            let late = (at(250 * n + 50), 50 * n.saturating_sub(4));
            vec![busy, late]
        };
        let watched = Watched {
            switched: at(1_000),
            step: Duration::from_millis(250),
            looks: (0..13).map(look).collect(),
        };
        let loads = watched.loads(Duration::from_secs(1));
        assert_eq!(loads.len(), 9);
        assert_eq!(loads[0], (0.0, vec![100.0, 0.0]));
        assert_eq!(loads[8], (2.0, vec![100.0, 200.0]));
    }
}
