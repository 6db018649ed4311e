//! Requests through the proxy while something happens to coordinators and etcd, each checked.

use std::net::SocketAddr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use evenkeel_testkit::Client;

/// Threads, each with keys of its own, so that each knows what it must read.
const THREADS: usize = 2;

const KEYS: usize = 200;

/// Between two rounds: the processes under test need the processor, too.
const PACE: Duration = Duration::from_millis(1);

pub struct Load {
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<Result<u64, String>>>,
}

impl Load {
    pub fn start(proxy: SocketAddr) -> Load {
        let mut load = Load {
            stop: Vec::new(),
            threads: Vec::new(),
        };
        for thread in 0..THREADS {
            let (stop, stopped) = channel::<()>();
            load.stop.push(stop);
            load.threads.push(std::thread::spawn(move || {
                let mut client = Client::connect(proxy);
                let mut values = vec![None; KEYS];
                let mut rounds = 0;
                while stopped.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
                    let key = rounds as usize % KEYS;
                    round(&mut client, thread, key, rounds, &mut values[key])?;
                    rounds += 1;
                }
                Ok(rounds)
            }));
        }
        load
    }

    /// Ends the load, and fails if any of its requests did.
    pub fn end(self) -> u64 {
        drop(self.stop);
        let rounds = self.threads.into_iter().map(|thread| match thread.join() {
            Ok(Ok(rounds)) => rounds,
            Ok(Err(what)) => panic!("a request failed: {what}"),
            Err(_) => panic!("the load panicked"),
        });
        let rounds = rounds.sum();
        assert!(rounds > 100, "there was hardly any load: {rounds} rounds");
        rounds
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
