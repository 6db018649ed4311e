//! Requests through the proxy while something happens to coordinators and etcd, each checked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_testkit::{Client, poll_until};

use crate::cluster::DEADLINE;

/// Threads, each with keys of its own, so that each knows what it must read.
const THREADS: usize = 2;

const KEYS: usize = 200;

/// Between two rounds: the processes under test need the processor, too.
const PACE: Duration = Duration::from_millis(1);

/// Rounds after whatever has happened: serving has to go on then, too.
const ROUNDS_AFTER: u64 = 300;

pub struct Load {
    rounds: Arc<AtomicU64>,
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Load {
    pub fn start(proxy: SocketAddr) -> Load {
        let mut load = Load {
            rounds: Arc::default(),
            stop: Vec::new(),
            threads: Vec::new(),
        };
        for thread in 0..THREADS {
            let (stop, stopped) = channel::<()>();
            load.stop.push(stop);
            let all_rounds = Arc::clone(&load.rounds);
            load.threads.push(std::thread::spawn(move || {
                let mut client = Client::connect(proxy);
                let mut values = vec![None; KEYS];
                let mut rounds = 0_u64;
                while stopped.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
                    let key = rounds as usize % KEYS;
                    round(&mut client, thread, key, rounds, &mut values[key])?;
                    rounds += 1;
                    all_rounds.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }));
        }
        load
    }

    /// Ends the load some rounds later, and fails if any of its requests did; returns the number of rounds.
    pub fn end(self) -> u64 {
        let enough = self.rounds.load(Ordering::Relaxed) + ROUNDS_AFTER;
        poll_until(DEADLINE, "serving that goes on", || {
            let has_failed = self.threads.iter().any(JoinHandle::is_finished);
            (has_failed || self.rounds.load(Ordering::Relaxed) >= enough).then_some(())
        });
        drop(self.stop);
        for thread in self.threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(what)) => panic!("a request failed: {what}"),
                Err(_) => panic!("the load panicked"),
            }
        }
        self.rounds.load(Ordering::Relaxed)
    }
}

/// Reads what the last round of this key wrote, and writes something else.
fn round(
    client: &mut Client,
    thread: usize,
    key: usize,
    round: u64,
    value: &mut Option<String>,
) -> Result<(), String> {
    let key = format!("load:{thread}:{key}");
    let failed = |error: std::io::Error| format!("{key} in round {round}: {error}");
    let read = client.try_get(&key).map_err(failed)?;
    let read = read.map(|value| String::from_utf8_lossy(&value.data).into_owned());
    if read != *value {
        return Err(format!(
            "{key} in round {round}: {read:?} instead of {value:?}"
        ));
    }
    let new = format!("value {round}");
    let said = client.try_set(&key, 0, 0, new.as_bytes()).map_err(failed)?;
    if said != "STORED" {
        return Err(format!("{key} in round {round}: {said}"));
    }
    *value = Some(new);
    Ok(())
}
