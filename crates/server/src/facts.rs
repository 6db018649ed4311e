//! What `stats` says about the process.

use crate::args::Args;
use evenkeel_roles::server::ProcessFacts;
use evenkeel_runtime::ConnectionCount;
use evenkeel_storage::SegmentPool;
use std::net::SocketAddr;

/// Reads what changes: CPU time, connections, memory.
pub fn read(
    fixed: &ProcessFacts,
    connections: &ConnectionCount,
    pool: &SegmentPool,
) -> ProcessFacts {
    let (user_us, system_us) = cpu_time_us();
    ProcessFacts {
        user_us,
        system_us,
        connections_open: connections.open() as u64,
        connections_total: connections.total(),
        connections_refused: connections.refused(),
        used_bytes: pool.used_bytes() as u64,
        ..fixed.clone()
    }
}

/// What stays the same for the life of the process.
pub fn fixed(args: &Args, address: Option<SocketAddr>) -> ProcessFacts {
    let limit_bytes = (args.memory_limit as u64) << 20;
    let number = |value: u64| value.to_string();
    let yes = |value: bool| if value { "yes" } else { "no" }.to_owned();
    let socket = args
        .unix_socket
        .as_ref()
        .map_or("NULL".to_owned(), |p| p.display().to_string());
    ProcessFacts {
        pid: std::process::id(),
        connections_max: args.conn_limit as u64,
        limit_bytes,
        threads: args.threads.into(),
        settings: vec![
            ("maxbytes", number(limit_bytes)),
            ("maxconns", number(args.conn_limit as u64)),
            (
                "tcpport",
                number(address.map_or(0, |address| address.port().into())),
            ),
            ("udpport", number(0)),
            (
                "inter",
                args.listen
                    .clone()
                    .unwrap_or_else(|| "127.0.0.1".to_owned()),
            ),
            ("verbosity", number(args.verbose.into())),
            ("oldest", number(0)),
            (
                "evictions",
                if args.disable_evictions { "off" } else { "on" }.to_owned(),
            ),
            ("domain_socket", socket),
            ("umask", format!("{:o}", args.unix_mask)),
            ("num_threads", number(args.threads.into())),
            ("num_threads_per_udp", number(0)),
            ("stat_key_prefix", ":".to_owned()),
            ("detail_enabled", yes(false)),
            ("reqs_per_event", number(args.max_reqs_per_event.into())),
            ("cas_enabled", yes(true)),
            ("tcp_backlog", number(args.listen_backlog.into())),
            ("binding_protocol", "ascii".to_owned()),
            ("auth_enabled_sasl", yes(false)),
            ("auth_enabled_ascii", yes(false)),
            ("item_size_max", number(args.max_item_size as u64)),
            ("maxconns_fast", yes(true)),
            ("lru_crawler", yes(false)),
            ("flush_enabled", yes(!args.disable_flush_all)),
            ("dump_enabled", yes(false)),
            ("hash_algorithm", "foldhash".to_owned()),
            ("lru_segmented", yes(false)),
            (
                "idle_timeout",
                number(args.idle_timeout_s().unwrap_or(0).into()),
            ),
            ("ssl_enabled", yes(false)),
        ],
        ..ProcessFacts::default()
    }
}

/// CPU time of the process in user mode and in the kernel, in microseconds; zeros when the kernel
/// does not say.
fn cpu_time_us() -> (u64, u64) {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else {
        return (0, 0);
    };
    // The second field is the program's name in parentheses and may hold spaces.
    let Some((_, rest)) = stat.rsplit_once(')') else {
        return (0, 0);
    };
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let us_per_tick = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let mut next = || {
        fields
            .next()
            .and_then(|ticks| ticks.parse::<u64>().ok())
            .unwrap_or(0)
            * us_per_tick
    };
    (next(), next())
}
