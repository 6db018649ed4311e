//! Draws figures on a terminal.

use super::figures::{Figures, Order, ServerLine};
use super::heat::{self, Part};
use super::proxy;
use crate::watch::HotKey;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};

/// A server with more than this by the mean of all is worth a look.
const UNEVEN: f64 = 1.15;

/// Letters of a worker's or some cachelets' name that the heat map shows.
const HEAT_LABEL: usize = 16;

/// What there is to see.
pub enum Shown {
    Servers(Figures),
    Proxy(proxy::Figures),
}

impl Shown {
    /// How many servers are listed.
    pub fn len(&self) -> usize {
        match self {
            Shown::Servers(figures) => figures.servers.len(),
            Shown::Proxy(figures) => figures.servers.len(),
        }
    }
}

/// What the person at the terminal has chosen.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub order: Order,
    pub paused: bool,
    /// The heat map in place of the tables.
    pub heat: bool,
    /// Servers above the first one that is shown.
    pub scrolled: usize,
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, shown: &Shown, view: &View) {
    match shown {
        Shown::Servers(figures) => draw_servers(frame, figures, view),
        Shown::Proxy(figures) => draw_proxy(frame, figures, view),
    }
}

fn draw_proxy(frame: &mut Frame<'_>, figures: &proxy::Figures, view: &View) {
    let areas: [Rect; 3] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let style = match figures.answered && figures.shed_per_second == 0.0 {
        true => Style::new().add_modifier(Modifier::BOLD),
        false => Style::new().fg(Color::Yellow),
    };
    let rows = figures.servers.iter().skip(view.scrolled).map(|line| {
        let style = match line.state.as_str() {
            "up" | "idle" if line.shed_per_second > 0.0 => Style::new().fg(Color::Yellow),
            "up" | "idle" => Style::new(),
            _ => Style::new().fg(Color::Red),
        };
        Row::new(line.cells().map(Cell::from)).style(style)
    });
    frame.render_widget(
        Paragraph::new(Line::styled(figures.head(), style)),
        areas[0],
    );
    frame.render_widget(
        table(
            "servers, by what waits for them",
            &proxy::COLUMNS,
            rows.collect(),
        ),
        areas[1],
    );
    let paused = if view.paused { "  PAUSED" } else { "" };
    let keys = format!("q quit   p pause   up/down scroll{paused}");
    frame.render_widget(Paragraph::new(Line::from(keys)), areas[2]);
}

fn draw_servers(frame: &mut Frame<'_>, figures: &Figures, view: &View) {
    let hot_keys = (figures.hot_keys.len().max(1) + 3).min(usize::from(frame.area().height) / 2);
    let areas: [Rect; 4] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(4),
        Constraint::Length(hot_keys as u16),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head(figures)), areas[0]);
    frame.render_widget(Paragraph::new(foot(view)), areas[3]);
    if view.heat {
        let area = areas[1].union(areas[2]);
        let block = Block::bordered().title("load of workers and cachelets, a column a second");
        let (width, height) = (area.width.saturating_sub(2), area.height.saturating_sub(2));
        let lines = heat_map(figures, usize::from(width), usize::from(height));
        frame.render_widget(Paragraph::new(lines).block(block), area);
        return;
    }
    let width = areas[1].width;
    frame.render_widget(servers(figures, view, width), areas[1]);
    frame.render_widget(hot_keys_table(figures), areas[2]);
}

/// Two parts, each with a line that says what its darkest shade means.
fn heat_map(figures: &Figures, width: usize, height: usize) -> Vec<Line<'static>> {
    let Some(view) = &figures.heat else {
        return vec![Line::from(
            "none: it comes from a coordinator, --coordinator URL",
        )];
    };
    let [workers, cachelets] = heat::parts(view, height.saturating_sub(2));
    let columns = width.saturating_sub(HEAT_LABEL + 1);
    let lines = |what: &str, part: Part| {
        let head = format!("{what}, at most {}/s", count(part.highest as f64));
        let head = Line::styled(head, Style::new().add_modifier(Modifier::DIM));
        let rows = part.lines.into_iter().map(move |line| {
            let newest = line.loads.len().saturating_sub(columns);
            let mut spans = vec![Span::from(format!(
                "{:<HEAT_LABEL$.HEAT_LABEL$} ",
                line.label
            ))];
            spans.extend(line.loads[newest..].iter().map(|load| {
                let by_highest = load.unwrap_or(0) as f64 / part.highest.max(1) as f64;
                let color = match by_highest {
                    b if b > 0.8 => Color::Red,
                    b if b > 0.5 => Color::Yellow,
                    _ => Color::Green,
                };
                let shade = heat::shade(*load, part.highest);
                Span::styled(shade.to_string(), Style::new().fg(color))
            }));
            Line::from(spans)
        });
        std::iter::once(head).chain(rows).collect::<Vec<_>>()
    };
    let mut all = lines("workers", workers);
    all.extend(lines("cachelets", cachelets));
    all
}

fn head(figures: &Figures) -> Vec<Line<'static>> {
    let hits = ratio(figures.hit_ratio);
    let line = format!(
        "{} requests/s on {} servers, busiest {:.2} of the mean, hits {hits}, {} hot keys with {} replicas",
        count(figures.requests_per_second),
        figures.servers.len(),
        figures.load_max_over_mean,
        figures.replicated(),
        figures.replicas,
    );
    let warning = figures.warning.clone().unwrap_or_default();
    vec![
        Line::styled(line, Style::new().add_modifier(Modifier::BOLD)),
        Line::styled(warning, Style::new().fg(Color::Yellow)),
    ]
}

fn foot(view: &View) -> Line<'static> {
    let paused = if view.paused { "  PAUSED" } else { "" };
    let order = view.order.name();
    Line::from(format!(
        "q quit   h heat map   s sorted by {order}   p pause   up/down scroll{paused}"
    ))
}

/// Column heads of the servers, in the order of [`server_row`].
const SERVER_COLUMNS: [(&str, u16); 11] = [
    ("server", 16),
    ("state", 7),
    ("requests/s", 11),
    ("of mean", 8),
    ("hits", 8),
    ("replicas'", 10),
    ("evicted/s", 10),
    ("items", 10),
    ("memory", 14),
    ("conns", 7),
    ("cachelets", 10),
];

/// The columns that a narrow terminal goes without, the first one first.
const DROPPED: [usize; 6] = [5, 10, 9, 6, 7, 8];

/// The columns of the servers that fit beside each other.
fn fitting(width: u16) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..SERVER_COLUMNS.len()).collect();
    let taken = |kept: &[usize]| -> u16 { kept.iter().map(|&at| SERVER_COLUMNS[at].1 + 1).sum() };
    for at in DROPPED {
        if taken(&kept) > width {
            kept.retain(|&other| other != at);
        }
    }
    kept
}

fn servers(figures: &Figures, view: &View, width: u16) -> Table<'static> {
    let mut lines = figures.servers.clone();
    view.order.sort(&mut lines);
    let shown = lines
        .iter()
        .skip(view.scrolled.min(lines.len().saturating_sub(1)));
    let kept = fitting(width.saturating_sub(2));
    let columns: Vec<_> = kept.iter().map(|&at| SERVER_COLUMNS[at]).collect();
    table(
        "servers",
        &columns,
        shown.map(|line| server_row(line, &kept)).collect(),
    )
}

fn server_row(server: &ServerLine, kept: &[usize]) -> Row<'static> {
    let name = match &server.rack {
        Some(rack) => format!("{} ({rack})", server.name),
        None => server.name.clone(),
    };
    let style = match server.state {
        "up" if server.load_over_mean > UNEVEN => Style::new().fg(Color::Yellow),
        "up" => Style::new(),
        _ => Style::new().fg(Color::Red),
    };
    let cachelets = server.cachelets.map_or(String::new(), |n| n.to_string());
    let cells = [
        name,
        server.state.to_owned(),
        count(server.requests_per_second),
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

fn hot_keys_table(figures: &Figures) -> Table<'static> {
    let rows = figures.hot_keys.iter().map(hot_key_row).collect();
    table("hottest keys", &HOT_KEY_COLUMNS, rows)
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

fn table(
    title: &'static str,
    columns: &[(&'static str, u16)],
    rows: Vec<Row<'static>>,
) -> Table<'static> {
    let heads = columns.iter().map(|(head, _)| Cell::from(*head));
    let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
    Table::new(rows, widths)
        .header(Row::new(heads).style(Style::new().add_modifier(Modifier::DIM)))
        .block(Block::bordered().title(title))
}

/// `812`, `12.3k`, `4.56M`.
fn count(number: f64) -> String {
    match number {
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n if n >= 1e4 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

fn ratio(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.1} %", share * 100.0))
}

fn bytes(number: u64) -> String {
    match number {
        n if n >= 1 << 30 => format!("{:.1}G", n as f64 / (1u64 << 30) as f64),
        n if n >= 1 << 20 => format!("{:.0}M", n as f64 / (1u64 << 20) as f64),
        n => format!("{}K", n >> 10),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::looks;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(figures: &Figures, view: &View, width: u16, height: u16) -> String {
        drawn_as(&Shown::Servers(figures.clone()), view, width, height)
    }

    fn drawn_as(shown: &Shown, view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, shown, view)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content().chunks(usize::from(width));
        let text = |line: &[ratatui::buffer::Cell]| line.iter().map(|cell| cell.symbol()).collect();
        lines.map(text).collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn everything_is_on_the_screen() {
        let figures = Figures::new(1.0, &looks(), Some("the coordinator is away".into()));
        let text = drawn(&figures, &View::default(), 130, 24);
        for part in [
            "4000 requests/s on 3 servers, busiest 1.50 of the mean, hits 87.5 %, 2 hot keys with 3 replicas",
            "the coordinator is away",
            "s2               up      3000        1.50     100.0 %",
            "s3               silent",
            "sorted by load",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let at = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("{part} in\n{text}"))
        };
        assert!(at("s2  ") < at("s1  "), "the most loaded is first");
        assert!(at("│hot ") < at("│warm "), "the hottest is first");
    }

    #[test]
    fn a_narrow_terminal_goes_without_columns_and_shows_names_whole() {
        let mut figures = Figures::new(1.0, &looks(), None);
        let why = "its worker is 14 % busy, and looks from 30 %";
        figures.hot_keys.push(HotKey {
            why: Some(why.into()),
            replicas: 0,
            ..figures.hot_keys[0].clone()
        });
        let text = drawn(&figures, &View::default(), 80, 24);
        for part in [
            "server           state   requests/s  of mean",
            "memory",
            "14 % busy",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("evicted"), "{text}");
        assert!(text.contains("2 hot keys"), "{text}");
    }

    #[test]
    fn the_heat_map_takes_the_place_of_the_tables() {
        let mut figures = Figures::new(1.0, &looks(), None);
        let view = View {
            heat: true,
            ..View::default()
        };
        let text = drawn(&figures, &view, 60, 24);
        assert!(text.contains("none: it comes from a coordinator"), "{text}");
        figures.heat = Some(heat::tests::view());
        let text = drawn(&figures, &view, 60, 24);
        for part in [
            "4000 requests/s",
            "workers, at most 900/s",
            "s1/0             @-",
            "s1/1              -",
            "cachelets, at most 540/s",
            "6                @-",
            "7                ??",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("requests/s of mean"), "{text}");
        for (width, height) in [(1, 1), (10, 3), (19, 8), (300, 100)] {
            drawn(&figures, &view, width, height);
        }
    }

    #[test]
    fn what_a_proxy_sees_is_on_the_screen() {
        let mut figures = proxy::Figures {
            answered: true,
            shed_per_second: 3.0,
            servers: vec![proxy::Line {
                name: "s1/0".into(),
                state: "up".into(),
                window: 5,
                queued: 40,
                ..proxy::Line::default()
            }],
            ..proxy::Figures::default()
        };
        let shown = Shown::Proxy(figures.clone());
        let text = drawn_as(&shown, &View::default(), 130, 10);
        for part in ["to 1 servers, 3 refused/s", "s1/0", "40       -         5"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        figures.answered = false;
        let text = drawn_as(&Shown::Proxy(figures), &View::default(), 130, 10);
        assert!(text.contains("the proxy does not answer"), "{text}");
    }

    #[test]
    fn no_size_of_a_terminal_is_too_small_and_no_scrolling_too_far() {
        let figures = Figures::new(1.0, &looks(), None);
        let view = View {
            scrolled: 100,
            paused: true,
            ..View::default()
        };
        for (width, height) in [(1, 1), (10, 3), (80, 8), (300, 100)] {
            drawn(&figures, &view, width, height);
            drawn(&Figures::default(), &view, width, height);
        }
        assert!(drawn(&figures, &view, 130, 20).contains("PAUSED"));
    }
}
