//! `evenkeel ring copy`: items come along that nobody asks for while a part of a ring moves.
//!
//! memcached lists its keys (`lru_crawler metadump`). Those that are about to change hands are asked for at a proxy, which brings each
//! item as it does for any application. So there is no other way to copy an item than the one that applications use.

use crate::ask::{CoordinatorArgs, Format};
use anyhow::{Context, bail, ensure};
use evenkeel_control::rings::{Moving, RingPlan};
use evenkeel_coordinator_core::{RingView, Stage};
use evenkeel_member::client::ApiClient;
use evenkeel_protocol::base64;
use evenkeel_runtime::{resolve, resolve_server};
use percent_encoding::percent_decode;
use serde::Serialize;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long a server or a proxy may take for the next line.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A plan that was ordered has begun to warm by then, unless a proxy is away.
const WARMING_LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

/// Keys that are asked for at once: this many the slowest server answers in a few milliseconds, before other requests are refused.
const BATCH: usize = 8;

/// Asks a proxy for all items that are about to change hands, so that those come along that nobody asks for.
///
/// Order the plan first, with a --warming-ms that leaves time for it: what the plan is done before is left behind.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Which
    pub pool: String,

    /// Any proxy of the pool
    #[arg(long, value_name = "HOST[:PORT]")]
    pub proxy: String,

    /// Most keys that are asked for in a second
    #[arg(long, default_value_t = 2000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keys_per_second: u32,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Copied {
    plan: u64,
    servers: Vec<CopiedServer>,
    /// The plan went on before all was copied.
    cut_off: bool,
}

/// What was done with the items of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct CopiedServer {
    server: String,
    /// Keys that it listed.
    listed: u64,
    /// Those of them that change hands.
    moving: u64,
    /// Those of them whose item the proxy found, at the new place or at this one.
    found: u64,
    /// Why not all of its keys were listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

/// Copies what the plan of a ring moves that is under way.
///
/// # Errors
/// When no plan is under way, or the coordinator or the proxy does not answer.
pub fn run(args: &Args, coordinator: &CoordinatorArgs, format: Format) -> anyhow::Result<()> {
    let client = coordinator.client()?;
    let plan = wait_until_warming(&client, &args.pool)?;
    let moving = Moving::new(&plan).context("the coordinator's plan is none")?;
    let mut proxy = Proxy::connect(&args.proxy, args.keys_per_second)?;
    let mut copied = Copied {
        plan: plan.number,
        ..Copied::default()
    };
    let shows = format == Format::Table && io::stderr().is_terminal();
    for giver in moving.givers() {
        let server = &plan.placement.servers[usize::from(giver)];
        let mut done = CopiedServer {
            server: server.identity(),
            ..CopiedServer::default()
        };
        let still = || is_warming(&client, &args.pool, plan.number);
        let dumped = dump(&server.host, server.port).and_then(|lines| {
            let shown = |done: &CopiedServer| {
                if shows {
                    let CopiedServer { server, moving, .. } = done;
                    eprint!("\r\x1b[K{server}: {moving} keys asked for");
                }
            };
            copy(lines, &moving, &mut proxy, &mut done, still, shown)
        });
        match dumped {
            Ok(is_whole) => copied.cut_off |= !is_whole,
            Err(error) => done.failed = Some(format!("{error:#}")),
        }
        copied.servers.push(done);
        if copied.cut_off {
            break;
        }
    }
    if shows {
        eprint!("\r\x1b[K");
    }
    format.print_done(&copied, |copied| sentences(copied, &args.pool))
}

fn ring_of(client: &ApiClient, pool: &str) -> anyhow::Result<RingView> {
    let mut rings = client.rings()?.rings.into_iter();
    let ring = rings.find(|ring| ring.change.pool == pool);
    ring.with_context(|| format!("no pool {pool:?} has a ring here"))
}

/// The plan under way, when items are brought.
fn wait_until_warming(client: &ApiClient, pool: &str) -> anyhow::Result<RingPlan> {
    let end = Instant::now() + WARMING_LIMIT;
    loop {
        let ring = ring_of(client, pool)?;
        let change = &ring.change;
        let waits = change.ring.as_ref().is_some_and(|plan| {
            plan.waiting > 0 || plan.server.is_some() && change.stage == change.goal
        });
        match change.stage {
            Stage::Warming => return Ok(client.ring_plan(pool)?),
            stage if change.stage == change.goal && !waits => bail!(
                "no plan of pool {pool} is under way (stage {stage}): order one first, after evenkeel ring settings {pool} --warming-ms MS"
            ),
            Stage::Closing => bail!("pool {pool} is closing: nothing is brought any more"),
            _ => {}
        }
        ensure!(
            Instant::now() < end,
            "the plan of pool {pool} does not begin to warm: {}",
            change.hint
        );
        std::thread::sleep(LOOK);
    }
}

fn is_warming(client: &ApiClient, pool: &str, plan: u64) -> anyhow::Result<bool> {
    let ring = ring_of(client, pool)?;
    let number = ring.change.ring.as_ref().map(|plan| plan.number);
    Ok(ring.change.stage == Stage::Warming && number == Some(plan))
}

/// The lines of all keys that a memcached has.
fn dump(
    host: &str,
    port: u16,
) -> anyhow::Result<impl Iterator<Item = io::Result<Vec<u8>>> + use<>> {
    let mut lines = connect(resolve(host, port))?;
    lines.get_mut().write_all(b"lru_crawler metadump all\r\n")?;
    Ok(lines.split(b'\n'))
}

fn connect(to: Result<SocketAddr, String>) -> anyhow::Result<BufReader<TcpStream>> {
    let address = to.map_err(anyhow::Error::msg)?;
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)
        .with_context(|| format!("connecting to {address}"))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(BufReader::new(stream))
}

/// Asks for what is listed and moves. False if the plan has gone on before the end.
fn copy(
    lines: impl Iterator<Item = io::Result<Vec<u8>>>,
    moving: &Moving,
    proxy: &mut Proxy,
    done: &mut CopiedServer,
    still: impl Fn() -> anyhow::Result<bool>,
    shown: impl Fn(&CopiedServer),
) -> anyhow::Result<bool> {
    let mut batch: Vec<Vec<u8>> = Vec::new();
    let mut looked = Instant::now();
    for line in lines {
        let line = line.context("reading its keys")?;
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if line == b"END" {
            done.found += proxy.ask(&batch)?;
            return still();
        }
        let Some(name) = name_of(line) else {
            let said = String::from_utf8_lossy(line);
            bail!("it does not list its keys: {said}");
        };
        done.listed += 1;
        let Some(key) = moving.key_of(&name) else {
            continue;
        };
        done.moving += 1;
        batch.push(key.to_vec());
        if batch.len() == BATCH {
            done.found += proxy.ask(&batch)?;
            batch.clear();
            shown(done);
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            if !still()? {
                return Ok(false);
            }
        }
    }
    bail!("it broke off the list of its keys")
}

/// The name of the item that a line of `lru_crawler metadump` is about: `key=`, with special characters as in URLs.
fn name_of(line: &[u8]) -> Option<Vec<u8>> {
    let word = line.split(|byte| *byte == b' ').next()?;
    let encoded = word.strip_prefix(b"key=")?;
    Some(percent_decode(encoded).collect())
}

/// A connection to a proxy that is asked for this many keys a second.
#[derive(Debug)]
struct Proxy {
    answers: BufReader<TcpStream>,
    pace: Duration,
    due: Instant,
}

impl Proxy {
    fn connect(address: &str, keys_per_second: u32) -> anyhow::Result<Proxy> {
        let answers =
            connect(resolve_server(address)).with_context(|| format!("proxy {address}"))?;
        Ok(Proxy {
            answers,
            pace: Duration::from_secs(1) / keys_per_second,
            due: Instant::now(),
        })
    }

    /// Asks for these keys. How many have an item.
    fn ask(&mut self, keys: &[Vec<u8>]) -> anyhow::Result<u64> {
        std::thread::sleep(self.due.saturating_duration_since(Instant::now()));
        self.due = Instant::now() + self.pace * keys.len() as u32;
        let mut questions = Vec::new();
        keys.iter().for_each(|key| question(key, &mut questions));
        let answers = &mut self.answers;
        answers.get_mut().write_all(&questions)?;
        let (mut found, mut line) = (0, Vec::new());
        for _ in keys {
            line.clear();
            answers.read_until(b'\n', &mut line)?;
            ensure!(!line.is_empty(), "the proxy has closed the connection");
            found += u64::from(line.starts_with(b"HD"));
        }
        Ok(found)
    }
}

/// Asks whether there is an item, and for nothing of it.
fn question(key: &[u8], to: &mut Vec<u8>) {
    to.extend_from_slice(b"mg ");
    if key.iter().all(u8::is_ascii_graphic) {
        to.extend_from_slice(key);
    } else {
        base64::encode(key, to);
        to.extend_from_slice(b" b");
    }
    to.extend_from_slice(b"\r\n");
}

fn sentences(copied: &Copied, pool: &str) -> String {
    let mut text = String::new();
    for done in &copied.servers {
        let CopiedServer {
            server,
            listed,
            moving,
            found,
            failed,
        } = done;
        text += &format!(
            "{server}: {moving} of {listed} keys change hands, {found} have items at their new place or were brought\n"
        );
        if let Some(why) = failed {
            text += &format!("{server}: the rest comes along only if it is asked for: {why}\n");
        }
    }
    let end = match copied.cut_off {
        true => format!(
            "plan {} went on before all was copied: what is left comes along no more",
            copied.plan
        ),
        false => format!(
            "plan {} has all that was listed; to go on before its time: evenkeel ring settings {pool} --warming-ms 0",
            copied.plan
        ),
    };
    text + &end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_memcached_lists_them() {
        let name = |line: &str| name_of(line.as_bytes());
        let plain = "key=user:1 exp=-1 la=1700000000 cas=1 fetch=no cls=1 size=63";
        assert_eq!(name(plain), Some(b"user:1".to_vec()));
        assert_eq!(name("key=a%25b%01 exp=-1"), Some(b"a%b\x01".to_vec()));
        for other in [
            "END",
            "BUSY currently processing crawler request",
            "ERROR",
            "",
        ] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn keys_that_are_no_words_are_asked_for_in_base64() {
        let asked = |key: &[u8]| {
            let mut line = Vec::new();
            question(key, &mut line);
            String::from_utf8(line).unwrap()
        };
        assert_eq!(asked(b"user:1"), "mg user:1\r\n");
        assert_eq!(asked(b"a b"), "mg YSBi b\r\n");
    }

    #[test]
    fn what_was_copied_is_told_with_what_was_not() {
        let mut copied = Copied {
            plan: 7,
            servers: vec![CopiedServer {
                server: "m1".into(),
                listed: 10,
                moving: 4,
                found: 4,
                failed: Some("it does not list its keys: ERROR".into()),
            }],
            cut_off: false,
        };
        let text = sentences(&copied, "main");
        for part in [
            "m1: 4 of 10 keys change hands, 4 have items",
            "only if it is asked for: it does not list its keys: ERROR",
            "plan 7 has all that was listed; to go on before its time: evenkeel ring settings main --warming-ms 0",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        copied.cut_off = true;
        assert!(sentences(&copied, "main").contains("plan 7 went on before all was copied"));
    }
}
