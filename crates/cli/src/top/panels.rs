//! The boxes beside the tables: proxies, plans, events, help, and all of one server.

use super::cluster::Cluster;
use super::figures::{Figures, ServerLine};
use super::servers::{listed, table, widened};
use super::units::{bytes, count, ratio};
use super::view::View;
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table, Wrap};

/// What a box says that only a coordinator could fill.
const NO_COORDINATOR: &str = "none: a coordinator tells them, --coordinator URL";

const HELP: &str = "\
q, Esc  quit                      Tab    next box: proxies, plans, events
?       this page                 /      list names with a text; Esc ends it
h       heat map                  s, r   next order of servers, reversed
Enter   all of the server that    + -    half as often, twice as often
        Up and Down have chosen   p      pause

server     its name, and its rack behind it
state      up; draining; down: the coordinator says so; silent: no answer
busy       part of its time that the busiest worker does not sleep
of mean    requests/s by the mean of all servers; 1.00 is even
hits       reads of own keys that found something
replicas'  part of its requests that were reads of other servers' hot keys
cachelets  parts of the key space that it owns; they move between servers
HOT        has replicas; HOT_PENDING: not yet; COLD_PENDING: not for long";

/// What the keys do, and what the columns mean.
pub fn help() -> Paragraph<'static> {
    Paragraph::new(HELP).block(Block::bordered().title("help"))
}

const PROXY_COLUMNS: [(&str, u16); 5] = [
    ("proxy", 12),
    ("state", 11),
    ("requests/s", 10),
    ("p99 ms", 6),
    ("shed/s", 6),
];

/// The proxies of the cluster. A wide box shows long names whole.
pub fn proxies(cluster: Option<&Cluster>, width: u16) -> Table<'static> {
    let Some(cluster) = cluster else {
        return table(format!("proxies: {NO_COORDINATOR}"), &[], Vec::new());
    };
    let title = match cluster.proxies.is_empty() {
        true => "proxies: none has registered",
        false => "proxies",
    };
    let rows = cluster.proxies.iter().map(|proxy| {
        let (state, style) = match proxy.is_up {
            true => ("up".to_owned(), Style::new()),
            false => (
                format!("silent {:.0} s", proxy.silent_seconds),
                Style::new().fg(Color::Red),
            ),
        };
        let p99 = proxy.p99_ms.map(|ms| format!("{ms:.1}"));
        let cells = [
            proxy.name.clone(),
            state,
            count(proxy.requests_per_second),
            p99.unwrap_or_else(|| "-".to_owned()),
            count(proxy.shed_per_second),
        ];
        Row::new(cells.map(Cell::from)).style(style)
    });
    table(
        title.to_owned(),
        &widened(PROXY_COLUMNS, width),
        rows.collect(),
    )
}

/// What is done about uneven loads.
pub fn plans(cluster: Option<&Cluster>) -> Paragraph<'static> {
    let lines = cluster.map_or_else(
        || vec![Line::from(NO_COORDINATOR)],
        |cluster| cluster.plans.iter().cloned().map(Line::from).collect(),
    );
    Paragraph::new(lines)
        .wrap(Wrap { trim: true })
        .block(Block::bordered().title("plans (evenkeel plans)"))
}

/// What happened, the newest first.
pub fn events(cluster: Option<&Cluster>) -> Paragraph<'static> {
    let lines = match cluster {
        None => vec![Line::from(NO_COORDINATOR)],
        Some(cluster) if cluster.events.is_empty() => {
            vec![Line::from("none since this coordinator leads")]
        }
        Some(cluster) => {
            let lines = cluster.events.iter();
            let lines = lines.map(|it| format!("{:>6} {}", ago(it.age_seconds), it.text));
            lines.map(Line::from).collect()
        }
    };
    Paragraph::new(lines).block(Block::bordered().title("events, and how long ago"))
}

/// `12 s`, `5 min`, `3 h`, `2 d`.
fn ago(seconds: u32) -> String {
    match seconds {
        s if s < 120 => format!("{s} s"),
        s if s < 120 * 60 => format!("{} min", s / 60),
        s if s < 48 * 3600 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

const WORKER_COLUMNS: [(&str, u16); 5] = [
    ("worker", 8),
    ("load/s", 10),
    ("busy", 8),
    ("memory", 10),
    ("cachelets", 10),
];

/// The workers of the server that is selected, and in the title what its line has no room for.
pub fn details(figures: &Figures, view: &View) -> Table<'static> {
    let servers = listed(figures, view);
    let Some(server) = servers.get(view.selected.min(servers.len().saturating_sub(1))) else {
        return table("no server is listed".into(), &[], Vec::new());
    };
    let rows = server.workers.iter().map(|it| {
        let cells = [
            it.worker.to_string(),
            count(it.load),
            ratio(Some(it.busy)),
            bytes(it.memory_bytes),
            it.cachelets.to_string(),
        ];
        Row::new(cells.map(Cell::from))
    });
    table(title(server), &WORKER_COLUMNS, rows.collect())
}

fn title(server: &ServerLine) -> String {
    let (name, state) = (&server.name, server.state);
    if let Some(cause) = &server.cause {
        return format!("{name} {state}: {cause}");
    }
    let told = match server.workers.is_empty() {
        true => "; of workers nothing is told",
        false => "",
    };
    format!(
        "{name} {state}: {} requests/s, {} items, {} connections, {} evicted/s{told}",
        count(server.requests_per_second),
        count(server.holdings.items as f64),
        server.holdings.connections,
        count(server.evictions_per_second),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_fits_a_small_terminal() {
        assert!(HELP.lines().count() <= 19);
        assert!(HELP.lines().all(|line| line.chars().count() <= 78));
    }

    #[test]
    fn ages_are_short() {
        let ages = [5, 119, 120, 7200, 172_800].map(ago);
        assert_eq!(ages, ["5 s", "119 s", "2 min", "2 h", "2 d"]);
    }
}
