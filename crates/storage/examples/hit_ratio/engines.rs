//! The two caches: a store in this process, and a memcached behind a socket.

use crate::traces::Trace;
use evenkeel_storage::{NEVER, NewItem, PoolConfig, SegmentPool, Store};
use evenkeel_testkit::Memcached as Process;
use evenkeel_types::{CacheletId, KeyHash, Version};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;

/// Cachelets of a worker of a server that is alone.
const CACHELETS: u16 = 16;
/// Largest item, in both.
const ITEM_BYTES_MAX: usize = 1 << 20;
/// A second passes for our store in this many requests.
const REQUESTS_PER_SECOND: u64 = 100_000;

/// A cache that can be asked for keys.
pub trait Cache {
    /// Reads keys; returns those that are not there.
    fn get(&mut self, trace: &Trace, keys: &[u32]) -> Vec<u32>;
    /// Stores the values of keys.
    fn set(&mut self, trace: &Trace, keys: &[u32]);
}

/// Version of the memcached that is compared with.
pub fn memcached_version() -> String {
    let program = evenkeel_testkit::require_program("memcached");
    let output = Command::new(program).arg("-V").output();
    let output = output.expect("memcached tells its version");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub struct Ours {
    store: Store,
    value: Vec<u8>,
    requests: u64,
}

impl Ours {
    pub fn new(limit_bytes: u64) -> Ours {
        let pool = SegmentPool::new(PoolConfig {
            limit_bytes: limit_bytes as usize,
            item_size_max: ITEM_BYTES_MAX,
            cachelets_expected: usize::from(CACHELETS),
        });
        let mut store = Store::new(pool, 0x5eed);
        for id in 0..CACHELETS {
            store.create_cachelet(CacheletId(id));
        }
        Ours {
            store,
            value: vec![b'v'; ITEM_BYTES_MAX],
            requests: 0,
        }
    }

    fn now(&self) -> u32 {
        1 + (self.requests / REQUESTS_PER_SECOND) as u32
    }
}

fn cachelet_of(key: &[u8]) -> CacheletId {
    CacheletId((KeyHash::of(key).0 % u64::from(CACHELETS)) as u16)
}

impl Cache for Ours {
    fn get(&mut self, trace: &Trace, keys: &[u32]) -> Vec<u32> {
        let mut missed = Vec::new();
        for number in keys {
            self.requests += 1;
            let key = &trace.keys[*number as usize];
            if self.store.read(cachelet_of(key), key, self.now()).is_none() {
                missed.push(*number);
            }
        }
        missed
    }

    fn set(&mut self, trace: &Trace, keys: &[u32]) {
        let now = self.now();
        for number in keys {
            let key = &trace.keys[*number as usize];
            let item = NewItem {
                key,
                value: [
                    &self.value[..trace.value_bytes[*number as usize] as usize],
                    &[],
                ],
                flags: 0,
                expires_at: NEVER,
                version: Version(self.requests),
            };
            let stored = self.store.insert(cachelet_of(key), item, now);
            stored.expect("a store that evicts takes any item below the limit");
        }
    }
}

pub struct Memcached {
    stream: BufReader<TcpStream>,
    value: Vec<u8>,
    /// Commands that were not sent yet.
    out: Vec<u8>,
    line: Vec<u8>,
    _process: Process,
}

impl Memcached {
    /// Starts one with this much memory and one thread.
    pub fn start(mib: u64) -> Memcached {
        let process = Process::spawn(&["-t", "1", "-m", &mib.to_string(), "-I", "1m"]);
        let stream = TcpStream::connect(process.address()).expect("memcached listens");
        stream.set_nodelay(true).expect("TCP_NODELAY can be set");
        Memcached {
            stream: BufReader::new(stream),
            value: vec![b'v'; ITEM_BYTES_MAX],
            out: Vec::new(),
            line: Vec::new(),
            _process: process,
        }
    }

    /// Bytes that it has taken for items. Each of its size classes takes a first page of 1 MiB beyond
    /// `-m`, so this may be much more.
    pub fn bytes_taken(&mut self) -> u64 {
        self.out.extend_from_slice(b"stats slabs\r\n");
        self.send();
        let mut taken = None;
        loop {
            let line = String::from_utf8_lossy(self.read_line()).into_owned();
            if line == "END" {
                return taken.expect("memcached tells what it took");
            }
            if let Some(bytes) = line.strip_prefix("STAT total_malloced ") {
                taken = bytes.parse().ok();
            }
        }
    }

    fn send(&mut self) {
        let stream = self.stream.get_mut();
        stream.write_all(&self.out).expect("memcached reads");
        self.out.clear();
    }

    fn read_line(&mut self) -> &[u8] {
        self.line.clear();
        let read = self.stream.read_until(b'\n', &mut self.line);
        assert!(read.expect("memcached answers") > 0, "memcached is gone");
        self.line.trim_ascii_end()
    }
}

impl Cache for Memcached {
    fn get(&mut self, trace: &Trace, keys: &[u32]) -> Vec<u32> {
        for number in keys {
            // Without the value, but otherwise a get: it counts as a use.
            self.out.extend_from_slice(b"mg ");
            self.out.extend_from_slice(&trace.keys[*number as usize]);
            self.out.extend_from_slice(b"\r\n");
        }
        self.send();
        let mut missed = Vec::new();
        for number in keys {
            match self.read_line() {
                b"HD" => {}
                b"EN" => missed.push(*number),
                other => panic!("memcached said {:?}", String::from_utf8_lossy(other)),
            }
        }
        missed
    }

    fn set(&mut self, trace: &Trace, keys: &[u32]) {
        if keys.is_empty() {
            return;
        }
        for number in keys {
            let len = trace.value_bytes[*number as usize] as usize;
            self.out.extend_from_slice(b"ms ");
            self.out.extend_from_slice(&trace.keys[*number as usize]);
            write!(self.out, " {len} q\r\n").expect("a vector takes everything");
            self.out.extend_from_slice(&self.value[..len]);
            self.out.extend_from_slice(b"\r\n");
        }
        self.out.extend_from_slice(b"mn\r\n");
        self.send();
        loop {
            match self.read_line() {
                b"MN" => break,
                // A class without a page of its own has nothing to evict: the key stays a miss.
                line if line.starts_with(b"SERVER_ERROR out of memory") => {}
                other => panic!("memcached said {:?}", String::from_utf8_lossy(other)),
            }
        }
    }
}
