//! What applications get of proxies, second by second.

use core::time::Duration;

use evenkeel_control::Served;
use evenkeel_control::times::Histogram;
use serde::{Deserialize, Serialize};

/// How long requests took, and what was refused, in the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServedView {
    /// Half of the requests took no longer, in microseconds; absent where none was told.
    #[serde(default)]
    pub p50_us: Option<u64>,
    /// The same of 99 %.
    #[serde(default)]
    pub p99_us: Option<u64>,
    /// Requests a second that were refused because a server has too much to do.
    #[serde(default)]
    pub shed_per_s: f64,
}

/// What was told since it was last taken.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServedSince {
    times: Histogram,
    shed: u64,
}

impl ServedSince {
    /// A proxy has told of it, or another sum is added.
    pub(crate) fn add(&mut self, more: &ServedSince) {
        self.times.add(&more.times);
        self.shed = self.shed.saturating_add(more.shed);
    }

    /// If that took this long.
    pub(crate) fn view(&self, time: Duration) -> ServedView {
        let quantile = |part| (self.times.count() > 0).then(|| self.times.quantile_us(part));
        let seconds = time.as_secs_f64();
        ServedView {
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            shed_per_s: match seconds > 0.0 {
                true => self.shed as f64 / seconds,
                false => 0.0,
            },
        }
    }
}

impl From<&Served> for ServedSince {
    fn from(told: &Served) -> Self {
        ServedSince {
            times: Histogram::of_counted(&told.times),
            shed: told.shed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proxies_tell_is_judged_together() {
        let told = |times: &[(u8, u64)], shed| {
            let times = times.to_vec();
            ServedSince::from(&Served { times, shed })
        };
        let mut all = ServedSince::default();
        assert_eq!(all.view(Duration::from_secs(1)), ServedView::default());
        all.add(&told(&[(1, 980)], 0));
        all.add(&told(&[(3, 20)], 30));
        let view = all.view(Duration::from_millis(1500));
        assert_eq!((view.p50_us, view.p99_us), (Some(1), Some(3)));
        assert_eq!(view.shed_per_s, 20.0);
        all.add(&told(&[(1, u64::MAX)], u64::MAX));
        assert_eq!(all.view(Duration::ZERO).p99_us, Some(1));
    }
}
