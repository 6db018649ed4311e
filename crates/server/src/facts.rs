//! What `stats` says about the process.

use crate::args::{Args, Extended, PREFIX_DELIMITER};
use evenkeel_runtime::{ConnectionCount, ListenerProtocol};
use evenkeel_server_core::ProcessFacts;
use evenkeel_storage::SegmentPool;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reads what changes: CPU time, connections, memory.
pub fn read(
    fixed: &ProcessFacts,
    connections: &ConnectionCount,
    pool: &SegmentPool,
) -> ProcessFacts {
    let (user_us, system_us) = cpu_time_us();
    let (accepting_pauses, paused) = connections.pauses_so_far();
    ProcessFacts {
        user_us,
        system_us,
        connections_open: connections.open() as u64,
        connections_total: connections.total(),
        connections_refused: connections.refused(),
        accepting_paused: !connections.is_accepting(),
        accepting_pauses,
        accepting_paused_us: paused.as_micros() as u64,
        limit_bytes: pool.limit_bytes() as u64,
        ..fixed.clone()
    }
}

/// What stays the same for the life of the process.
pub fn fixed(
    args: &Args,
    extended: &Extended,
    address: Option<SocketAddr>,
    listeners: Vec<String>,
) -> ProcessFacts {
    ProcessFacts {
        pid: std::process::id(),
        connections_max: args.conn_limit as u64,
        limit_bytes: (args.memory_limit as u64) << 20,
        threads: args.threads.into(),
        address: address.map(|address| (reached_by(args, address), address.port())),
        listeners,
        idle_timeout: !extended.idle_timeout.is_zero(),
        settings: settings(args, extended, address),
        ..ProcessFacts::default()
    }
}

/// The name of the machine.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// The host name or address under which clients reach the server. One that listens everywhere is
/// known by the name of its machine.
#[allow(clippy::disallowed_methods, reason = "on its own thread")]
fn reached_by(args: &Args, address: SocketAddr) -> String {
    if let Some(host) = &args.advertise {
        return host.clone();
    }
    let name = match address.ip().is_unspecified() {
        true => std::fs::read_to_string(HOST_NAME_FILE).ok(),
        false => None,
    };
    name.map_or(address.ip().to_string(), |name| name.trim().to_owned())
}

/// `stats settings`: memcached's names in memcached's order. What is a matter of slabs, LRU lists,
/// external storage or TLS, which do not exist here, is shown as switched off.
fn settings(
    args: &Args,
    extended: &Extended,
    address: Option<SocketAddr>,
) -> Vec<(&'static str, String)> {
    let yes = |value: bool| if value { "yes" } else { "no" }.to_owned();
    let socket = args
        .unix_socket
        .as_ref()
        .map_or("NULL".to_owned(), |p| p.display().to_string());
    let mut list = vec![
        ("maxbytes", (args.memory_limit << 20).to_string()),
        ("maxconns", args.conn_limit.to_string()),
        (
            "tcpport",
            address.map_or(0, |address| address.port()).to_string(),
        ),
        ("udpport", "0".to_owned()),
        (
            "inter",
            match args.listen.is_empty() {
                true if args.compat => "NULL".to_owned(),
                true => "127.0.0.1".to_owned(),
                false => args.listen.join(","),
            },
        ),
        ("verbosity", args.log.verbose.to_string()),
        ("oldest", "0".to_owned()),
        (
            "evictions",
            if args.disable_evictions { "off" } else { "on" }.to_owned(),
        ),
        ("domain_socket", socket),
        ("umask", format!("{:o}", args.unix_mask)),
        ("shutdown_command", yes(args.enable_shutdown)),
        ("growth_factor", "1.00".to_owned()),
        ("chunk_size", "0".to_owned()),
        ("num_threads", args.threads.to_string()),
        ("num_threads_per_udp", "0".to_owned()),
        (
            "stat_key_prefix",
            char::from(args.prefix_delimiter.unwrap_or(PREFIX_DELIMITER)).to_string(),
        ),
        ("detail_enabled", yes(args.prefix_delimiter.is_some())),
        ("reqs_per_event", args.max_reqs_per_event.to_string()),
        ("cas_enabled", yes(!args.disable_cas)),
        ("tcp_backlog", args.listen_backlog.to_string()),
        ("binding_protocol", binding_protocol(args).to_owned()),
        ("auth_enabled_sasl", yes(args.enable_sasl)),
        (
            "auth_enabled_ascii",
            args.auth_file
                .as_ref()
                .map_or_else(|| yes(false), |file| file.display().to_string()),
        ),
        ("item_size_max", args.max_item_size.to_string()),
        ("maxconns_fast", yes(extended.maxconns_fast)),
    ];
    let off = |names: &[&'static str], value: &'static str, list: &mut Vec<_>| {
        list.extend(names.iter().map(|name| (*name, value.to_owned())));
    };
    off(&["hashpower_init"], "0", &mut list);
    off(&["slab_reassign"], "no", &mut list);
    off(
        &[
            "slab_automove",
            "slab_automove_ratio",
            "slab_automove_window",
            "slab_chunk_max",
        ],
        "0",
        &mut list,
    );
    off(&["lru_crawler"], "no", &mut list);
    off(
        &[
            "lru_crawler_sleep",
            "lru_crawler_tocrawl",
            "tail_repair_time",
        ],
        "0",
        &mut list,
    );
    list.push(("flush_enabled", yes(!args.disable_flush_all)));
    list.push(("dump_enabled", yes(!args.disable_dumping)));
    list.push(("hash_algorithm", "foldhash".to_owned()));
    off(&["lru_maintainer_thread", "lru_segmented"], "no", &mut list);
    off(
        &[
            "hot_lru_pct",
            "warm_lru_pct",
            "hot_max_factor",
            "warm_max_factor",
        ],
        "0",
        &mut list,
    );
    off(&["temp_lru"], "no", &mut list);
    off(&["temporary_ttl"], "0", &mut list);
    list.push(("idle_timeout", extended.idle_timeout.as_secs().to_string()));
    for (name, bytes) in [
        ("watcher_logbuf_size", extended.watcher_logbuf_bytes),
        ("worker_logbuf_size", extended.worker_logbuf_bytes),
        (
            "read_buf_mem_limit",
            extended.read_buf_bytes_max(args.max_item_size),
        ),
        // memcached no longer has it; it is shown where it was.
        (
            "resp_obj_mem_limit",
            extended.response_bytes_max(args.max_item_size),
        ),
    ] {
        list.push((name, bytes.to_string()));
    }
    list.push(("track_sizes", yes(extended.track_sizes)));
    off(&["inline_ascii_response"], "no", &mut list);
    off(
        &[
            "ext_item_size",
            "ext_item_age",
            "ext_low_ttl",
            "ext_recache_rate",
            "ext_wbuf_size",
            "ext_compact_under",
            "ext_drop_under",
            "ext_max_sleep",
            "ext_max_frag",
            "slab_automove_freeratio",
        ],
        "0",
        &mut list,
    );
    off(&["ext_drop_unread"], "no", &mut list);
    let tls = &extended.tls;
    let path = |path: &Option<PathBuf>, none: &str| match path {
        Some(path) => path.display().to_string(),
        None => none.to_owned(),
    };
    list.extend([
        ("ssl_enabled", yes(args.enable_ssl)),
        ("ssl_chain_cert", path(&tls.chain_cert, "(null)")),
        ("ssl_key", path(&tls.key, "(null)")),
        ("ssl_verify_mode", tls.verify_mode.to_string()),
        // OpenSSL's number for PEM.
        ("ssl_keyformat", u8::from(args.enable_ssl).to_string()),
        (
            "ssl_ciphers",
            tls.ciphers.clone().unwrap_or_else(|| "NULL".to_owned()),
        ),
        ("ssl_ca_cert", path(&tls.ca_cert, "NULL")),
        ("ssl_wbuf_size", "0".to_owned()),
        ("ssl_session_cache", yes(tls.session_cache)),
        ("ssl_kernel_tls", yes(false)),
        (
            "ssl_min_version",
            match (args.enable_ssl, tls.min_version) {
                (false, _) => "(null)",
                (true, Some(3)) => "tlsv1.3",
                (true, _) => "tlsv1.2",
            }
            .to_owned(),
        ),
    ]);
    off(&["num_napi_ids"], "0", &mut list);
    off(&["memory_file"], "(null)", &mut list);
    // Bytes of an item's client flags.
    off(&["client_flags_size"], "4", &mut list);
    list
}

/// Length of a tick in `/proc/self/stat`, in microseconds: `USER_HZ` is 100 in Linux's interface to
/// programs, whatever the kernel itself ticks at.
const US_PER_TICK: u64 = 10_000;

/// CPU time of the process in user mode and in the kernel, in microseconds; zeros when the kernel
/// does not say.
#[allow(clippy::disallowed_methods, reason = "on its own thread")]
fn cpu_time_us() -> (u64, u64) {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else {
        return (0, 0);
    };
    // The second field is the program's name in parentheses and may hold spaces.
    let Some((_, rest)) = stat.rsplit_once(')') else {
        return (0, 0);
    };
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next = || {
        fields
            .next()
            .and_then(|ticks| ticks.parse::<u64>().ok())
            .unwrap_or(0)
            * US_PER_TICK
    };
    (next(), next())
}

/// `-B` in the words of `stats settings`.
fn binding_protocol(args: &Args) -> &'static str {
    match args.default_protocol() {
        ListenerProtocol::Negotiating => "auto-negotiate",
        ListenerProtocol::Ascii => "ascii",
        ListenerProtocol::Binary => "binary",
    }
}
