//! `evenkeel top`: servers, their load, and hot keys, live in a terminal; or the servers of a proxy as it sees them.
//!
//! ```text
//!  coordinator ─snapshot─> cluster ─┐
//!  servers ──stats──> watch ────────┴─> figures ─┬─> screen (view: what was chosen) │ table │ JSON
//!  proxy ────stats────────────────────> proxy ───┘
//! ```

mod args;
mod cluster;
mod figures;
mod heat;
mod observer;
mod panels;
mod proxy;
mod screen;
mod servers;
mod units;
mod view;

pub use args::Args;

use crate::ask::{Format, plain_table};
use anyhow::{Context, bail};
use crossterm::event::{self, Event};
use evenkeel_runtime::UsageError;
use figures::Figures;
use observer::Observer;
use ratatui::DefaultTerminal;
use screen::Shown;
use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};
use units::{bytes, count, ratio};
use view::{INTERVAL_MAX, INTERVAL_MIN, Page, View};

/// Runs it until the person at the terminal has seen enough.
///
/// # Errors
/// When an argument makes no sense, the terminal refuses, or nothing can be asked at the start.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let is_number = args.interval.is_finite() && args.interval > 0.0;
    let interval = Duration::from_secs_f64(if is_number {
        args.interval.min(1e6)
    } else {
        0.0
    });
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        let message = format!(
            "--interval {}: use {} to {} seconds",
            args.interval,
            INTERVAL_MIN.as_secs_f64(),
            INTERVAL_MAX.as_secs()
        );
        return Err(UsageError(message).into());
    }
    let mut observer = Observer::new(args)?;
    if args.once || args.format == Format::Json {
        observer.look(0);
        thread::sleep(interval);
        let shown = observer.look(0);
        print(&shown, args.format)?;
        return match shown.silence() {
            None => Ok(()),
            Some(why) => bail!("nobody answers: {why}"),
        };
    }
    if !io::stdout().is_terminal() {
        bail!(
            "standard output is no terminal; --once prints a single look, --format json for programs"
        );
    }
    let mut terminal = ratatui::try_init().context("the terminal refuses")?;
    let shown = show(&mut terminal, &mut observer, interval);
    // Whatever happened, the terminal must be usable.
    ratatui::restore();
    shown
}

fn show(
    terminal: &mut DefaultTerminal,
    observer: &mut Observer,
    interval: Duration,
) -> anyhow::Result<()> {
    let mut view = View::new(interval);
    let mut figures = observer.look(0);
    let mut next = Instant::now() + view.interval;
    loop {
        terminal.draw(|frame| screen::draw(frame, &figures, &view))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            let before = (view.page, view.interval);
            if let Event::Key(key) = event::read()?
                && view.press(key, figures.len(&view))
            {
                return Ok(());
            }
            if before != (view.page, view.interval) {
                next = Instant::now();
            }
        } else {
            next = Instant::now() + view.interval;
            if !view.paused {
                // As many seconds as can be drawn, each a letter.
                let columns = match view.page {
                    Some(Page::Heat) => terminal.size()?.width,
                    _ => 0,
                };
                figures = observer.look(columns.into());
            }
        }
    }
}

fn print(figures: &Shown, format: Format) -> anyhow::Result<()> {
    match figures {
        Shown::Servers(figures) => format.print(&**figures, table),
        Shown::Proxy(figures) => format.print(figures, proxy_table),
    }
}

fn proxy_table(figures: &proxy::Figures) -> String {
    let heads = proxy::COLUMNS.map(|(head, _)| head);
    let table = plain_table(heads, figures.servers.iter().map(proxy::Line::cells));
    let keys = figures.hot_keys.iter();
    let keys: String = keys.map(|key| format!("\n{}", key.sentence())).collect();
    format!("{}\n{table}{keys}", figures.head())
}

/// The same as on the screen, for a log.
fn table(figures: &Figures) -> String {
    let rows = figures.servers.iter().map(|server| {
        let holds = &server.holdings;
        [
            server.name.clone(),
            server.state.to_owned(),
            count(server.requests_per_second),
            format!("{:.2}", server.load_over_mean),
            ratio(server.busy),
            ratio(server.hit_ratio),
            count(holds.items as f64),
            format!(
                "{}/{}",
                bytes(holds.memory_bytes),
                bytes(holds.memory_limit_bytes)
            ),
            holds.connections.to_string(),
        ]
    });
    let heads = "server|state|requests/s|of mean|busy|hits|items|memory|connections";
    let mut text = format!(
        "{}\n{}",
        figures.head(),
        plain_table(heads.split('|'), rows)
    );
    for key in &figures.hot_keys {
        text += &format!("\n{}", key.sentence());
    }
    for line in figures.cluster.iter().flat_map(|cluster| &cluster.plans) {
        text += &format!("\n{line}");
    }
    if let Some(warning) = &figures.warning {
        text += &format!("\n{warning}");
    }
    text
}
