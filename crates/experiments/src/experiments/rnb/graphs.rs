//! Replicate and Bundle, Figure 3: the multi-get hole with requests of social graphs. A request asks for the items
//! of all friends of a random user; the more servers there are, the more of them it has to ask.
//!
//! As in the paper's simulator (section III-B), what counts is the work that a request makes: its transactions. All
//! users are equally likely, so that the mean over all of them is exact and nothing has to be drawn. What the paper
//! leaves out is shown beside it: that an item costs something too, and that some servers hold the items of
//! those who are everybody's friend.

use super::sources::SOURCES;
use super::{COST, Experiment, JUDGED_AT, PLACEMENT_NAME, doublings, placement};
use crate::args::Mode;
use crate::report::{Claim, Report, Table};
use crate::run::Run;
use evenkeel_bench::plot::{Axis, Curve, Plot};
use evenkeel_placement::cost::Cost;
use evenkeel_placement::pool::Placement;
use evenkeel_workload::Graph;

pub(in crate::experiments) const FIGURE_3: Experiment = Experiment {
    name: "rnb-3",
    title: "What more servers bring to requests for all friends of a user",
    source: "Replicate and Bundle, Figure 3",
    modes: &[Mode::Sim],
    run: figure_3,
};

/// Items for nothing: what the paper counts.
const TRANSACTIONS: Cost = Cost {
    transaction: 1.0,
    item: 0.0,
};

fn figure_3(experiment: &Experiment, run: &Run) -> anyhow::Result<Report> {
    let sizes = doublings(run.by_scale([32, 64, 128, 1024]));
    let mut report = run.report(experiment);
    report.settings = vec![
        ("placement", PLACEMENT_NAME.into()),
        (
            "requests",
            "one of each user, for the items of all friends".into(),
        ),
    ];
    let mut curves = vec![Curve::new(
        "as many times as servers",
        sizes
            .iter()
            .map(|&n| (f64::from(n), f64::from(n)))
            .collect(),
    )];
    for source in &SOURCES {
        run.progress.say(format!("{}: reading", source.name));
        let graph = source.load(run, &mut report.notes)?;
        let mut table = Table::new(
            &format!(
                "{}: {} users, {:.1} friends on average, {} at most",
                source.name,
                graph.users(),
                graph.edges() as f64 / graph.users() as f64,
                graph.degree_max()
            ),
            "servers|transactions of a request|requests/s by one server's|the same with the cost of items|busiest by mean",
        );
        let mut points = Vec::new();
        for &servers in &sizes {
            run.progress
                .say(format!("{}: {servers} servers", source.name));
            let work = Work::of(&graph, &placement(servers)?);
            let gain = work.gain(TRANSACTIONS);
            if servers == JUDGED_AT {
                report.claims.push(claim(source.name, gain));
            }
            table.row([
                servers.to_string(),
                format!("{:.2}", work.transactions),
                format!("{gain:.2}"),
                format!("{:.2}", work.gain(COST)),
                format!("{:.2}", work.max_to_mean),
            ]);
            points.push((f64::from(servers), gain));
        }
        report.tables.push(table);
        curves.push(Curve::new(source.name, points));
    }
    report.plots.push(Plot {
        name: run.plot_name(experiment),
        title: experiment.title.into(),
        x: Axis::log("servers"),
        y: Axis::log("requests/s by one server's"),
        curves,
    });
    report.note(format!(
        "Users without friends are asked for, too, and cost nothing. The cost of an item is taken as 1/{:.0} of \
         that of a transaction (rnb-13); the busiest server is the one with most transactions.",
        COST.transaction / COST.item
    ));
    Ok(report)
}

fn claim(name: &str, gain: f64) -> Claim {
    let servers = f64::from(JUDGED_AT);
    Claim::new(
        &format!("{name}: {JUDGED_AT} servers bring how many times one server's requests/s"),
        &format!("far below {JUDGED_AT}"),
        format!("{gain:.2}"),
        Some(gain < servers / 2.0),
    )
}

/// What servers have to do for a request of each user.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Work {
    servers: f64,
    /// Of a request, on average.
    transactions: f64,
    items: f64,
    /// Part of the requests that ask for something.
    asking: f64,
    /// The busiest server's transactions by the mean of all.
    max_to_mean: f64,
}

impl Work {
    fn of(graph: &Graph, placement: &Placement) -> Work {
        let homes: Vec<u32> = (0..graph.users())
            .map(|user| placement.server(format!("user:{user}").as_bytes()) as u32)
            .collect();
        // Who asked each server last.
        let mut asked = vec![u32::MAX; placement.len()];
        let mut transactions = vec![0u64; placement.len()];
        for &user in graph.readers() {
            for &friend in graph.friends(user) {
                let server = homes[friend as usize] as usize;
                if asked[server] != user {
                    asked[server] = user;
                    transactions[server] += 1;
                }
            }
        }
        let sum: u64 = transactions.iter().sum();
        let most = transactions.iter().copied().max().unwrap_or(0);
        let (servers, users) = (placement.len() as f64, graph.users() as f64);
        Work {
            servers,
            transactions: sum as f64 / users,
            items: graph.edges() as f64 / users,
            asking: graph.readers().len() as f64 / users,
            max_to_mean: most as f64 * servers / sum as f64,
        }
    }

    /// How many times the requests a second of one server all of them carry, if each has as much to do.
    fn gain(&self, cost: Cost) -> f64 {
        // To one server, a request is one transaction.
        let alone = cost.of(self.asking, self.items);
        self.servers * alone / cost.of(self.transactions, self.items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_workload::PowerLaw;
    use std::collections::BTreeSet;

    /// Twin: sets.
    #[test]
    fn transactions_are_the_servers_of_a_users_friends() {
        let law = PowerLaw {
            users: 300,
            exponent: 1.8,
            degree_max: 100,
        };
        let graph = law.generate(7).unwrap();
        let placement = placement(5).unwrap();
        let work = Work::of(&graph, &placement);
        let server = |user: u32| placement.server(format!("user:{user}").as_bytes());
        let mut sum = 0;
        for user in 0..300 {
            let servers: BTreeSet<_> = graph.friends(user).iter().map(|&f| server(f)).collect();
            sum += servers.len();
        }
        assert!((work.transactions - sum as f64 / 300.0).abs() < 1e-9);
        let gain = |item| work.gain(Cost { item, ..COST });
        assert!(gain(0.0) > 1.0 && gain(0.0) < gain(1.0));
        assert!(gain(1e9) > 4.99, "items alone are distributed evenly");
    }

    #[test]
    fn one_server_is_asked_once_by_whoever_has_friends() {
        let graph = Graph::of_edges(4, &[(0, 1), (0, 2), (1, 2)]);
        let work = Work::of(&graph, &placement(1).unwrap());
        assert_eq!((work.transactions, work.items), (0.5, 0.75));
        assert_eq!((work.gain(TRANSACTIONS), work.max_to_mean), (1.0, 1.0));
    }
}
