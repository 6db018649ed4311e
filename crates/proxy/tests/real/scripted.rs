//! A small server that does one thing wrong, on demand.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// How it treats requests. It says its version whenever it is asked, unless it is mute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Answers `get`, `mg`, `set`, `add`, `incr`, `gat` and `delete` as memcached does.
    Well,
    /// Answers nothing until its manner changes; then what it was asked meanwhile.
    Silent,
    /// Does not even say its version.
    Mute,
    /// Answers what is no answer.
    Nonsense,
    /// Answers with a value of a key that it was not asked for.
    WrongKey,
    /// Closes in the middle of an answer.
    BreaksOff,
    /// Closes when it is asked.
    HangsUp,
}

impl Manner {
    fn withholds(self) -> bool {
        matches!(self, Manner::Silent | Manner::Mute)
    }
}

/// The server. Its threads end with their connections, and with the process at the latest.
pub struct Scripted {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    mood: Mutex<Mood>,
    changed: Condvar,
    heard: Mutex<Vec<String>>,
    connections: AtomicUsize,
    items: Mutex<BTreeMap<String, String>>,
}

struct Mood {
    manner: Manner,
    /// How many requests are kept waiting, or were until now and are not yet carried out.
    withheld: usize,
}

impl Scripted {
    /// Listens on a free loopback port.
    pub fn start(manner: Manner) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Scripted::serve_at(listener, manner)
    }

    /// Listens on several loopback addresses, all on one port.
    pub fn start_alike(hosts: &[&str]) -> Vec<Scripted> {
        loop {
            let first = TcpListener::bind((hosts[0], 0)).expect("a free port");
            let port = first.local_addr().expect("it is bound").port();
            let others = hosts[1..].iter();
            let others: Result<Vec<_>, _> = others
                .map(|host| TcpListener::bind((*host, port)))
                .collect();
            // A port that is free at one address may be in use at another.
            if let Ok(others) = others {
                let all = std::iter::once(first).chain(others);
                return all
                    .map(|listener| Scripted::serve_at(listener, Manner::Well))
                    .collect();
            }
        }
    }

    fn serve_at(listener: TcpListener, manner: Manner) -> Scripted {
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(State {
            mood: Mutex::new(Mood {
                manner,
                withheld: 0,
            }),
            changed: Condvar::new(),
            heard: Mutex::default(),
            connections: AtomicUsize::new(0),
            items: Mutex::default(),
        });
        std::thread::spawn({
            let state = Arc::clone(&state);
            move || {
                for stream in listener.incoming().flatten() {
                    state.connections.fetch_add(1, Ordering::SeqCst);
                    let state = Arc::clone(&state);
                    std::thread::spawn(move || state.serve(&stream));
                }
            }
        });
        Scripted { address, state }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Treats requests so from now on. What it kept waiting is carried out before this returns: a write that the
    /// proxy has given up may be carried out at any time, and must not follow one that the test asks for later.
    pub fn behave(&self, manner: Manner) {
        let mut mood = self.state.mood.lock().expect("no panic");
        mood.manner = manner;
        self.state.changed.notify_all();
        if !mood.manner.withholds() {
            let is_in_arrears = |mood: &mut Mood| mood.withheld > 0;
            let mood = self.state.changed.wait_while(mood, is_in_arrears);
            drop(mood.expect("no panic"));
        }
    }

    /// The lines of all requests but `version`, in the order of arrival.
    pub fn heard(&self) -> Vec<String> {
        self.state.heard.lock().expect("no panic").clone()
    }

    /// How many connections it has taken.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Begins the list anew.
    pub fn forget_heard(&self) {
        self.state.heard.lock().expect("no panic").clear();
    }
}

impl State {
    /// Serves one connection to its end.
    fn serve(&self, stream: &TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let line = read_line(&mut reader)?;
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let data = match words[..] {
                ["set" | "add", ..] => read_line(&mut reader)?,
                _ => String::new(),
            };
            let manner = self.mood.lock().expect("no panic").manner;
            if words == ["version"] {
                if manner != Manner::Mute {
                    write(stream, "VERSION 1.6.18\r\n")?;
                }
                continue;
            }
            self.heard.lock().expect("no panic").push(line.clone());
            let (manner, withheld) = self.manner_that_answers();
            match manner {
                Manner::Well => write(stream, &self.answer(&words, data))?,
                Manner::Nonsense => write(stream, "42 is the answer\r\n")?,
                Manner::WrongKey => write(stream, "VALUE other 0 1\r\nx\r\nEND\r\n")?,
                Manner::BreaksOff => {
                    let half = match words[0] {
                        "get" | "gat" => format!("VALUE {} 0 100\r\nhal", words[words.len() - 1]),
                        "mg" => "VA 100\r\nhal".into(),
                        _ => "STO".into(),
                    };
                    write(stream, &half)?;
                    return None;
                }
                Manner::HangsUp => return None,
                Manner::Silent | Manner::Mute => unreachable!("waited for"),
            }
            drop(withheld);
        }
    }

    /// Waits for a manner that answers. The second is there if it had to wait, and ends with the request.
    fn manner_that_answers(&self) -> (Manner, Option<Withheld<'_>>) {
        let mut mood = self.mood.lock().expect("no panic");
        if !mood.manner.withholds() {
            return (mood.manner, None);
        }
        mood.withheld += 1;
        let mood = self
            .changed
            .wait_while(mood, |mood| mood.manner.withholds())
            .expect("no panic");
        (mood.manner, Some(Withheld(self)))
    }

    fn answer(&self, words: &[&str], data: String) -> String {
        let mut items = self.items.lock().expect("no panic");
        match *words {
            ["set", key, ..] => {
                items.insert(key.into(), data);
                "STORED\r\n".into()
            }
            ["add", key, ..] if items.contains_key(key) => "NOT_STORED\r\n".into(),
            ["add", key, ..] => {
                items.insert(key.into(), data);
                "STORED\r\n".into()
            }
            ["get", ref keys @ ..] | ["gat", _, ref keys @ ..] => {
                let found = keys.iter().filter_map(|&key| Some((key, items.get(key)?)));
                let values: String = found
                    .map(|(key, value)| format!("VALUE {key} 0 {}\r\n{value}\r\n", value.len()))
                    .collect();
                values + "END\r\n"
            }
            ["mg", key, ..] => match items.get(key) {
                Some(value) => format!("VA {}\r\n{value}\r\n", value.len()),
                None => "EN\r\n".into(),
            },
            ["delete", key] => match items.remove(key) {
                Some(_) => "DELETED\r\n".into(),
                None => "NOT_FOUND\r\n".into(),
            },
            ["incr", key, delta] => match items.get_mut(key) {
                Some(value) => {
                    let sum = value.parse::<u64>().expect("a number")
                        + delta.parse::<u64>().expect("a number");
                    *value = sum.to_string();
                    format!("{sum}\r\n")
                }
                None => "NOT_FOUND\r\n".into(),
            },
            _ => "ERROR\r\n".into(),
        }
    }
}

/// A request that was kept waiting and is being carried out.
struct Withheld<'a>(&'a State);

impl Drop for Withheld<'_> {
    fn drop(&mut self) {
        self.0.mood.lock().expect("no panic").withheld -= 1;
        self.0.changed.notify_all();
    }
}

fn read_line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .ok()
        .filter(|&count| count > 0)?;
    Some(line.trim_end().into())
}

fn write(mut stream: &TcpStream, answer: &str) -> Option<()> {
    stream.write_all(answer.as_bytes()).ok()
}
