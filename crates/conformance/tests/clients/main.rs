//! Real clients against a server, against proxies, and against memcached itself. The last shows that
//! a check asks for nothing that memcached does not do.
//!
//! The clients in Python and Go are part of `make test`. Those in JavaScript, Ruby, PHP and Java need
//! more than a test should install: `make conformance` installs it and runs the ignored tests too.

mod programs;
mod sasl;
mod tls;

use std::net::SocketAddr;
use std::thread;

use evenkeel_testkit::racks::{Architecture, Racks, RacksOptions};
use evenkeel_testkit::{Cluster, ClusterOptions, Memcached, evenkeel};

use programs::{LONG, Program, SHORT, Way, check_python};
use sasl::{sasl_memcached, sasl_proxy, sasl_server};
use tls::{Encrypting, tls_proxy, tls_server};

/// Runs all programs that go some way.
fn check_all(programs: &[Program], ways: &[Way], address: SocketAddr) {
    for program in chosen(programs, ways) {
        program.check(address);
    }
}

/// Runs all programs that speak TLS.
fn check_all_over_tls(programs: &[Program], server: &Encrypting) {
    for program in chosen(programs, &[Way::Tls]) {
        program.check_over_tls(server.address(), &server.authority());
    }
}

fn chosen<'a>(programs: &'a [Program], ways: &[Way]) -> Vec<&'a Program> {
    let chosen: Vec<_> = programs
        .iter()
        .filter(|program| ways.contains(&program.way))
        .collect();
    assert!(!chosen.is_empty(), "there are such programs");
    chosen
}

#[test]
fn clients_work_with_memcached() {
    let memcached = Memcached::spawn(&[]);
    check_all(SHORT, &[Way::Text, Way::Binary], memcached.address());
}

#[test]
fn clients_work_with_a_server() {
    let server = evenkeel::server(&["-t", "2"]);
    check_all(SHORT, &[Way::Text, Way::Binary], server.address());
}

#[test]
fn clients_work_with_a_server_of_one_worker() {
    let server = evenkeel::server(&["-t", "1"]);
    check_all(SHORT, &[Way::Text, Way::Binary], server.address());
}

#[test]
fn clients_authenticate_to_a_server() {
    let server = sasl_server();
    check_all(SHORT, &[Way::Sasl], server.address());
}

#[test]
fn clients_authenticate_to_a_proxy() {
    let proxy = sasl_proxy();
    check_all(SHORT, &[Way::Sasl], proxy.address());
}

#[test]
fn clients_work_over_tls_with_a_proxy() {
    check_all_over_tls(SHORT, &tls_proxy());
}

#[test]
#[ignore = "needs what make conformance installs"]
fn more_clients_authenticate_to_a_proxy() {
    let proxy = sasl_proxy();
    check_all(LONG, &[Way::Sasl], proxy.address());
}

#[test]
#[ignore = "needs what make conformance installs"]
fn more_clients_work_over_tls_with_a_proxy() {
    check_all_over_tls(LONG, &tls_proxy());
}

#[test]
fn clients_work_over_tls() {
    let server = tls_server();
    check_all_over_tls(SHORT, &server);
}

#[test]
#[ignore = "needs what make conformance installs"]
fn more_clients_work_with_memcached() {
    let memcached = Memcached::spawn(&[]);
    check_all(LONG, &[Way::Text, Way::Binary], memcached.address());
}

#[test]
#[ignore = "needs what make conformance installs"]
fn more_clients_work_with_a_server() {
    let server = evenkeel::server(&["-t", "2"]);
    check_all(LONG, &[Way::Text, Way::Binary], server.address());
}

#[test]
#[ignore = "needs what make conformance installs"]
fn more_clients_work_with_a_server_of_one_worker() {
    let server = evenkeel::server(&["-t", "1"]);
    check_all(LONG, &[Way::Text, Way::Binary], server.address());
}

#[test]
#[ignore = "needs what make conformance installs"]
fn all_clients_authenticate_to_memcached() {
    let memcached = sasl_memcached();
    check_all(SHORT, &[Way::Sasl], memcached.address());
    check_all(LONG, &[Way::Sasl], memcached.address());
}

#[test]
#[ignore = "needs what make conformance installs"]
fn more_clients_authenticate_to_a_server() {
    let server = sasl_server();
    check_all(LONG, &[Way::Sasl], server.address());
}

#[test]
#[ignore = "needs what make conformance installs"]
fn more_clients_work_over_tls() {
    let server = tls_server();
    check_all_over_tls(LONG, &server);
}

#[test]
fn clients_work_through_a_proxy_with_a_coordinator() {
    through_a_proxy_with_a_coordinator(SHORT);
}

#[test]
fn clients_work_through_a_proxy_in_front_of_memcached() {
    through_a_proxy_in_front_of_memcached(SHORT);
}

#[test]
#[ignore = "needs what make conformance installs"]
fn more_clients_work_through_a_proxy_with_a_coordinator() {
    through_a_proxy_with_a_coordinator(LONG);
}

#[test]
#[ignore = "needs what make conformance installs"]
fn more_clients_work_through_a_proxy_in_front_of_memcached() {
    through_a_proxy_in_front_of_memcached(LONG);
}

#[test]
fn clients_work_through_proxies_of_racks() {
    through_proxies_of_racks(SHORT);
}

#[test]
#[ignore = "needs what make conformance installs"]
fn more_clients_work_through_proxies_of_racks() {
    through_proxies_of_racks(LONG);
}

/// How many servers proxies are tried with.
const BEHIND: [usize; 3] = [1, 3, 8];

fn through_a_proxy_with_a_coordinator(programs: &[Program]) {
    for servers in BEHIND {
        let cluster = Cluster::start(ClusterOptions {
            servers,
            threads: 1,
            ..ClusterOptions::nobody_dies().with_proxy_args(&["--allow-flush"])
        });
        let address = cluster.proxies[0].address();
        check_all(programs, &[Way::Text, Way::Binary], address);
    }
}

fn through_a_proxy_in_front_of_memcached(programs: &[Program]) {
    for servers in BEHIND {
        let servers: Vec<_> = (0..servers).map(|_| Memcached::spawn(&[])).collect();
        let addresses: Vec<_> = servers.iter().map(|s| s.address().to_string()).collect();
        let addresses = addresses.join(",");
        let flags = ["-s", &addresses, "--allow-flush"];
        let proxy = evenkeel::proxy(&[&flags, &evenkeel::LONG_TIMEOUTS[..]].concat());
        check_all(programs, &[Way::Text, Way::Binary], proxy.address());
    }
}

/// What programs meet otherwise than from memcached, as docs/locality.md says: a lease on a miss (`mg` with `N`) is refused; uniques have more than
/// the 32 bits that meta-memcache reads; with a directory keys are shorter.
fn differs(architecture: Architecture) -> &'static [(&'static str, &'static str)] {
    const OF_RACKS: [(&str, &str); 3] = [
        ("LEASES", "refused"),
        ("UNIQUES", "wide"),
        ("KEY_MAX", "235"),
    ];
    match architecture {
        Architecture::Sdc | Architecture::Sds | Architecture::Sdr => &[],
        Architecture::Snoop => &OF_RACKS[..2],
        Architecture::Dir => &OF_RACKS,
    }
}

/// Each program asks in another rack than the one before it.
fn through_proxies_of_racks(programs: &[Program]) {
    thread::scope(|scope| {
        for architecture in Architecture::ALL {
            scope.spawn(move || {
                let racks = Racks::start(&RacksOptions {
                    architecture,
                    ..RacksOptions::default()
                });
                let chosen = chosen(programs, &[Way::Text, Way::Binary]);
                for (program, rack) in chosen.into_iter().zip((0..racks.proxies.len()).cycle()) {
                    program.check_where(differs(architecture), racks.address(rack));
                }
            });
        }
    });
}

#[test]
fn a_proxy_places_keys_as_libmemcached_does() {
    let memcached: Vec<Memcached> = (0..5).map(|_| Memcached::spawn(&[])).collect();
    let servers: Vec<String> = memcached
        .iter()
        .map(|server| server.address().to_string())
        .collect();
    let check = |flags: &[&str], behaviors: &str| {
        println!("{flags:?} {behaviors}");
        let listed = servers.join(",");
        let proxy = evenkeel::proxy(&[&["-s", &listed], flags, &evenkeel::LONG_TIMEOUTS].concat());
        let mut arguments = vec![proxy.address().to_string(), behaviors.to_owned()];
        arguments.extend(servers.iter().cloned());
        check_python("check_placement.py", &arguments);
    };
    check(&[], r#"{"ketama_weighted": true}"#);
    check(&["--distribution", "modula"], "{}");
    // pylibmc knows neither libmemcached's murmur3 nor, as it is built, its hsieh.
    for hash in [
        "default", "md5", "crc", "fnv1_64", "fnv1a_64", "fnv1_32", "fnv1a_32", "murmur", "jenkins",
    ] {
        for (ours, theirs) in [("modula", "modula"), ("ketama", "consistent ketama")] {
            check(
                &["--distribution", ours, "--hash", hash],
                &format!(r#"{{"distribution": "{theirs}", "hash": "{hash}"}}"#),
            );
        }
    }
}
