//! What replicas of hot keys do, or would do, to the loads of a whole cluster.

use std::collections::BTreeMap;

use evenkeel_types::WorkerRef;

/// A key whose reads are spread, or would be.
#[derive(Clone, Copy, Debug)]
pub struct Spread<'a> {
    /// Where it is at home.
    pub home: WorkerRef,
    /// What reads of all its copies add to the load.
    pub rate: f64,
    /// Where its replicas are.
    pub shadows: &'a [WorkerRef],
}

/// The load of each worker with these keys spread, in requests per second, from what each would carry
/// without replicas: a key's γ + 1 copies get equal parts of its reads. Copies at workers that are not
/// in `undiverted` (which are away) stay where they are.
pub fn spread_loads<'a>(
    undiverted: &BTreeMap<WorkerRef, f64>,
    keys: impl IntoIterator<Item = Spread<'a>>,
) -> BTreeMap<WorkerRef, f64> {
    let mut loads = undiverted.clone();
    for key in keys {
        let part = key.rate.max(0.0) / (key.shadows.len() as f64 + 1.0);
        if !loads.contains_key(&key.home) {
            continue;
        }
        for shadow in key.shadows {
            let Some(load) = loads.get_mut(shadow) else {
                continue;
            };
            *load += part;
            if let Some(load) = loads.get_mut(&key.home) {
                *load = (*load - part).max(0.0);
            }
        }
    }
    loads
}

/// The largest load by the mean; 1, which is perfectly even, without any load.
pub fn max_over_mean(loads: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut most, mut count) = (0.0, 0.0_f64, 0);
    for load in loads {
        sum += load;
        most = most.max(load);
        count += 1;
    }
    if sum > 0.0 {
        most * f64::from(count) / sum
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_types::ServerId;

    fn worker(server: u16) -> WorkerRef {
        WorkerRef {
            server: ServerId(server),
            worker: 0,
        }
    }

    #[test]
    fn a_spread_key_loads_all_its_copies_alike() {
        let loads: BTreeMap<_, _> = [(0, 1000.0), (1, 400.0), (2, 400.0)]
            .map(|(server, load)| (worker(server), load))
            .into();
        assert_eq!(max_over_mean(loads.values().copied()), 1000.0 / 600.0);
        let shadows = [worker(1), worker(2)];
        let key = Spread {
            home: worker(0),
            rate: 600.0,
            shadows: &shadows,
        };
        let spread = spread_loads(&loads, [key]);
        assert_eq!(spread.into_values().collect::<Vec<_>>(), [600.0; 3]);
        // A copy that is away takes nothing, and a home that is away gives nothing.
        let shadows = [worker(1), worker(9)];
        let spread = spread_loads(
            &loads,
            [Spread {
                shadows: &shadows,
                ..key
            }],
        );
        assert_eq!(
            spread.into_values().collect::<Vec<_>>(),
            [800.0, 600.0, 400.0]
        );
        let away = Spread {
            home: worker(9),
            ..key
        };
        assert_eq!(spread_loads(&loads, [away]), loads);
        assert_eq!(max_over_mean([]), 1.0);
    }
}
