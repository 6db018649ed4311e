//! `evenkeel ring`: pools whose hash space follows the load, seen and moved by hand.

use crate::ask::{self, CoordinatorArgs, Format};
use crate::changes;
use anyhow::ensure;
use clap::Subcommand;
use evenkeel_coordinator_core::{
    CopiedServer, GrainsMove, RingCopy, RingLoadView, RingMode, RingMoveRequest, RingMoveView,
    RingServerRequest, RingSettings, RingSettingsRequest, RingUnreachedView, RingView, RingsView,
    ServerOrder,
};
use evenkeel_member::client::ApiClient;

/// Shows the rings of pools whose hash space follows the load, and moves parts of them.
///
/// A pool with distribution = "adaptive" in the files of its proxies has a ring: each server has slices of the hash space, and slices change
/// hands without a restart of anything. A move goes through the stages former, quiesced, warming, closing and done, all proxies
/// together.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The coordinator to ask
    #[command(flatten)]
    pub coordinator: CoordinatorArgs,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table, global = true)]
    pub format: Format,

    /// What to do; without it, show all
    #[command(subcommand)]
    pub command: Option<What>,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Shows each ring with its servers, what moves, and what that waits for
    Show {
        /// Which; without it, all
        pool: Option<String>,
    },
    /// Moves a part of a ring to another server, and returns when that is accepted: the proxies follow by themselves
    Move {
        /// Which
        pool: String,
        /// The server that gives, as it is shown
        #[arg(long, value_name = "SERVER")]
        from: String,
        /// The server that gets
        #[arg(long, value_name = "SERVER")]
        to: String,
        /// About how much: 4,096ths of the ring
        #[arg(long, value_name = "N")]
        grains: u32,
        /// How many proxies have the pool in their files, as you know: one that the coordinator does not know of would be left behind
        #[arg(long, value_name = "N")]
        proxies: usize,
    },
    /// Executes what is planned for a ring that is observed, as it is shown
    Approve {
        /// Which
        pool: String,
        /// How many proxies have the pool in their files, as you know
        #[arg(long, value_name = "N")]
        proxies: usize,
    },
    /// Adds a server, which gets a fair part of what those have that carry more than the mean, with the items that are asked for meanwhile
    Add {
        /// Which
        pool: String,
        /// HOST or HOST:PORT of a memcached that every proxy reaches, "HOST:PORT NAME" where servers have names; or what one is known by
        /// that was in the ring before
        server: String,
        /// How many proxies have the pool in their files, as you know
        #[arg(long, value_name = "N")]
        proxies: usize,
    },
    /// Gives all that a server has to its neighbours, with the items that are asked for meanwhile; when the ring is done, it can be stopped
    Drain {
        /// Which
        pool: String,
        /// The server, as it is shown
        server: String,
        /// How many proxies have the pool in their files, as you know
        #[arg(long, value_name = "N")]
        proxies: usize,
    },
    /// Gives all that a dead server has to its neighbours: nobody asks it any more, and they begin with nothing of it
    Lose {
        /// Which
        pool: String,
        /// The server, as it is shown
        server: String,
        /// How many proxies have the pool in their files, as you know
        #[arg(long, value_name = "N")]
        proxies: usize,
    },
    /// Says how a ring follows its load; without a choice, nothing changes
    Settings {
        /// Which
        pool: String,
        /// What is done about what its servers carry: nothing is measured (off), plans are shown (observe), or executed (automatic)
        #[arg(long, value_enum)]
        mode: Option<Mode>,
        /// How many proxies have the pool in their files, as you know; automatic moves nothing and loses no dead server while another number
        /// follows
        #[arg(long, value_name = "N")]
        proxies: Option<usize>,
        /// How long the load is measured before it is looked at, in milliseconds, 1000 to 600000
        #[arg(long, value_name = "MS")]
        slot_ms: Option<u64>,
        /// For how long items that are asked for come along with a part that moves, in milliseconds, at most 600000
        #[arg(long, value_name = "MS")]
        warming_ms: Option<u64>,
        /// How many keys of what moves the coordinator asks a proxy for in a second, so that all items come along; 0 for none
        #[arg(long, value_name = "N")]
        copy_keys_per_second: Option<u32>,
        /// For how long no proxy has reached a server before it is dead and, in mode automatic, goes, in milliseconds, 1000 to 600000
        #[arg(long, value_name = "MS")]
        dead_after_ms: Option<u64>,
    },
    /// Takes a move back, as long as the pool is not warming
    Withdraw {
        /// Which
        pool: String,
    },
}

/// What is done about what the servers of a ring carry.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Mode {
    /// Nothing is measured
    Off,
    /// Plans are made and shown
    Observe,
    /// Plans are executed
    Automatic,
}

/// Asks, or says what is wanted, and prints the answer.
///
/// # Errors
/// When the address is none, or the coordinator refuses or does not answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let client = args.coordinator.client()?;
    let format = args.format;
    match args.command.as_ref().unwrap_or(&What::Show { pool: None }) {
        What::Show { pool } => {
            let mut view = client.rings()?;
            if let Some(pool) = pool {
                view.rings.retain(|ring| ring.change.pool == *pool);
                ensure!(!view.rings.is_empty(), "no pool {pool:?} has a ring here");
            }
            format.print(&view, overview)
        }
        What::Move {
            pool,
            from,
            to,
            grains,
            proxies,
        } => {
            let request = RingMoveRequest {
                grains: vec![GrainsMove {
                    from: from.clone(),
                    to: to.clone(),
                    grains: *grains,
                }],
                proxies: *proxies,
                ..RingMoveRequest::default()
            };
            format.print_done(&client.begin_ring_move(pool, &request)?, ordered)
        }
        What::Approve { pool, proxies } => {
            let request = RingMoveRequest {
                planned: true,
                proxies: *proxies,
                ..RingMoveRequest::default()
            };
            format.print_done(&client.begin_ring_move(pool, &request)?, ordered)
        }
        What::Add {
            pool,
            server,
            proxies,
        } => order(&client, format, pool, (ServerOrder::Add, server, *proxies)),
        What::Drain {
            pool,
            server,
            proxies,
        } => order(
            &client,
            format,
            pool,
            (ServerOrder::Drain, server, *proxies),
        ),
        What::Lose {
            pool,
            server,
            proxies,
        } => order(&client, format, pool, (ServerOrder::Lose, server, *proxies)),
        What::Settings {
            pool,
            mode,
            proxies,
            slot_ms,
            warming_ms,
            copy_keys_per_second,
            dead_after_ms,
        } => {
            let request = RingSettingsRequest {
                mode: mode.map(|mode| match mode {
                    Mode::Off => RingMode::Off,
                    Mode::Observe => RingMode::Observe,
                    Mode::Automatic => RingMode::Automatic,
                }),
                proxies: *proxies,
                slot_ms: *slot_ms,
                warming_ms: *warming_ms,
                copy_keys_per_second: *copy_keys_per_second,
                dead_after_ms: *dead_after_ms,
            };
            format.print_done(&client.set_ring(pool, &request)?, follows)
        }
        What::Withdraw { pool } => {
            format.print_done(&client.withdraw_change(pool)?, changes::withdrawn)
        }
    }
}

fn order(
    client: &ApiClient,
    format: Format,
    pool: &str,
    (what, server, proxies): (ServerOrder, &str, usize),
) -> anyhow::Result<()> {
    let request = RingServerRequest {
        what,
        server: server.to_owned(),
        proxies,
    };
    format.print_done(&client.begin_ring_server(pool, &request)?, ordered)
}

/// A paragraph for each ring.
fn overview(view: &RingsView) -> String {
    if view.rings.is_empty() {
        return "no pool has a ring here".to_owned();
    }
    let rings = view.rings.iter().map(details);
    rings.collect::<Vec<_>>().join("\n\n")
}

fn details(ring: &RingView) -> String {
    let mut text = changes::details(&ring.change);
    text += &format!("\n{}", follows(ring));
    if let Some(copy) = &ring.copy {
        text += &copied(copy);
    }
    for unreached in &ring.unreached {
        let RingUnreachedView {
            server,
            proxies,
            for_ms,
        } = unreached;
        let (seconds, of) = (for_ms / 1000, ring.change.proxies.len());
        text += &format!("\n{server} is not reached by {proxies} of {of} proxies, for {seconds} s");
    }
    let measured = ring.slot.as_ref().map_or(&[][..], |slot| &slot.servers);
    let servers = ring.servers.iter().enumerate().map(|(at, server)| {
        let load = measured.get(at);
        let number = |of: fn(&RingLoadView) -> String| load.map_or_else(|| "-".into(), of);
        [
            server.name.clone(),
            format!("{:.2}%", server.share * 100.0),
            server.slices.to_string(),
            number(|load| load.gets.to_string()),
            number(|load| match load.gets {
                0 => "-".into(),
                gets => format!("{:.1}%", load.hits as f64 / gets as f64 * 100.0),
            }),
            number(|load| load.writes.to_string()),
            number(|load| format!("{:.0}", load.load)),
        ]
    });
    let heads = "server|share|slices|gets/s|hits|writes/s|load/s";
    text += &format!("\n{}", ask::table(heads, servers));
    let planned = ring.slot.as_ref().map_or(&[][..], |slot| &slot.planned);
    for (what, moves) in [
        ("moves", &ring.moves[..]),
        ("waits", &ring.waiting[..]),
        ("planned", planned),
    ] {
        if moves.is_empty() {
            continue;
        }
        let rows = moves.iter().map(|part| {
            let hashes = format!("{:#010x} to {:#010x}", part.first, part.last);
            [hashes, share(part), part.from.clone(), part.to.clone()]
        });
        let heads = [what, "share", "from", "to"];
        text += &format!("\n{}", ask::plain_table(heads, rows));
    }
    if !ring.outcomes.is_empty() {
        let rows = ring.outcomes.iter().map(|of| {
            let after = of
                .after
                .map_or_else(|| "-".into(), |max| format!("{max:.2}"));
            let [before, predicted] = [of.before, of.predicted].map(|max| format!("{max:.2}"));
            let (plan, moves) = (of.plan.to_string(), of.moves.to_string());
            [plan, moves, before, predicted, after]
        });
        let heads = "plan|parts|busiest by mean before|predicted|after";
        text += &format!("\n{}", ask::table(heads, rows));
    }
    text
}

/// What was copied by the newest plan, a line for each server that gives.
fn copied(copy: &RingCopy) -> String {
    let plan = copy.plan;
    let servers = copy.servers.iter().map(|of| {
        let CopiedServer {
            server,
            listed,
            moving,
            found,
            refused,
            failed,
        } = of;
        let mut line = format!(
            "\nplan {plan}: {moving} of {listed} keys of {server} move, {found} were found"
        );
        if *refused > 0 {
            line += &format!(", {refused} refused as a server had too much to do");
        }
        if let Some(why) = failed {
            line += &format!("; the rest comes along only if it is asked for: {why}");
        }
        line
    });
    let mut text: String = servers.collect();
    if let Some(why) = &copy.failed {
        text += &format!("\nplan {plan}: not all is copied: {why}");
    }
    text
}

/// How a ring follows its load, and what was measured last.
fn follows(ring: &RingView) -> String {
    let RingSettings {
        mode,
        proxies,
        slot_ms,
        warming_ms,
        copy_keys_per_second,
        dead_after_ms,
    } = ring.settings;
    let mode = match mode {
        RingMode::Off => return "mode off: nothing is measured".to_owned(),
        RingMode::Observe => "observe: plans are shown, nothing moves".to_owned(),
        RingMode::Automatic => format!("automatic, while {proxies} proxies follow"),
    };
    let seconds = |ms: u64| ms as f64 / 1000.0;
    let (slot_s, warming_s, dead_s) = (
        seconds(slot_ms),
        seconds(warming_ms),
        seconds(dead_after_ms),
    );
    let copied = match copy_keys_per_second {
        0 => String::new(),
        keys => format!(", all items copied at {keys} keys/s"),
    };
    let mut text = format!(
        "mode {mode}; {warming_s:.1} s of warming{copied}; a server is dead after {dead_s:.1} s; slots of {slot_s:.1} s"
    );
    let Some(slot) = &ring.slot else {
        return text + ", none is over";
    };
    text += &format!(
        "; slot {}: told by {} of {} proxies",
        slot.number, slot.told, slot.followers
    );
    if !slot.down.is_empty() {
        text += &format!(
            "; nothing is planned while {} is out of use at a proxy",
            slot.down.join(", ")
        );
    }
    if let Some(max) = slot.max_by_mean {
        text += &format!(", the busiest server carries {max:.2} of the mean");
    }
    if let Some(predicted) = slot.predicted_max_by_mean {
        text += &format!(", {predicted:.2} when what is planned has moved");
    }
    for kept in &slot.kept {
        text += &format!("\n{} keeps more than its share: {}", kept.server, kept.why);
    }
    text
}

/// A part of the hash space.
fn share(part: &RingMoveView) -> String {
    let width = f64::from(part.last.wrapping_sub(part.first)) + 1.0;
    format!("{:.3}%", width / 2f64.powi(32) * 100.0)
}

fn ordered(ring: &RingView) -> String {
    let pool = &ring.change.pool;
    let server = ring.change.ring.as_ref().and_then(|it| it.server.as_ref());
    let order = match (server, ring.waiting.len()) {
        (Some(server), _) => changes::server(server),
        (None, 0) => format!("parts that move: {}", ring.moves.len()),
        (None, parts) => format!("parts that move when all have followed what was before: {parts}"),
    };
    format!("pool {pool}: {order}; to watch: evenkeel ring show {pool}, evenkeel changes history")
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_coordinator_core::{
        ChangeView, OverloadedServerView, PlanView, RingServerView, RingSlotView, Stage,
    };

    fn ring() -> RingView {
        let server = |name: &str, share| RingServerView {
            name: name.into(),
            share,
            slices: 100,
        };
        RingView {
            change: ChangeView {
                pool: "main".into(),
                stage: Stage::Warming,
                goal: Stage::Done,
                version: 7,
                since_ms: 60,
                proxies: Vec::new(),
                former_hits_ppm: None,
                ring: Some(PlanView {
                    number: 3,
                    moves: 1,
                    waiting: 0,
                    server: None,
                }),
                waits_for: Vec::new(),
                hint: "the next step is about to be published".into(),
            },
            generation: 2,
            servers: vec![server("m1", 0.25), server("m2", 0.75)],
            moves: vec![RingMoveView {
                first: 0xffff_0000,
                last: 0xffff,
                from: "m1".into(),
                to: "m2".into(),
            }],
            waiting: Vec::new(),
            settings: RingSettings::default(),
            copy: None,
            unreached: Vec::new(),
            slot: None,
            outcomes: Vec::new(),
        }
    }

    #[test]
    fn what_was_measured_is_told() {
        let mut ring = ring();
        assert!(follows(&ring).ends_with("slots of 5.0 s, none is over"));
        let load = |gets| RingLoadView {
            gets,
            hits: gets / 2,
            writes: 3,
            load: gets as f64,
        };
        ring.slot = Some(RingSlotView {
            number: 4,
            told: 2,
            followers: 3,
            down: Vec::new(),
            max_by_mean: Some(1.5),
            servers: vec![load(100), load(300)],
            planned: ring.moves.clone(),
            predicted_max_by_mean: Some(1.1),
            kept: vec![OverloadedServerView {
                server: "m2".into(),
                why: "that is why".into(),
            }],
        });
        let text = details(&ring);
        for part in [
            "slot 4: told by 2 of 3 proxies, the busiest server carries 1.50 of the mean, 1.10 when",
            "m2 keeps more than its share: that is why",
            "planned",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let mut lines = text.lines();
        let row = lines.find(|line| line.contains("75.00%")).expect("a row");
        assert!(row.contains("300") && row.contains("50.0%"), "{row}");
        ring.settings.mode = RingMode::Off;
        assert_eq!(follows(&ring), "mode off: nothing is measured");
    }

    #[test]
    fn a_ring_is_told_with_its_servers_and_what_moves() {
        let text = overview(&RingsView {
            rings: vec![ring()],
        });
        let first = "pool main: warming on the way to done, step 7, for 0.1 s, plan 3 of its ring (parts: 1)\n";
        assert!(text.starts_with(first), "{text}");
        let mut lines = text.lines();
        let row = lines.find(|line| line.contains("75.00%")).expect("a row");
        assert!(row.contains("m2") && row.contains("100"), "{text}");
        let row = lines.find(|line| line.contains("0xffff0000 to 0x0000ffff"));
        let row = row.expect("a part");
        assert!(row.contains("0.003%") && row.contains("m1"), "{text}");
        let none = RingsView { rings: vec![] };
        assert_eq!(overview(&none), "no pool has a ring here");
    }

    #[test]
    fn what_was_copied_is_told_with_what_was_not() {
        let mut ring = ring();
        ring.settings.copy_keys_per_second = 2000;
        let of = CopiedServer {
            server: "m1".into(),
            listed: 10,
            moving: 4,
            found: 3,
            refused: 1,
            failed: Some("m1: it does not list its keys: ERROR".into()),
        };
        ring.copy = Some(RingCopy {
            plan: 7,
            is_over: true,
            servers: vec![of],
            failed: Some("proxy a:1: it closed the connection".into()),
        });
        let text = details(&ring);
        for part in [
            "10.0 s of warming, all items copied at 2000 keys/s; a server",
            "\nplan 7: 4 of 10 keys of m1 move, 3 were found, 1 refused as a server had too much to do; the rest comes along only if it is asked for: m1: it does",
            "\nplan 7: not all is copied: proxy a:1: it closed the connection",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_was_ordered_is_told_with_what_to_watch() {
        let said = ordered(&ring());
        assert!(
            said.starts_with("pool main: parts that move: 1; to watch:"),
            "{said}"
        );
        let mut waits = ring();
        waits.waiting = core::mem::take(&mut waits.moves);
        assert!(ordered(&waits).contains("when all have followed"));
    }
}
