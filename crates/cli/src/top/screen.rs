//! Draws figures on a terminal: where each box is.
//!
//! ```text
//!  80 × 24             160 × 50
//!  head                head
//!  servers             servers       │ proxies
//!  one box (Tab)       hottest keys  │ plans
//!  keys                              │ events
//!                      keys
//! ```

use super::figures::Figures;
use super::heat::{self, Part};
use super::servers::{hot_keys, listed, servers, table};
use super::units::count;
use super::view::{Page, Panel, View};
use super::{panels, proxy};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row};

/// Letters of a worker's or some cachelets' name that the heat map shows.
const HEAT_LABEL: usize = 16;

/// From this width on proxies, plans and events have a place of their own.
const WIDE: u16 = 130;

/// Width of that.
const SIDE: u16 = 52;

/// What there is to see.
pub enum Shown {
    Servers(Box<Figures>),
    Proxy(proxy::Figures),
}

impl Shown {
    /// How many servers are listed.
    pub fn len(&self, view: &View) -> usize {
        match self {
            Shown::Servers(figures) => listed(figures, view).len(),
            Shown::Proxy(figures) => figures.servers.len(),
        }
    }

    /// Why there is nothing to see, if nobody answers.
    pub fn silence(&self) -> Option<String> {
        match self {
            Shown::Servers(figures) => figures.silence(),
            Shown::Proxy(figures) => (!figures.answered).then(|| figures.head()),
        }
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, shown: &Shown, view: &View) {
    match shown {
        Shown::Servers(figures) => draw_servers(frame, figures, view),
        Shown::Proxy(figures) => draw_proxy(frame, figures, view),
    }
}

fn draw_proxy(frame: &mut Frame<'_>, figures: &proxy::Figures, view: &View) {
    let keys = (figures.hot_keys.len().max(1) + 3).min(usize::from(frame.area().height) / 2);
    let areas: [Rect; 4] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(4),
        Constraint::Length(keys as u16),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let style = match figures.answered && figures.shed_per_second == 0.0 {
        true => Style::new().add_modifier(Modifier::BOLD),
        false => Style::new().fg(Color::Yellow),
    };
    let rows = figures.servers.iter().skip(view.selected).map(|line| {
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
            "servers, by what waits for them".into(),
            &proxy::COLUMNS,
            rows.collect(),
        ),
        areas[1],
    );
    frame.render_widget(hot_keys(&figures.hot_keys, view, areas[2].width), areas[2]);
    frame.render_widget(Paragraph::new(foot(view)), areas[3]);
}

fn draw_servers(frame: &mut Frame<'_>, figures: &Figures, view: &View) {
    let [top, body, bottom]: [Rect; 3] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(4),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head(figures)), top);
    frame.render_widget(Paragraph::new(foot(view)), bottom);
    match view.page {
        Some(Page::Heat) => draw_heat(frame, figures, body),
        Some(Page::Help) => frame.render_widget(panels::help(), body),
        Some(Page::Details) => frame.render_widget(panels::details(figures, view), body),
        None if body.width >= WIDE => {
            let [left, right] =
                Layout::horizontal([Constraint::Min(4), Constraint::Length(SIDE)]).areas(body);
            draw_tables(frame, figures, view, left, Panel::Keys);
            draw_side(frame, figures, right);
        }
        None => draw_tables(frame, figures, view, body, view.panel),
    }
}

/// The servers, and a box below them.
fn draw_tables(frame: &mut Frame<'_>, figures: &Figures, view: &View, area: Rect, panel: Panel) {
    let cluster = figures.cluster.as_ref();
    let lines = match panel {
        Panel::Keys => figures.hot_keys.len(),
        Panel::Proxies => cluster.map_or(0, |cluster| cluster.proxies.len()),
        Panel::Plans => cluster.map_or(0, |cluster| 2 * cluster.plans.len()),
        Panel::Events => cluster.map_or(0, |cluster| cluster.events.len()),
    };
    // The servers get what they need up to half, and what the box leaves.
    let needed = lines.max(1) + 3;
    let left = usize::from(area.height).saturating_sub(listed(figures, view).len() + 3);
    let height = needed.min(left.max(usize::from(area.height) / 2)) as u16;
    let [upper, lower] =
        Layout::vertical([Constraint::Min(4), Constraint::Length(height)]).areas(area);
    let size = (upper.width, upper.height);
    frame.render_widget(servers(figures, view, size), upper);
    match panel {
        Panel::Keys => {
            frame.render_widget(hot_keys(&figures.hot_keys, view, lower.width), lower);
        }
        Panel::Proxies => frame.render_widget(panels::proxies(cluster, lower.width), lower),
        Panel::Plans => frame.render_widget(panels::plans(cluster), lower),
        Panel::Events => frame.render_widget(panels::events(cluster), lower),
    }
}

/// Proxies, plans and events.
fn draw_side(frame: &mut Frame<'_>, figures: &Figures, area: Rect) {
    let cluster = figures.cluster.as_ref();
    let proxies = cluster.map_or(0, |cluster| cluster.proxies.len()).max(1) + 3;
    let third = usize::from(area.height) / 3;
    let areas: [Rect; 3] = Layout::vertical([
        Constraint::Length(proxies.min(third) as u16),
        Constraint::Length(third as u16),
        Constraint::Min(3),
    ])
    .areas(area);
    frame.render_widget(panels::proxies(cluster, areas[0].width), areas[0]);
    frame.render_widget(panels::plans(cluster), areas[1]);
    frame.render_widget(panels::events(cluster), areas[2]);
}

fn draw_heat(frame: &mut Frame<'_>, figures: &Figures, area: Rect) {
    let block = Block::bordered().title("load of workers and cachelets, a column a second");
    let (width, height) = (area.width.saturating_sub(2), area.height.saturating_sub(2));
    let lines = heat_map(figures, usize::from(width), usize::from(height));
    frame.render_widget(Paragraph::new(lines).block(block), area);
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
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let second = match &figures.warning {
        Some(warning) => Line::styled(warning.clone(), Style::new().fg(Color::Yellow)),
        None => Line::from(figures.actions()),
    };
    vec![Line::styled(figures.head(), bold), second]
}

fn foot(view: &View) -> Line<'static> {
    if view.types_filter {
        return Line::from(format!(
            "list only names with: {}_   Enter done",
            view.filter
        ));
    }
    let paused = if view.paused { "PAUSED   " } else { "" };
    let order = view.order.name();
    let reversed = if view.reversed { ", reversed" } else { "" };
    Line::from(format!(
        "{paused}q quit  ? help  h heat map  Tab next box  Enter details  / filter  s by {order}{reversed}"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::cluster::tests::cluster;
    use super::super::figures::tests::looks;
    use super::*;
    use crate::watch::HotKey;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::time::Duration;

    fn view() -> View {
        View::new(Duration::from_secs(1))
    }

    fn drawn(figures: &Figures, view: &View, width: u16, height: u16) -> String {
        drawn_as(
            &Shown::Servers(Box::new(figures.clone())),
            view,
            width,
            height,
        )
    }

    fn drawn_as(shown: &Shown, view: &View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, shown, view)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content().chunks(usize::from(width));
        let text = |line: &[ratatui::buffer::Cell]| line.iter().map(|cell| cell.symbol()).collect();
        lines.map(text).collect::<Vec<String>>().join("\n")
    }

    fn assert_shown(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    /// Three servers, a coordinator that tells of two of them, and a key without replicas.
    fn figures() -> Figures {
        let mut figures = Figures::new(1.0, &looks(), None);
        figures.hot_keys.push(HotKey {
            key: "calm".into(),
            why: Some("its worker is 14 % busy, and looks from 30 %".into()),
            replicas: 0,
            ..figures.hot_keys[0].clone()
        });
        figures.add_cluster(cluster());
        for server in &mut figures.servers {
            server.history = vec![0.0, server.requests_per_second];
        }
        figures
    }

    #[test]
    fn a_wide_terminal_shows_everything_at_once() {
        let text = drawn(&figures(), &view(), 160, 50);
        assert_shown(
            &text,
            &[
                "4000 requests/s on 3 servers, busiest worker 1.50 of the mean, hits 87.5 %",
                "busiest worker 97 % busy · 2 hot keys with 3 replicas · plans: mode observe",
                "s2               up       3000        97 %   1.50     100.0 %",
                "s1               draining",
                "s3               silent",
                "▁█",
                "proxy-1",
                "silent 7 s",
                "3.2",
                "12 s server fenced: s9, 32 cachelets",
                "14 % busy",
                "s by load",
            ],
        );
        let at = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("{part} in\n{text}"))
        };
        assert!(at("s2  ") < at("s1  "), "the most loaded is first");
        assert!(at("│hot ") < at("│warm "), "the hottest is first");
        let figures = Figures {
            warning: Some("the coordinator is away".into()),
            ..figures()
        };
        let text = drawn(&figures, &view(), 160, 50);
        assert_shown(&text, &["the coordinator is away"]);
    }

    #[test]
    fn a_narrow_terminal_shows_names_whole_and_a_box_at_a_time() {
        let figures = figures();
        let text = drawn(&figures, &view(), 80, 24);
        assert_shown(
            &text,
            &[
                "server           state    requests/s  busy   of mean  hits     memory",
                "busiest worker 1.50 of the mean",
                "2 hot keys",
                "14 % busy",
                "? help",
            ],
        );
        assert!(!text.contains("evicted"), "{text}");
        for (panel, part) in [
            (Panel::Proxies, "proxy-1"),
            (Panel::Plans, "mode observe, loads: nobody is overloaded"),
            (Panel::Events, "12 s server fenced: s9"),
        ] {
            let view = View { panel, ..view() };
            assert_shown(&drawn(&figures, &view, 80, 24), &[part, "s1"]);
        }
    }

    #[test]
    fn a_proxy_with_a_long_name_is_shown_with_all_of_it() {
        let mut figures = figures();
        let name = "proxy-of-the-shop-in-frankfurt-7";
        let cluster = figures.cluster.as_mut().expect("there is a coordinator");
        cluster.proxies[0].name = name.to_owned();
        let view = View {
            panel: Panel::Proxies,
            ..view()
        };
        assert_shown(&drawn(&figures, &view, 80, 24), &[name]);
    }

    #[test]
    fn a_box_without_a_coordinator_says_so() {
        let figures = Figures::new(1.0, &looks(), None);
        for panel in [Panel::Proxies, Panel::Plans, Panel::Events] {
            let view = View { panel, ..view() };
            let text = drawn(&figures, &view, 80, 24);
            assert_shown(
                &text,
                &["none: a coordinator tells them", "busiest server 1.50"],
            );
        }
    }

    #[test]
    fn a_server_that_is_chosen_is_shown_with_its_workers() {
        let mut view = View {
            page: Some(Page::Details),
            ..view()
        };
        let text = drawn(&figures(), &view, 80, 24);
        assert_shown(
            &text,
            &["s2 up: 3000 requests/s, 5 items", "2900       97.0 %"],
        );
        view.selected = 2;
        let text = drawn(&figures(), &view, 80, 24);
        assert_shown(&text, &["s3 silent", "connection refused"]);
        view.page = Some(Page::Help);
        assert_shown(
            &drawn(&figures(), &view, 80, 24),
            &["COLD_PENDING", "twice as often"],
        );
    }

    #[test]
    fn a_filter_leaves_the_others_out() {
        let view = View {
            filter: "s1".into(),
            ..view()
        };
        let text = drawn(&figures(), &view, 80, 24);
        assert_shown(&text, &["servers with \"s1\"", "s1  "]);
        assert!(!text.contains("s2  ") && !text.contains("│hot "), "{text}");
        assert_eq!(Shown::Servers(Box::new(figures())).len(&view), 1);
    }

    #[test]
    fn the_selected_server_is_on_the_screen_however_many_there_are() {
        let mut figures = figures();
        let one = figures.servers[0].clone();
        figures.servers = (0..1000)
            .map(|number| super::super::figures::ServerLine {
                name: format!("server-{number:04}"),
                ..one.clone()
            })
            .collect();
        let view = View {
            selected: 700,
            ..view()
        };
        assert_shown(&drawn(&figures, &view, 80, 24), &["server-0700"]);
    }

    #[test]
    fn the_heat_map_takes_the_place_of_the_tables() {
        let mut figures = Figures::new(1.0, &looks(), None);
        let view = View {
            page: Some(Page::Heat),
            ..view()
        };
        let text = drawn(&figures, &view, 60, 24);
        assert!(text.contains("none: it comes from a coordinator"), "{text}");
        figures.heat = Some(heat::tests::view());
        let text = drawn(&figures, &view, 60, 24);
        assert_shown(
            &text,
            &[
                "4000 requests/s",
                "workers, at most 900/s",
                "s1/0             @-",
                "s1/1              -",
                "cachelets, at most 540/s",
                "6                @-",
                "7                ??",
            ],
        );
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
            hot_keys: vec![HotKey {
                home: "main".into(),
                why: Some("hot_keys is off in this pool".into()),
                ..figures().hot_keys[0].clone()
            }],
            ..proxy::Figures::default()
        };
        let text = drawn_as(&Shown::Proxy(figures.clone()), &view(), 130, 16);
        assert_shown(
            &text,
            &[
                "to 1 servers, 3 refused/s",
                "s1/0",
                "40       -         5",
                "main",
                "hot_keys is off",
            ],
        );
        figures.answered = false;
        figures.cause = Some("connection refused".into());
        let shown = Shown::Proxy(figures);
        let silent = "the proxy does not answer: connection refused";
        assert_shown(&drawn_as(&shown, &view(), 130, 10), &[silent]);
        assert_eq!(shown.silence().as_deref(), Some(silent));
    }

    #[test]
    fn no_size_of_a_terminal_is_too_small_and_no_selection_too_far() {
        let view = View {
            selected: 100,
            paused: true,
            ..view()
        };
        for page in [None, Some(Page::Help), Some(Page::Details)] {
            let view = View {
                page,
                ..view.clone()
            };
            for (width, height) in [(1, 1), (10, 3), (80, 8), (129, 5), (300, 100)] {
                drawn(&figures(), &view, width, height);
                drawn(&Figures::default(), &view, width, height);
            }
        }
        assert!(drawn(&figures(), &view, 130, 20).contains("PAUSED"));
    }
}
