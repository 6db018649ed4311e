//! Several loads one after the other on the same servers, and what becomes of them from moment to moment.

use super::Cluster;
use super::asks::Asker;
use crate::history::Nanos;
use crate::load::report::{Tally, Timeline};
use crate::load::{BalancingCounts, LoadPlan, LoadReport};
use evenkeel_workload::Popularity;

/// A load of a story.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// How requests fall on keys.
    pub popularity: Popularity,
    /// Part of the requests that are gets.
    pub get_share: f64,
}

/// What was seen at a look: of the time since the one before.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Virtual seconds since this part began.
    pub seconds: f64,
    /// 90 % of what was answered took at most this.
    pub latency_us_p90: f64,
    /// The busiest worker's load by the mean, as workers tell it; 0 where nobody does.
    pub load_max_over_mean: f64,
}

/// What became of a part.
#[derive(Clone, Debug)]
pub struct PartReport {
    /// All of it, with what was done meanwhile.
    pub report: LoadReport,
    /// The looks at it.
    pub moments: Vec<Moment>,
}

/// Tells a story of loads that each last this long, looked at in steps. What the plan says of popularity, gets,
/// warm-up and length does not count.
///
/// # Errors
/// When the plan is out of bounds or not of an open loop, or a part contradicts itself.
pub fn tell(
    plan: &LoadPlan,
    parts: &[Part],
    each: Nanos,
    step: Nanos,
) -> Result<Vec<PartReport>, String> {
    plan.validate()?;
    let steps = (each / step) as usize;
    let each = steps as Nanos * step;
    let mut cluster = Cluster::new(plan)?;
    cluster.tally.timeline = Some(Timeline::new(step, steps * parts.len()));
    let mut told = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        let asked = LoadPlan {
            popularity: part.popularity,
            get_share: part.get_share,
            ..plan.clone()
        };
        let begun = number as Nanos * each;
        let mut asker = Asker::new(&asked, begun)?;
        let (balancing, started) = (cluster.begin(begun, each), std::time::Instant::now());
        let mut moments = Vec::new();
        for look in 1..=steps {
            cluster.ask_until(&mut asker, begun + look as Nanos * step);
            moments.push(Moment {
                seconds: (look as Nanos * step) as f64 / 1e9,
                latency_us_p90: cluster.latency_us(number * steps + look - 1, 0.9),
                load_max_over_mean: cluster.load_max_over_mean(),
            });
        }
        let mut report = cluster.report(each, started.elapsed().as_secs_f64());
        report.balancing = report.balancing.map(|done| done - balancing);
        told.push(PartReport { report, moments });
    }
    Ok(told)
}

impl Cluster<'_> {
    /// Measures anew from now on; gives what was done before.
    fn begin(&mut self, now: Nanos, length: Nanos) -> BalancingCounts {
        let mut tally = Tally::new(self.turns.len());
        tally.timeline = self.tally.timeline.take();
        tally.measure(now, length);
        self.tally = tally;
        for turns in &mut self.turns {
            turns.served = 0;
        }
        self.simulated = 0;
        self.balancing()
    }

    fn latency_us(&self, moment: usize, share: f64) -> f64 {
        let timeline = self.tally.timeline.as_ref();
        timeline.map_or(0.0, |timeline| timeline.latency_us(moment, share))
    }

    /// The busiest worker's load by the mean, as they tell it; 0 where nobody does.
    fn load_max_over_mean(&self) -> f64 {
        let Some(members) = &self.members else {
            return 0.0;
        };
        let loads = || members.loads().map(|load| load.served_load());
        let mean = loads().sum::<f64>() / self.turns.len() as f64;
        match mean > 0.0 {
            true => loads().fold(0.0, f64::max) / mean,
            false => 0.0,
        }
    }
}
