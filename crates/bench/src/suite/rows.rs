//! Who is measured, under which loads, and what is asked of whom.

use super::goal::{Goal, Unit};
use super::peer::Peer;
use crate::EchoRequest;
use evenkeel_workload::Operation;

/// A closed loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    pub(crate) operation: Operation,
    pub(crate) connections: usize,
    pub(crate) pipeline: usize,
    pub(crate) multiget: usize,
}

/// A closed loop on one worker, and what is asked of the server under it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) id: &'static str,
    pub(crate) traffic: Traffic,
    /// Server and generator on one core; the figure is the server's processor time for a request.
    pub(crate) shared_core: bool,
    /// What is asked of epoll, as (whom, how many times). io_uring is to be above the ceiling where epoll is to be near it.
    goal: (Peer, f64),
}

/// Share of the epoll ceiling that is asked for where each request has system calls of its own.
const OF_CEILING: (Peer, f64) = (Peer::Echo, 0.94);

const GETS: Traffic = Traffic {
    operation: Operation::Get,
    connections: 16,
    pipeline: 1,
    multiget: 1,
};

const SETS: Traffic = Traffic {
    operation: Operation::Set,
    ..GETS
};

const fn load(id: &'static str, traffic: Traffic, goal: (Peer, f64)) -> Load {
    Load {
        id,
        traffic,
        shared_core: false,
        goal,
    }
}

const fn times(factor: f64) -> (Peer, f64) {
    (Peer::Memcached, factor)
}

/// The load whose throughput of memcached sets the rate for latencies.
pub(crate) const UNPIPELINED_GETS: &str = "get_unpipelined_16_connections";

/// The loads on one worker, in the order of the table.
pub(crate) const LOADS: [Load; 12] = [
    load(UNPIPELINED_GETS, GETS, OF_CEILING),
    load("get_unpipelined_64_connections", GETS.by(64), OF_CEILING),
    load("set_unpipelined_16_connections", SETS, OF_CEILING),
    load("set_unpipelined_64_connections", SETS.by(64), OF_CEILING),
    Load {
        shared_core: true,
        ..load("get_shared_core_cpu", GETS, OF_CEILING)
    },
    Load {
        shared_core: true,
        ..load("set_shared_core_cpu", SETS, OF_CEILING)
    },
    load("get_pipeline_16", GETS.deep(16), times(3.0)),
    load("set_pipeline_16", SETS.deep(16), times(2.0)),
    load("get_pipeline_64", GETS.deep(64), times(4.0)),
    load("set_pipeline_64", SETS.deep(64), times(3.0)),
    load("multiget_10", GETS.of_keys(10), times(2.0)),
    load("multiget_100", GETS.of_keys(100), times(4.0)),
];

impl Traffic {
    /// By this many connections.
    const fn by(self, connections: usize) -> Traffic {
        Traffic {
            connections,
            ..self
        }
    }

    /// This many requests in flight on a connection.
    const fn deep(self, pipeline: usize) -> Traffic {
        Traffic { pipeline, ..self }
    }

    /// This many keys in a get.
    const fn of_keys(self, multiget: usize) -> Traffic {
        Traffic { multiget, ..self }
    }

    /// What is asked for, in words.
    pub(crate) fn what(&self) -> String {
        match self.operation {
            Operation::Get if self.multiget > 1 => format!("multiget of {}", self.multiget),
            Operation::Get => "GET".to_owned(),
            other => other.name().to_uppercase(),
        }
    }

    /// The same, and how it comes.
    pub(crate) fn what_and_how(&self) -> String {
        let (what, connections) = (self.what(), self.connections);
        match self.pipeline {
            1 => format!("{what}, unpipelined, {connections} connections"),
            depth => format!("{what}, pipeline {depth}, {connections} connections"),
        }
    }

    /// What an echo server must be told to answer it.
    pub(crate) fn echo_request(&self) -> EchoRequest {
        match self.operation {
            Operation::Get => EchoRequest::Get,
            _ => EchoRequest::Set,
        }
    }
}

impl Load {
    pub(crate) fn what(&self) -> String {
        if self.shared_core {
            let what = self.traffic.what();
            return format!("{what}, server's CPU per request on a shared core");
        }
        self.traffic.what_and_how()
    }

    pub(crate) fn unit(&self) -> Unit {
        if self.shared_core {
            Unit::Microseconds
        } else if self.traffic.multiget > 1 {
            Unit::KeysPerSecond
        } else {
            Unit::RequestsPerSecond
        }
    }

    pub(crate) fn goals(&self) -> Vec<Goal> {
        let (against, factor) = self.goal;
        let mut goals = vec![Goal::Times(Peer::EvenkeelEpoll, against, factor)];
        if self.goal == OF_CEILING {
            goals.push(Goal::Times(Peer::EvenkeelUring, Peer::Echo, 1.0));
        }
        goals
    }
}

/// Items of one size, and what is asked: key and value in bytes, times memcached's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ItemSize {
    pub(crate) id: &'static str,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
    pub(crate) factor: f64,
}

/// The sizes of which items are counted.
pub(crate) const ITEM_SIZES: [ItemSize; 3] = [
    ItemSize {
        id: "items_10_20",
        key_len: 10,
        value_len: 20,
        factor: 1.8,
    },
    ItemSize {
        id: "items_24_64",
        key_len: 24,
        value_len: 64,
        factor: 1.4,
    },
    ItemSize {
        id: "items_30_230",
        key_len: 30,
        value_len: 230,
        factor: 1.3,
    },
];

/// Most memory that an idle connection may take, in bytes.
pub(crate) const IDLE_CONNECTION_BYTES_MAX: f64 = 4096.0;

/// Two workers are to do this many times the work of one, with clients that know the owners.
pub(crate) const TWO_WORKERS_FACTOR: f64 = 1.8;

/// Clients that do not know the owners are to reach this share of that.
pub(crate) const UNAWARE_SHARE: f64 = 0.85;

/// Most resident memory under a limit: 5 % and 64 MiB above it.
pub(crate) fn resident_bytes_bound(limit_bytes: u64) -> f64 {
    limit_bytes as f64 * 1.05 + (64 << 20) as f64
}

/// A closed loop through a proxy: its processor time for a request, or a key of a multiget, is to be at
/// most this share of the better peer's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProxyLoad {
    pub(crate) id: &'static str,
    pub(crate) traffic: Traffic,
    pub(crate) share_max: f64,
}

/// The loads through proxies, in the order of the table.
pub(crate) const PROXY_LOADS: [ProxyLoad; 5] = [
    proxy_load("proxy_get_unpipelined", GETS, 0.75),
    proxy_load("proxy_set_unpipelined", SETS, 0.75),
    proxy_load("proxy_get_pipeline_16", GETS.deep(16), 0.4),
    proxy_load("proxy_multiget_10", GETS.of_keys(10), 0.4),
    proxy_load("proxy_multiget_100", GETS.of_keys(100), 0.4),
];

const fn proxy_load(id: &'static str, traffic: Traffic, share_max: f64) -> ProxyLoad {
    ProxyLoad {
        id,
        traffic,
        share_max,
    }
}

/// Share of a minimal loop's throughput that the generator is to reach, so that it never is what limits a server
/// under pipelines.
pub(crate) const GENERATOR_SHARE: f64 = 0.9;

/// A closed loop on an echo server, by the generator and by a minimal loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GeneratorLoad {
    pub(crate) id: &'static str,
    pub(crate) traffic: Traffic,
    /// Whether [`GENERATOR_SHARE`] is asked for.
    pub(crate) has_goal: bool,
}

/// The loads of the generator, in the order of the table.
pub(crate) const GENERATOR_LOADS: [GeneratorLoad; 4] = [
    generator_load("generator_get_unpipelined", GETS, false),
    generator_load("generator_get_pipeline_16", GETS.deep(16), true),
    generator_load("generator_set_pipeline_16", SETS.deep(16), true),
    generator_load("generator_get_pipeline_64", GETS.deep(64), true),
];

const fn generator_load(id: &'static str, traffic: Traffic, has_goal: bool) -> GeneratorLoad {
    GeneratorLoad {
        id,
        traffic,
        has_goal,
    }
}
