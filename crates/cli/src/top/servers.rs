//! The tables of servers and of the hottest keys.

use super::figures::{Figures, ServerLine};
use super::units::{bytes, count, ratio, sparkline};
use super::view::View;
use crate::watch::HotKey;
use ratatui::layout::Constraint;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Cell, Row, Table};

/// A server with more than this by the mean of all is worth a look.
const UNEVEN: f64 = 1.15;

/// A worker that sleeps less than the rest of its time is about full.
const FULL: f64 = 0.9;

/// Column heads of the servers, in the order of [`server_row`], and widths.
const SERVER_COLUMNS: [(&str, u16); 13] = [
    ("server", 16),
    ("state", 8),
    ("requests/s", 11),
    ("busy", 6),
    ("of mean", 8),
    ("hits", 8),
    ("replicas'", 10),
    ("evicted/s", 10),
    ("items", 10),
    ("memory", 12),
    ("conns", 7),
    ("cachelets", 10),
    ("last looks", 18),
];

const SPARKLINE: usize = 12;

/// The columns that a narrow terminal goes without, the first one first.
const DROPPED: [usize; 8] = [6, 11, 10, 7, SPARKLINE, 8, 9, 3];

/// The servers that are listed, in their order.
pub fn listed(figures: &Figures, view: &View) -> Vec<ServerLine> {
    let lists = |server: &&ServerLine| view.lists(&server.name);
    let mut lines: Vec<_> = figures.servers.iter().filter(lists).cloned().collect();
    view.order.sort(&mut lines);
    if view.reversed {
        lines.reverse();
    }
    lines
}

/// The columns of the servers that fit beside each other.
fn fitting(width: u16) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..SERVER_COLUMNS.len()).collect();
    let taken = |kept: &[usize]| -> u16 { kept.iter().map(|&at| SERVER_COLUMNS[at].1 + 1).sum() };
    for at in DROPPED {
        if taken(&kept) > width + 1 {
            kept.retain(|&other| other != at);
        }
    }
    kept
}

/// The servers in a box of this size. The selected one is always in it.
pub fn servers(figures: &Figures, view: &View, (width, height): (u16, u16)) -> Table<'static> {
    let lines = listed(figures, view);
    let kept = fitting(width.saturating_sub(2));
    let columns: Vec<_> = kept.iter().map(|&at| SERVER_COLUMNS[at]).collect();
    let selected = view.selected.min(lines.len().saturating_sub(1));
    // The frame and the heads take three lines.
    let room = usize::from(height.saturating_sub(3)).max(1);
    let first = (selected + 1).saturating_sub(room);
    let loads = figures.servers.iter().flat_map(|it| &it.history);
    let highest = loads.copied().fold(0.0, f64::max);
    let rows = lines.iter().enumerate().skip(first).map(|(at, line)| {
        let is_selected = at == selected && view.selected > 0;
        server_row(line, &kept, highest, is_selected)
    });
    let title = match view.filter.as_str() {
        "" => "servers".to_owned(),
        filter => format!("servers with {filter:?}"),
    };
    table(title, &columns, rows.collect())
}

fn server_row(
    server: &ServerLine,
    kept: &[usize],
    highest: f64,
    is_selected: bool,
) -> Row<'static> {
    let name = match &server.rack {
        Some(rack) => format!("{} ({rack})", server.name),
        None => server.name.clone(),
    };
    let is_full = server.busy.is_some_and(|busy| busy >= FULL);
    let style = match server.state {
        "down" | "silent" => Style::new().fg(Color::Red),
        _ if is_full || server.load_over_mean > UNEVEN => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    };
    let style = match is_selected {
        true => style.add_modifier(Modifier::REVERSED),
        false => style,
    };
    let cachelets = server.cachelets.map_or(String::new(), |n| n.to_string());
    let busy = server.busy.map(|busy| format!("{:.0} %", busy * 100.0));
    let cells = [
        name,
        server.state.to_owned(),
        count(server.requests_per_second),
        busy.unwrap_or_else(|| "-".into()),
        format!("{:.2}", server.load_over_mean),
        ratio(server.hit_ratio),
        ratio(Some(server.replica_read_share)),
        count(server.evictions_per_second),
        count(server.holdings.items as f64),
        format!(
            "{}/{}",
            bytes(server.holdings.memory_bytes),
            bytes(server.holdings.memory_limit_bytes)
        ),
        server.holdings.connections.to_string(),
        cachelets,
        sparkline(&server.history, highest, SERVER_COLUMNS[SPARKLINE].1.into()),
    ];
    let cells = kept.iter().map(|&at| Cell::from(cells[at].clone()));
    Row::new(cells).style(style)
}

const HOT_KEY_COLUMNS: [(&str, u16); 4] = [
    ("key", 26),
    ("home", 10),
    ("requests/s", 10),
    ("replicas, or why there are none", 60),
];

/// The hottest keys. A wide box shows long keys whole.
pub fn hot_keys(keys: &[HotKey], view: &View, width: u16) -> Table<'static> {
    let columns = widened(HOT_KEY_COLUMNS, width);
    let listed = keys.iter().filter(|key| view.lists(&key.key));
    let title = match keys.is_empty() {
        true => "hottest keys: none, for nobody has asked for any lately",
        false => "hottest keys",
    };
    table(
        title.to_owned(),
        &columns,
        listed.map(hot_key_row).collect(),
    )
}

fn hot_key_row(key: &HotKey) -> Row<'static> {
    let cells = [
        key.key.clone(),
        key.home.clone(),
        count(key.requests_per_second),
        match &key.why {
            Some(why) => why.clone(),
            None => format!("{}, {}", key.replicas, key.state),
        },
    ];
    Row::new(cells.map(Cell::from))
}

/// Columns of which the first, of names, gets what a box of this width leaves.
pub fn widened<const N: usize>(
    mut columns: [(&'static str, u16); N],
    width: u16,
) -> [(&'static str, u16); N] {
    let needed: u16 = columns.iter().map(|(_, width)| width + 1).sum();
    columns[0].1 += width.saturating_sub(needed + 1);
    columns
}

/// A table in a frame.
pub fn table(
    title: String,
    columns: &[(&'static str, u16)],
    rows: Vec<Row<'static>>,
) -> Table<'static> {
    let heads = columns.iter().map(|(head, _)| Cell::from(*head));
    let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
    Table::new(rows, widths)
        .header(Row::new(heads).style(Style::new().add_modifier(Modifier::DIM)))
        .block(Block::bordered().title(title))
}
