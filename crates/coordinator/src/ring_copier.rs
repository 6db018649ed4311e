//! Copies the items of a ring that nobody asks for, while a part of it moves.
//!
//! The memcacheds that give list their keys (`lru_crawler metadump`). Those that are about to change hands are asked for at a proxy, which
//! brings each item as it does for any application. What is to be copied, and when that is enough, is the core's
//! ([`copy_work`](evenkeel_coordinator_core::CoordinatorCore::copy_work)).

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_control::rings::Moving;
use evenkeel_coordinator_core::{CopiedServer, CopyWork, RingCopy};
use evenkeel_protocol::base64;
use percent_encoding::percent_decode;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{info, warn};

use crate::shared_core::SharedCore;

/// Distance of looks whether there is anything to copy, and of news of what was.
const LOOK: Duration = Duration::from_millis(200);

/// How long a server or a proxy may take for the next line.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keys that are asked for at once: this many the slowest server answers in a few milliseconds, before other requests are refused.
const BATCH: usize = 8;

/// Keys that were refused are asked for again after this pause, so often.
const PAUSE: Duration = Duration::from_millis(100);
const TRIES_MAX: u32 = 10;

/// Keys of a server that are left out after that, before nothing more is copied: a ring that has too much to do is not to wait for copies.
const REFUSED_MAX: u64 = 64;

/// Longest line: memcached's are of 1,000 bytes, with a key of 250 that are all special characters.
const LINE_LEN_MAX: u64 = 4096;

/// Copies what the core asks for. Never ends.
pub(crate) async fn run(shared: &Arc<SharedCore>) {
    // By the pool's name, with the plan's number.
    let mut running: BTreeMap<String, (u64, JoinHandle<()>)> = BTreeMap::new();
    loop {
        sleep(LOOK).await;
        // Who does not lead has nothing to do.
        let looked = shared.look(|core, now| core.copy_work(now.monotonic)).await;
        let wanted = looked.unwrap_or_default();
        let before = running.len();
        running.retain(|pool, (plan, task)| {
            let is_it = |work: &CopyWork| work.pool == *pool && work.plan.number == *plan;
            let is_wanted = wanted.iter().any(is_it) && !task.is_finished();
            if !is_wanted {
                task.abort();
            }
            is_wanted
        });
        // What has just ended the core may have learnt since that look.
        if running.len() < before {
            continue;
        }
        for work in wanted {
            if !running.contains_key(&work.pool) {
                let (pool, plan) = (work.pool.clone(), work.plan.number);
                let task = tokio::spawn(copy(Arc::clone(shared), work));
                running.insert(pool, (plan, task));
            }
        }
    }
}

/// Copies the items of one plan, and tells how far that is.
async fn copy(shared: Arc<SharedCore>, work: CopyWork) {
    let plan = work.plan.number;
    let mut told = Told {
        shared,
        pool: work.pool.clone(),
        copy: RingCopy {
            plan,
            ..RingCopy::default()
        },
        due: Instant::now(),
    };
    let failed = copy_all(&work, &mut told).await.err();
    told.copy.failed = failed.map(|why| why.to_string());
    told.copy.is_over = true;
    let (pool, copy) = (&work.pool, &told.copy);
    let sum = |of: fn(&CopiedServer) -> u64| copy.servers.iter().map(of).sum::<u64>();
    let (moving, found, refused) = (
        sum(|it| it.moving),
        sum(|it| it.found),
        sum(|it| it.refused),
    );
    info!(
        pool,
        plan, moving, found, refused, "items of a ring were copied"
    );
    let of_servers = copy.servers.iter().filter_map(|it| it.failed.as_ref());
    for why in of_servers.chain(&copy.failed) {
        warn!(pool, plan, "not all items of a ring are copied: {why}");
    }
    told.tell().await;
}

/// What is told of the copying of a plan.
struct Told {
    shared: Arc<SharedCore>,
    pool: String,
    copy: RingCopy,
    /// When it is to be told again.
    due: Instant,
}

impl Told {
    async fn tell(&mut self) {
        self.due = Instant::now() + LOOK;
        let (pool, copy) = (&self.pool, self.copy.clone());
        let tell = self
            .shared
            .decide(|core, now| core.handle_copy(now, pool, copy));
        // Who does not lead any more is asked no more.
        let _ = tell.await;
    }

    /// The server whose turn it is.
    fn server(&mut self) -> &mut CopiedServer {
        let servers = &mut self.copy.servers;
        servers.last_mut().expect("a server has its turn")
    }
}

/// Copies what moves, one server after the other.
///
/// # Errors
/// The proxy cannot be asked. What is wrong with a server is told with it.
async fn copy_all(work: &CopyWork, told: &mut Told) -> io::Result<()> {
    let moving = Moving::new(&work.plan).map_err(io::Error::other)?;
    let Some(proxy) = &work.proxy else {
        let why = "no proxy of the pool is heard that listens on TCP";
        return Err(io::Error::other(why));
    };
    let mut proxy = Proxy::connect(proxy, work.keys_per_second).await?;
    for giver in moving.givers() {
        let server = &work.plan.placement.servers[usize::from(giver)];
        told.copy.servers.push(CopiedServer {
            server: server.identity(),
            ..CopiedServer::default()
        });
        let mut keys = match List::ask(&server.host, server.port).await {
            Ok(keys) => keys,
            Err(why) => {
                told.server().failed = Some(said_of(&server.identity(), &why));
                continue;
            }
        };
        loop {
            let batch = keys.next_batch(&moving, told.server()).await;
            let (batch, is_over) = match batch {
                Ok(batch) => batch,
                Err(why) => {
                    told.server().failed = Some(said_of(&server.identity(), &why));
                    break;
                }
            };
            proxy.ask_until_answered(batch, told.server()).await?;
            if is_over {
                break;
            }
            if Instant::now() >= told.due {
                told.tell().await;
            }
        }
    }
    Ok(())
}

fn said_of(who: &str, why: &io::Error) -> String {
    format!("{who}: {why}")
}

/// The list of a memcached's keys, as it comes in.
struct List(Lines);

impl List {
    async fn ask(host: &str, port: u16) -> io::Result<List> {
        let mut lines = Lines::connect(host, port).await?;
        lines.send(b"lru_crawler metadump all\r\n").await?;
        Ok(List(lines))
    }

    /// The next keys that move, and whether there are no more. Counts what is listed.
    async fn next_batch(
        &mut self,
        moving: &Moving,
        counts: &mut CopiedServer,
    ) -> io::Result<(Vec<Vec<u8>>, bool)> {
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH {
            let line = self.0.next().await?;
            if line == b"END" {
                return Ok((batch, true));
            }
            let Some(name) = name_of(line) else {
                let said = line.escape_ascii();
                let why = format!("it does not list its keys: {said}");
                return Err(io::Error::other(why));
            };
            counts.listed += 1;
            if let Some(key) = moving.key_of(&name) {
                counts.moving += 1;
                batch.push(key.to_vec());
            }
        }
        Ok((batch, false))
    }
}

/// The name of the item that a line of `lru_crawler metadump` is about: `key=`, with special characters as in URLs.
fn name_of(line: &[u8]) -> Option<Vec<u8>> {
    let word = line.split(|byte| *byte == b' ').next()?;
    let encoded = word.strip_prefix(b"key=")?;
    Some(percent_decode(encoded).collect())
}

/// A proxy that is asked for this many keys a second.
struct Proxy {
    lines: Lines,
    /// Time for each key.
    pace: Duration,
    /// Before what was refused is asked for again.
    pause: Duration,
    due: Instant,
}

impl Proxy {
    async fn connect((host, port): &(String, u16), keys_per_second: u32) -> io::Result<Proxy> {
        let lines = Lines::connect(host, *port).await;
        let lines = lines.map_err(|why| {
            let proxy = format!("proxy {host}:{port}");
            io::Error::other(said_of(&proxy, &why))
        });
        Ok(Proxy {
            lines: lines?,
            pace: Duration::from_secs(1) / keys_per_second.max(1),
            pause: PAUSE,
            due: Instant::now(),
        })
    }

    /// Asks for these keys, and for those that are refused once more, until they are not or that was too often.
    ///
    /// # Errors
    /// The proxy does not answer, or too much was refused.
    async fn ask_until_answered(
        &mut self,
        mut keys: Vec<Vec<u8>>,
        counts: &mut CopiedServer,
    ) -> io::Result<()> {
        for _ in 0..TRIES_MAX {
            keys = self.ask(keys, counts).await?;
            if keys.is_empty() {
                return Ok(());
            }
            sleep(self.pause).await;
        }
        counts.refused += keys.len() as u64;
        match counts.refused > REFUSED_MAX {
            false => Ok(()),
            true => Err(io::Error::other("a server has too much to do")),
        }
    }

    /// Asks for these keys. Gives those that were refused.
    async fn ask(
        &mut self,
        keys: Vec<Vec<u8>>,
        counts: &mut CopiedServer,
    ) -> io::Result<Vec<Vec<u8>>> {
        sleep_until(self.due).await;
        self.due = Instant::now() + self.pace * keys.len() as u32;
        let mut questions = Vec::new();
        keys.iter().for_each(|key| question(key, &mut questions));
        self.lines.send(&questions).await?;
        let mut refused = Vec::new();
        for key in keys {
            match self.lines.next().await? {
                line if line.starts_with(b"HD") => counts.found += 1,
                b"EN" => {}
                _ => refused.push(key),
            }
        }
        Ok(refused)
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

/// A connection whose answers are lines.
struct Lines {
    stream: BufReader<TcpStream>,
    line: Vec<u8>,
}

impl Lines {
    async fn connect(host: &str, port: u16) -> io::Result<Lines> {
        let stream = in_time(TcpStream::connect((host, port))).await?;
        stream.set_nodelay(true)?;
        Ok(Lines {
            stream: BufReader::new(stream),
            line: Vec::new(),
        })
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        in_time(self.stream.get_mut().write_all(bytes)).await
    }

    /// The next line, without its end.
    async fn next(&mut self) -> io::Result<&[u8]> {
        self.line.clear();
        let mut stream = (&mut self.stream).take(LINE_LEN_MAX);
        in_time(stream.read_until(b'\n', &mut self.line)).await?;
        let Some(line) = self.line.strip_suffix(b"\n") else {
            let why = match self.line.len() as u64 {
                LINE_LEN_MAX => "a line is too long",
                _ => "it closed the connection",
            };
            return Err(io::Error::other(why));
        };
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

async fn in_time<T>(what: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let timed = timeout(PATIENCE, what).await;
    timed.unwrap_or_else(|_| {
        let why = format!("no answer within {} s", PATIENCE.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_control::rings::{RingPlan, ServerChange};
    use evenkeel_placement::config::{PlacementConfig, Server};
    use evenkeel_placement::ring::Ring;

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

    /// A server that answers so, whatever it is asked.
    async fn saying(answer: Vec<u8>) -> Lines {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Who has heard enough goes. What is asked is read, or else the connection would be reset.
            let _ = stream.write_all(&answer).await;
            let _ = stream.shutdown().await;
            let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        });
        Lines::connect("127.0.0.1", port).await.unwrap()
    }

    /// A proxy that answers so, and is not waited for.
    async fn proxy_saying(answers: &str) -> Proxy {
        Proxy {
            lines: saying(answers.as_bytes().to_vec()).await,
            pace: Duration::ZERO,
            pause: Duration::ZERO,
            due: Instant::now(),
        }
    }

    #[tokio::test]
    async fn what_is_refused_is_asked_for_again() {
        let answers = "HD\r\nSERVER_ERROR overloaded\r\nEN\r\nHD\r\n";
        let mut proxy = proxy_saying(answers).await;
        let mut counts = CopiedServer::default();
        let keys = [b"a", b"b", b"c"].map(|key| key.to_vec()).to_vec();
        let asked = proxy.ask_until_answered(keys, &mut counts).await;
        asked.unwrap();
        assert_eq!((counts.found, counts.refused), (2, 0));
    }

    #[tokio::test]
    async fn a_ring_that_has_too_much_to_do_is_left_alone() {
        let (most, tries) = (REFUSED_MAX as usize, TRIES_MAX as usize);
        let answers = "SERVER_ERROR overloaded\r\n".repeat((most + 1) * tries);
        let mut proxy = proxy_saying(&answers).await;
        let mut counts = CopiedServer::default();
        let keys = vec![b"a".to_vec(); most];
        let asked = proxy.ask_until_answered(keys, &mut counts).await;
        asked.unwrap();
        let one_more = vec![b"b".to_vec()];
        let refused = proxy.ask_until_answered(one_more, &mut counts).await;
        let why = refused.unwrap_err().to_string();
        assert_eq!(why, "a server has too much to do");
        assert_eq!(counts.refused, REFUSED_MAX + 1);
    }

    /// A ring of two servers, of which one gives all it has to the other.
    fn half() -> Moving {
        let plan = RingPlan {
            number: 1,
            incarnation: 7,
            placement: PlacementConfig {
                servers: ["m1", "m2"].map(|it| Server::new(it, 11211)).to_vec(),
                ..PlacementConfig::default()
            },
            ring: Ring::even(2, 10).unwrap(),
            moves: Vec::new(),
            server: Some(ServerChange::Leaves {
                server: 1,
                costs: vec![1, 1],
                is_lost: false,
            }),
        };
        Moving::new(&plan).unwrap()
    }

    #[tokio::test]
    async fn what_moves_of_what_is_listed_comes_in_batches() {
        let lines = (0..100).map(|n| format!("key=k{n} exp=-1 la=1 cas=1\r\n"));
        let listed = lines.collect::<String>() + "END\r\n";
        let mut list = List(saying(listed.into_bytes()).await);
        let (moving, mut counts) = (half(), CopiedServer::default());
        let mut keys = Vec::new();
        loop {
            let (batch, is_over) = list.next_batch(&moving, &mut counts).await.unwrap();
            assert!(batch.len() <= BATCH);
            keys.extend(batch);
            if is_over {
                break;
            }
        }
        let is_moving = |key: &String| moving.key_of(key.as_bytes()).is_some();
        let all = (0..100).map(|n| format!("k{n}"));
        let expected: Vec<_> = all.filter(is_moving).map(String::into_bytes).collect();
        assert_eq!(keys, expected);
        assert!((20..80).contains(&keys.len()), "{}", keys.len());
        assert_eq!((counts.listed, counts.moving), (100, keys.len() as u64));
    }

    #[tokio::test]
    async fn servers_that_list_nothing_of_use_are_told() {
        for (answer, why) in [
            (b"BUSY\r\n".to_vec(), "it does not list its keys: BUSY"),
            (b"key=a exp".to_vec(), "it closed the connection"),
            (vec![b'a'; 5000], "a line is too long"),
        ] {
            let mut list = List(saying(answer).await);
            let (moving, mut counts) = (half(), CopiedServer::default());
            let batch = list.next_batch(&moving, &mut counts).await;
            assert_eq!(batch.unwrap_err().to_string(), why);
        }
    }
}
