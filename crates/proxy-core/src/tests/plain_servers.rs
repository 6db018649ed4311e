//! Plain servers that keep items, behind a proxy that looks for hot keys.

use super::world::World;
use crate::*;
use evenkeel_hotkeys::plain::{NAME_PREFIX_LEN, PlainConfig, PlainMode};
use std::collections::BTreeMap;

pub const PORTS: [u16; 4] = [101, 102, 103, 104];

/// More than any test has servers.
const PORTS_MAX: u16 = 108;

/// What a server holds under a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub flags: u32,
    pub value: String,
    pub cas: u64,
    /// Somebody won the right to recache it.
    pub recached: bool,
}

/// Servers that execute what they are asked, one command at a time.
pub struct Plain {
    pub world: World,
    pub items: BTreeMap<u16, BTreeMap<String, Item>>,
    pub asked: BTreeMap<u16, String>,
    /// Commands executed, by port.
    pub gets: BTreeMap<u16, u32>,
    /// Answers `set` with an error.
    pub refuses: Option<u16>,
    next_cas: u64,
}

impl Plain {
    pub fn new(mode: PlainMode, change: impl FnOnce(&mut ProxyConfig)) -> Self {
        Self::of(4, mode, change)
    }

    pub fn of(servers: u16, mode: PlainMode, change: impl FnOnce(&mut ProxyConfig)) -> Self {
        let world = World::memcached_with(servers, |config| {
            config.pools[0].settings.hot_keys = PlainConfig {
                mode,
                sampling: Some(1.0),
                ..PlainConfig::default()
            };
            change(config);
        });
        Plain {
            world,
            items: (101..=100 + servers)
                .map(|port| (port, BTreeMap::new()))
                .collect(),
            asked: BTreeMap::new(),
            gets: BTreeMap::new(),
            refuses: None,
            next_cas: 7,
        }
    }

    /// Stores an item at a server, past the proxy.
    pub fn put(&mut self, port: u16, key: &str, flags: u32, value: &str) {
        let item = Item {
            flags,
            value: value.to_owned(),
            cas: self.next_cas,
            recached: false,
        };
        self.next_cas += 1;
        let items = self.items.entry(port).or_default();
        items.insert(key.to_owned(), item);
    }

    /// The server is started anew: it holds nothing, and counts from the beginning.
    pub fn restart(&mut self, port: u16) {
        self.items.entry(port).or_default().clear();
        self.asked.remove(&port);
        self.next_cas = 7;
        self.world.drop_connection(port);
    }

    /// Executes the next command that a server was asked. False if there is none.
    pub fn serve_one(&mut self, port: u16) -> bool {
        if !self.world.is_connected(port) {
            return false;
        }
        let new = self.world.asked(port);
        let asked = self.asked.entry(port).or_default();
        asked.push_str(&new);
        let Some((line, rest)) = asked.split_once("\r\n") else {
            return false;
        };
        let (line, mut rest) = (line.to_owned(), rest.to_owned());
        let words: Vec<&str> = line.split(' ').collect();
        let found = words
            .get(1)
            .and_then(|key| self.items[&port].get(*key))
            .cloned();
        let reply = match words[0] {
            "get" | "gets" => {
                *self.gets.entry(port).or_default() += words.len() as u32 - 1;
                let mut reply = String::new();
                for key in &words[1..] {
                    if let Some(item) = self.items[&port].get(*key) {
                        let (flags, len) = (item.flags, item.value.len());
                        let cas = match words[0] {
                            "gets" => format!(" {}", item.cas),
                            _ => String::new(),
                        };
                        let value = &item.value;
                        reply += &format!("VALUE {key} {flags} {len}{cas}\r\n{value}\r\n");
                    }
                }
                reply + "END\r\n"
            }
            "set" | "cas" => {
                let (value, behind) = rest.split_at(words[4].parse().unwrap());
                let (value, behind) = (value.to_owned(), behind[2..].to_owned());
                rest = behind;
                let cas = found.map(|item| item.cas.to_string());
                if self.refuses == Some(port) {
                    "SERVER_ERROR out of memory storing object\r\n".to_owned()
                } else if words[0] == "cas" && cas.as_deref() != words.get(5).copied() {
                    "EXISTS\r\n".to_owned()
                } else {
                    self.put(port, words[1], words[2].parse().unwrap(), &value);
                    "STORED\r\n".to_owned()
                }
            }
            "delete" => match self.items.get_mut(&port).unwrap().remove(words[1]) {
                Some(_) => "DELETED\r\n".to_owned(),
                None => "NOT_FOUND\r\n".to_owned(),
            },
            "mg" => {
                *self.gets.entry(port).or_default() += 1;
                meta_get(&words, found.as_ref())
            }
            other => panic!("{other}"),
        };
        self.asked.insert(port, rest);
        // What is large arrives in pieces.
        for piece in reply.as_bytes().chunks(40_000) {
            self.world.reply(port, piece);
        }
        true
    }

    pub fn serve(&mut self) {
        while (101..=PORTS_MAX).any(|port| self.serve_one(port)) {}
    }

    pub fn ask(&mut self, id: ClientId, line: &str) -> String {
        self.world.send(id, line);
        self.serve();
        self.world.received(id)
    }

    pub fn home(&mut self, key: &str) -> u16 {
        let holds = |port: &&u16| self.items[*port].contains_key(key);
        *PORTS.iter().find(holds).expect("some server has it")
    }

    /// Where replicas are, and what is in them.
    pub fn replicas(&self, key: &str) -> Vec<(u16, String)> {
        let mut found = Vec::new();
        for (&port, items) in &self.items {
            for (name, item) in items {
                if name.starts_with('\u{1}') && &name[NAME_PREFIX_LEN..] == key {
                    found.push((port, item.value.clone()));
                }
            }
        }
        found
    }

    /// `count` reads by each of this many connections.
    pub fn read_much(&mut self, clients: &[ClientId], count: u32, key: &str) {
        for _ in 0..count {
            for &client in clients {
                let answer = self.ask(client, &format!("get {key}\r\n"));
                assert!(answer.ends_with("END\r\n"), "{answer}");
            }
        }
    }

    /// Until the key is hot and its copies are filled.
    pub fn heat(&mut self, key: &str) -> Vec<ClientId> {
        let clients: Vec<ClientId> = (0..20).map(|_| self.world.client()).collect();
        for _ in 0..4 {
            self.read_much(&clients, 20, key);
            self.world.wait_ms(250);
        }
        self.read_much(&clients, 5, key);
        clients
    }
}

/// What memcached answers to an `mg` of these words.
fn meta_get(words: &[&str], found: Option<&Item>) -> String {
    let told = |flag: &&str| match (found, flag.split_at(1)) {
        (Some(_), ("k", _)) => Some(format!("k{}", words[1])),
        (Some(_), ("O", opaque)) => Some(format!("O{opaque}")),
        (Some(item), ("f", _)) => Some(format!("f{}", item.flags)),
        (Some(item), ("c", _)) => Some(format!("c{}", item.cas)),
        (Some(item), ("s", _)) => Some(format!("s{}", item.value.len())),
        (Some(_), ("t", _)) => Some("t-1".to_owned()),
        _ => None,
    };
    let flags = words[2..].iter();
    let Some(item) = found else {
        return "EN\r\n".to_owned();
    };
    let mut line = match words.contains(&"v") {
        true => vec!["VA".to_owned(), item.value.len().to_string()],
        false => vec!["HD".to_owned()],
    };
    line.extend(flags.filter_map(told));
    line.extend(item.recached.then(|| "Z".to_owned()));
    let value = match words.contains(&"v") {
        true => format!("{}\r\n", item.value),
        false => String::new(),
    };
    format!("{}\r\n{value}", line.join(" "))
}
