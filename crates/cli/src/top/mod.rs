//! `evenkeel top`: servers, their load, and hot keys, live in a terminal; or the servers of a proxy as it sees them.
//!
//! ```text
//!  coordinator ──> members ──┐
//!  servers ──stats──> watch ─┴─> figures ─┬─> screen │ table │ JSON
//!  proxy ────stats─────────────> proxy ───┘
//! ```

mod figures;
mod heat;
mod proxy;
mod screen;

use crate::ask::{Format, client, plain_table, usual_coordinator};
use crate::watch::Watch;
use anyhow::{Context, bail};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use evenkeel_member::access::AccessArgs;
use evenkeel_member::client::ApiClient;
use evenkeel_runtime::UsageError;
use figures::{Figures, Member};
use ratatui::DefaultTerminal;
use screen::{Shown, View};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::net::{SocketAddr, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

/// Servers that are asked at the same time. One that does not answer holds up the others of its thread for as
/// long as a look may take.
const ASKED_AT_ONCE: usize = 32;

/// Shortest and longest time between two looks.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// Shows servers, their load and their hot keys, live.
///
/// Keys: q or Esc quits, s changes the order of servers, p pauses, up and down scroll.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Servers to watch, HOST:PORT; memcached's own servers, too
    #[arg(value_name = "SERVER")]
    pub servers: Vec<String>,

    /// Watch all servers of this coordinator's cluster [default: the first of EVENKEEL_COORDINATOR, or 127.0.0.1:11210]
    #[arg(long, value_name = "URL", conflicts_with = "servers")]
    pub coordinator: Option<String>,

    /// Watch the servers of this Evenkeel proxy as it sees them: what waits for each, what is refused
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["servers", "coordinator"])]
    pub proxy: Option<String>,

    /// How the coordinator lets this command in
    #[command(flatten)]
    pub access: AccessArgs,

    /// Time between two looks, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub interval: f64,

    /// Look twice, print what came between, and end: for scripts
    #[arg(long)]
    pub once: bool,

    /// How to print; JSON is printed once
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

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
        return print(&observer.look(0), args.format);
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
    let mut view = View::default();
    let mut figures = observer.look(0);
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| screen::draw(frame, &figures, &view))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            let had_heat = view.heat;
            if let Event::Key(key) = event::read()?
                && press(&mut view, key, figures.len())
            {
                return Ok(());
            }
            if view.heat && !had_heat {
                next = Instant::now();
            }
        } else {
            next = Instant::now() + interval;
            if !view.paused {
                // As many seconds as can be drawn, each a letter.
                let columns = if view.heat { terminal.size()?.width } else { 0 };
                figures = observer.look(columns.into());
            }
        }
    }
}

/// What a key does; whether it was the last.
fn press(view: &mut View, key: KeyEvent, servers: usize) -> bool {
    if key.kind == KeyEventKind::Release {
        return false;
    }
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Char('h') => view.heat = !view.heat,
        KeyCode::Char('s') => view.order = view.order.next(),
        KeyCode::Char('p') => view.paused = !view.paused,
        KeyCode::Down => view.scrolled = (view.scrolled + 1).min(servers.saturating_sub(1)),
        KeyCode::Up => view.scrolled = view.scrolled.saturating_sub(1),
        _ => {}
    }
    false
}

fn print(figures: &Shown, format: Format) -> anyhow::Result<()> {
    match figures {
        Shown::Servers(figures) => format.print(figures, table),
        Shown::Proxy(figures) => format.print(figures, proxy_table),
    }
}

fn proxy_table(figures: &proxy::Figures) -> String {
    let heads = proxy::COLUMNS.map(|(head, _)| head);
    let table = plain_table(heads, figures.servers.iter().map(proxy::Line::cells));
    format!("{}\n{table}", figures.head())
}

/// The same as on the screen, for a log.
fn table(figures: &Figures) -> String {
    let rows = figures.servers.iter().map(|server| {
        let (hits, holds) = (server.hit_ratio, &server.holdings);
        [
            server.name.clone(),
            server.state.to_owned(),
            format!("{:.0}", server.requests_per_second),
            format!("{:.2}", server.load_over_mean),
            hits.map_or("-".into(), |hits| format!("{hits:.3}")),
            holds.items.to_string(),
            format!("{}/{}", holds.memory_bytes, holds.memory_limit_bytes),
            holds.connections.to_string(),
        ]
    });
    let heads = "server|state|requests/s|of mean|hits|items|memory B|connections";
    let table = plain_table(heads.split('|'), rows);
    let mut text = format!(
        "{:.0} requests/s, busiest {:.2} of the mean, {} hot keys with {} replicas\n{table}",
        figures.requests_per_second,
        figures.load_max_over_mean,
        figures.replicated(),
        figures.replicas
    );
    for key in &figures.hot_keys {
        text += &format!("\n{} at {}: ", key.key, key.home);
        text += &match &key.why {
            None => format!(
                "{}, {:.0} requests/s, {} replicas",
                key.state, key.requests_per_second, key.replicas
            ),
            Some(why) => format!(
                "{:.0} requests/s, no replicas: {why}",
                key.requests_per_second
            ),
        };
    }
    if let Some(warning) = &figures.warning {
        text += &format!("\n{warning}");
    }
    text
}

/// Asks everybody.
struct Observer {
    proxy: Option<proxy::Observer>,
    coordinator: Option<ApiClient>,
    members: Vec<(Member, SocketAddr)>,
    watches: BTreeMap<SocketAddr, Watch>,
    warning: Option<String>,
    looked: Option<Instant>,
}

impl Observer {
    fn new(args: &Args) -> anyhow::Result<Observer> {
        let proxy = args.proxy.as_deref().map(resolve).transpose()?;
        let mut observer = Observer {
            proxy: proxy.map(proxy::Observer::new),
            coordinator: None,
            members: Vec::new(),
            watches: BTreeMap::new(),
            warning: None,
            looked: None,
        };
        let is_told = args.proxy.is_some() || !args.servers.is_empty();
        let usual = || (!is_told).then(usual_coordinator);
        match args.coordinator.clone().or_else(usual) {
            Some(address) => {
                let api = client(&address, &args.access)?;
                observer.members = members(&api)?;
                observer.coordinator = Some(api);
            }
            None => {
                for server in &args.servers {
                    let member = Member {
                        name: server.clone(),
                        is_up: true,
                        ..Member::default()
                    };
                    observer.members.push((member, resolve(server)?));
                }
            }
        }
        Ok(observer)
    }

    /// What happened since the last look, and so many columns of the heat map.
    fn look(&mut self, columns: usize) -> Shown {
        let now = Instant::now();
        let seconds = self
            .looked
            .replace(now)
            .map_or(0.0, |last| (now - last).as_secs_f64());
        match &mut self.proxy {
            Some(proxy) => Shown::Proxy(proxy.look(seconds)),
            None => Shown::Servers(self.look_at_servers(seconds, columns)),
        }
    }

    fn look_at_servers(&mut self, seconds: f64, columns: usize) -> Figures {
        self.find_members();
        let heat = match &self.coordinator {
            Some(api) if columns > 0 => api.heat(columns).ok(),
            _ => None,
        };
        let mut known = std::mem::take(&mut self.watches);
        let mut asked: Vec<_> = self
            .members
            .iter()
            .map(|(member, address)| {
                let watch = known
                    .remove(address)
                    .unwrap_or_else(|| Watch::new(*address));
                (member.clone(), watch, None)
            })
            .collect();
        let share = asked.len().div_ceil(ASKED_AT_ONCE).max(1);
        thread::scope(|scope| {
            for some in asked.chunks_mut(share) {
                scope.spawn(|| {
                    for (_, watch, stats) in some {
                        *stats = watch.look();
                    }
                });
            }
        });
        let mut looks = Vec::with_capacity(asked.len());
        for (member, watch, stats) in asked {
            self.watches.insert(watch.address(), watch);
            looks.push((member, stats));
        }
        Figures {
            heat,
            ..Figures::new(seconds, &looks, self.warning.clone())
        }
    }

    /// Servers may have come and gone. While the coordinator is away the last ones are watched on.
    fn find_members(&mut self) {
        let Some(api) = &self.coordinator else { return };
        match members(api) {
            Ok(members) => {
                self.members = members;
                self.warning = None;
            }
            Err(error) => self.warning = Some(format!("{error:#}")),
        }
    }
}

fn members(api: &ApiClient) -> anyhow::Result<Vec<(Member, SocketAddr)>> {
    let view = api.servers()?;
    let members = view.servers.into_iter().map(|server| {
        let address = resolve(&format!("{}:{}", bracketed(&server.host), server.port))?;
        let member = Member {
            name: server.name,
            rack: server.rack,
            cachelets: Some(server.cachelets),
            epoch: Some(server.epoch.0),
            is_up: server.up,
        };
        Ok((member, address))
    });
    members.collect()
}

/// IPv6 addresses need brackets before a port.
fn bracketed(host: &str) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

fn resolve(server: &str) -> anyhow::Result<SocketAddr> {
    let mut found = server
        .to_socket_addrs()
        .with_context(|| format!("{server} is no address of a server (HOST:PORT)"))?;
    found
        .next()
        .with_context(|| format!("{server} has no address"))
}
