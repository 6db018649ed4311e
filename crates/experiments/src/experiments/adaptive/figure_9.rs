//! Figure 9: a server is added and takes over from the hot one; one is lost, and the others share what it had.

use super::fleet::{CAPACITY, PROXIES, RingFleet, SLOT, load, served, start_load};
use crate::args::Mode;
use crate::experiments::Experiment;
use crate::experiments::watch::Watch;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use crate::trial::max_to_mean;
use evenkeel_coordinator_core::RingMode;
use std::time::{Duration, Instant};

pub(in crate::experiments) const FIGURE_9: Experiment = Experiment {
    name: "adaptive-9",
    title: "A server comes and another dies: who carries what, before memcacheds",
    source: "Adaptive hashing, Figure 9",
    modes: &[Mode::Real],
    run,
};

/// Servers at first.
const SERVERS: usize = 4;

/// Part of the capacity of the fewest servers that there are.
const RATE: f64 = 0.5;

/// How long items that are asked for come along.
const WARMING: Duration = Duration::from_secs(10);

/// What every server is to carry at most, by the mean, and within how many slots.
const EVEN: f64 = 1.15;
const EVEN_SLOTS: usize = 10;

/// A dead server is out of the ring by then.
const LOST_BY: Duration = Duration::from_secs(13);

/// Longest time for anything.
const LIMIT: Duration = Duration::from_secs(120);

/// What was seen of the servers in a part.
struct Seen {
    label: &'static str,
    by_server: Vec<(String, f64)>,
}

impl Seen {
    fn max_to_mean(&self) -> f64 {
        let loads: Vec<f64> = self.by_server.iter().map(|(_, keys)| *keys).collect();
        max_to_mean(&loads)
    }

    fn of(&self, name: &str) -> f64 {
        let found = self.by_server.iter().find(|(server, _)| server == name);
        found.map_or(0.0, |(_, keys)| *keys)
    }

    fn hottest(&self) -> Option<&str> {
        let hottest = self.by_server.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        hottest.map(|(name, _)| name.as_str())
    }
}

/// Looks for some slots at who carries what.
fn look(
    fleet: &RingFleet,
    watch: &mut Watch,
    label: &'static str,
    slots: u32,
) -> anyhow::Result<Seen> {
    let before = fleet.keys_served()?;
    watch.go_on(SLOT * slots)?;
    let by_server = served(&before, &fleet.keys_served()?);
    Ok(Seen { label, by_server })
}

/// Goes on slot by slot until all servers carry about the same. How many that took; `None` if too many.
fn slots_until_even(fleet: &RingFleet, watch: &mut Watch) -> anyhow::Result<Option<usize>> {
    for slots in 1..=3 * EVEN_SLOTS {
        if look(fleet, watch, "", 1)?.max_to_mean() <= EVEN {
            return Ok(Some(slots));
        }
    }
    Ok(None)
}

fn run(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let rest = run.by_scale([3, 10, 30, 60]);
    run.progress.say("starting");
    let mut fleet = RingFleet::start(SERVERS)?;
    fleet.set(RingMode::Observe, WARMING)?;
    let running = start_load(&fleet, &load(run), RATE * RingFleet::capacity(SERVERS))?;
    let mut watch = Watch::start(running, Duration::from_millis(500), "ketama, 4 servers");
    watch.go_on(2 * SLOT)?;
    let mut seen = vec![look(&fleet, &mut watch, "ketama, 4 servers", rest)?];

    run.progress.say("a server comes");
    watch.begin("a server comes");
    let began = Instant::now();
    let newcomer = fleet.add()?;
    watch.until("the plan to be done", LIMIT, || fleet.rests())?;
    let came_in = began.elapsed();
    watch.begin("5 servers");
    seen.push(look(&fleet, &mut watch, "5 servers", rest)?);

    run.progress.say("the ring follows its load");
    watch.begin("following the load");
    fleet.set(RingMode::Automatic, WARMING)?;
    let even_after = slots_until_even(&fleet, &mut watch)?;
    watch.until("plans to be done", LIMIT, || fleet.rests())?;
    watch.begin("even, 5 servers");
    seen.push(look(&fleet, &mut watch, "even, 5 servers", rest)?);

    run.progress.say("a server dies");
    let before = seen.last().and_then(Seen::hottest).unwrap_or_default();
    let dies = before.to_owned();
    watch.begin("a server dies");
    let began = Instant::now();
    fleet.kill(&dies)?;
    watch.until("the ring to be without it", LIMIT, || {
        fleet.is_without(&dies)
    })?;
    let lost_in = began.elapsed();
    watch.begin("4 servers");
    let even_again = slots_until_even(&fleet, &mut watch)?;
    watch.until("plans to be done", LIMIT, || fleet.rests())?;
    watch.begin("even, 4 servers");
    seen.push(look(&fleet, &mut watch, "even, 4 servers", rest)?);
    let watched = watch.end()?;

    let taken = taken_from_hottest(&seen[0], &seen[1]);
    let mut report = run.report(experiment);
    report.settings = vec![
        (
            "memcacheds",
            format!("{SERVERS}, each of {CAPACITY} keys/s"),
        ),
        ("proxies", PROXIES.to_string()),
        (
            "load",
            format!("{:.0} % of 4 servers' capacity", 100.0 * RATE),
        ),
        ("popularity", "Zipf 0.99, cache-aside".to_owned()),
        ("slots", "1 s".to_owned()),
    ];
    report.tables = vec![servers_table(&seen), watched.table("The load meanwhile")];
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let slots = |slots: Option<usize>| match slots {
        Some(slots) => format!("{slots} slots"),
        None => format!("not within {} slots", 3 * EVEN_SLOTS),
    };
    let is_soon = |slots: Option<usize>| Some(slots.is_some_and(|slots| slots <= EVEN_SLOTS));
    report.claims = vec![
        Claim::new(
            "traffic of the hottest server that a newcomer takes",
            "30 %",
            format!("{:.0} %", 100.0 * taken),
            Some(taken >= 0.25),
        ),
        Claim::new(
            "until no server carries more than 1.15 of the mean, from 5 servers on",
            "10 slots",
            slots(even_after),
            is_soon(even_after),
        ),
        Claim::new(
            "until the ring is without a killed server",
            "13 s",
            seconds(lost_in),
            Some(lost_in <= LOST_BY),
        ),
        Claim::new(
            "until no server carries more than 1.15 of the mean, from then on",
            "10 slots",
            slots(even_again),
            is_soon(even_again),
        ),
    ];
    let name = |name: &str| seen[1].of(name) / seen[1].by_server.iter().map(|it| it.1).sum::<f64>();
    report.note(format!(
        "The newcomer came in {}, of which two are for the proxies to connect to it, ten for items to come along, and three for \
         what was given up; it carried {:.0} % of all then.",
        seconds(came_in),
        100.0 * name(&newcomer)
    ));
    report.note("The paper's newcomer takes half of the hottest server; ours takes from each what it has above the mean.");
    Ok(report)
}

/// What the hottest server carries less than before, of what it carried.
fn taken_from_hottest(before: &Seen, after: &Seen) -> f64 {
    let share = |seen: &Seen, name: &str| {
        let all: f64 = seen.by_server.iter().map(|(_, keys)| keys).sum();
        seen.of(name) / all.max(1.0)
    };
    let Some(hottest) = before.hottest() else {
        return 0.0;
    };
    1.0 - share(after, hottest) / share(before, hottest).max(f64::MIN_POSITIVE)
}

fn servers_table(seen: &[Seen]) -> Table {
    let mut table = Table::new(
        "What the busiest and the idlest server carry",
        "|servers|busiest by the mean|idlest by the mean",
    );
    for part in seen {
        let loads: Vec<f64> = part.by_server.iter().map(|(_, keys)| *keys).collect();
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        let least = loads.iter().copied().fold(f64::INFINITY, f64::min);
        table.row([
            part.label.to_owned(),
            loads.len().to_string(),
            format!("{:.2}", part.max_to_mean()),
            format!("{:.2}", least / mean),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newcomer_takes_is_measured_at_the_hottest() {
        let seen = |loads: &[f64]| Seen {
            label: "",
            by_server: (0..)
                .map(|n: u32| n.to_string())
                .zip(loads.iter().copied())
                .collect(),
        };
        let (before, after) = (seen(&[400.0, 100.0]), seen(&[600.0, 200.0, 200.0]));
        assert_eq!(before.hottest(), Some("0"));
        assert!((taken_from_hottest(&before, &after) - 0.25).abs() < 1e-9);
        assert!((before.max_to_mean() - 1.6).abs() < 1e-9);
    }
}
