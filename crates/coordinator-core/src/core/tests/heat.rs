//! What a heat map is drawn from.

use super::plans::Cluster;
use super::*;
use crate::heat::{HeatColumn, Step};
use crate::plans::PlanMode;

fn loads(columns: usize) -> WantedHeat {
    WantedHeat {
        of: Measure::Load,
        step: Step::Second,
        columns,
    }
}

/// By how much the most loaded worker is above the mean.
fn max_over_mean(column: &HeatColumn) -> f64 {
    let loads: Vec<_> = column
        .workers
        .iter()
        .map(|load| load.unwrap() as f64)
        .collect();
    loads.iter().copied().fold(0.0, f64::max) * loads.len() as f64 / loads.iter().sum::<f64>()
}

#[test]
fn stripes_go_flat_when_cachelets_move() {
    let mut cluster = Cluster::new(3);
    cluster.heat(worker(0, 0), 8, 4.0);
    cluster.set(|settings| settings.mode = PlanMode::Automatic);
    cluster.rounds(80);
    let now = cluster.world.now.monotonic;
    let view = cluster.world.core.heat(now, loads(40));
    assert_eq!((view.interval_ms, view.columns.len()), (1000, 40));
    let names: Vec<_> = view
        .workers
        .iter()
        .map(|w| (&*w.server, w.worker))
        .collect();
    assert_eq!(
        names,
        [
            ("s1", Some(0)),
            ("s1", Some(1)),
            ("s2", Some(0)),
            ("s2", Some(1)),
            ("s3", Some(0)),
            ("s3", Some(1))
        ]
    );
    assert!(
        view.columns
            .is_sorted_by_key(|column| std::cmp::Reverse(column.age_ms))
    );
    let (first, last) = (&view.columns[1], &view.columns[39]);
    assert!(
        max_over_mean(first) > 1.8 && max_over_mean(last) < 1.2,
        "{first:?}\n{last:?}"
    );

    // What cachelets carry is the same, wherever they are; and their workers are where the map has them.
    let exact: Vec<_> = cluster
        .loads
        .iter()
        .map(|load| Some(*load as u64))
        .collect();
    let owners = cluster.world.owners().into_iter().map(|owner| {
        let owner = owner.expect("nothing is on its way");
        Some(owner.server.0 * 2 + owner.worker)
    });
    assert_eq!(last.owners, owners.collect::<Vec<_>>());
    assert_ne!(first.owners, last.owners);
    for column in [first, last] {
        assert_eq!(column.cachelets, exact);
        assert_eq!(view.cachelets, exact.len());
    }
}

#[test]
fn servers_that_tell_nothing_leave_gaps() {
    let mut world = World::new(2);
    let mut members = [server(1, 1), server(2, 1)];
    world.send_current(&mut members);
    world.pass(2_000);
    let view = world.core.heat(world.now.monotonic, loads(10));
    assert!(
        view.columns.len() >= 2 && view.workers.is_empty(),
        "{view:?}"
    );
    let last = view.columns.last().unwrap();
    assert!(last.cachelets.iter().all(Option::is_none) && last.owners.iter().all(Option::is_none));
    assert_eq!(last.cachelets.len(), world.owners().len());
}
