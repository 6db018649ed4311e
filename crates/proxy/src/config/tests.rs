//! Files that can be used, and those that cannot, each with its exact message.

use super::pools::CopiesPlan;
use super::*;
use crate::recorder::{ProfilePlace, Target};
use clap::Parser;
use evenkeel_hotkeys::plain::PlainMode;
use evenkeel_profile::Sampling;
use evenkeel_protocol::auth::AuthMode;
use evenkeel_proxy_core::{
    CommandClass, Enough, Keeping, Limit, RequestLogConfig, RouteTarget, TtlBounds,
};
use reader::PROBLEMS_MAX;
use std::time::Duration;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    args: Args,
}

pub(super) fn read_text(text: &str, flags: &[&str]) -> Result<Settings, String> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("proxy.toml");
    std::fs::write(&path, text).expect("room");
    let line = ["proxy", "--config", path.to_str().expect("UTF-8")];
    let args = Program::try_parse_from(line.iter().chain(flags)).expect("sound flags");
    Settings::read(&args.args).map_err(|error| match error {
        ConfigError::Flags(error) => error.to_string(),
        ConfigError::File(rejection) => {
            let file = format!("{}:", rejection.file);
            rejection.report().replace(&file, "")
        }
    })
}

const SMALLEST: &str = "[pools.a]\nservers = [\"h\"]\n";

#[test]
fn the_smallest_file_is_one_pool() {
    let settings = read_text(SMALLEST, &[]).unwrap();
    let listen = ListenSpec::at("127.0.0.1:11211".parse().unwrap());
    assert_eq!(settings.listen, [listen]);
    assert_eq!(settings.pools[0].settings, PoolSettings::default());
    assert_eq!(settings.routes.routes().len(), 1);
    // What md5sum says of it.
    assert_eq!(settings.digest, "91fa25431464f6d99f6fb86f465c2ba7");
}

#[test]
fn flags_go_before_the_file_and_the_file_before_what_stands_for_nothing() {
    let text = format!(
        "[proxy]\nlisten = [\"127.0.0.1:1\", \"[::1]:2\"]\nthreads = 5\nmax_item_size = \"2m\"\n{SMALLEST}"
    );
    let settings = read_text(&text, &["-t", "3"]).unwrap();
    assert_eq!(settings.threads, 3);
    assert_eq!(settings.listen.len(), 2);
    assert_eq!(settings.max_item_size, 2 << 20);
    assert_eq!(settings.conn_limit, 1024);
    let running = read_text(SMALLEST, &[]).unwrap();
    assert_eq!(settings.need_restart(&running), ["listen", "threads"]);
}

#[test]
fn the_log_of_requests_is_a_file_or_standard_output() {
    let log = |text: &str, flags: &[&str]| {
        let text = format!("[proxy]\n{text}{SMALLEST}");
        read_text(&text, flags).unwrap().request_log
    };
    let none = log("", &[]);
    assert_eq!((none.target(), none.config()), (None, None));
    let usual = log("request_log = \"-\"\n", &[]);
    assert_eq!(usual.target(), Some(Target::Stdout));
    let config = RequestLogConfig {
        sample: 1000,
        slow: None,
        hash_keys: false,
    };
    assert_eq!(usual.config(), Some(config));
    let text = "request_log = \"/var/log/r\"\nrequest_log_sample = 0\nrequest_log_slow = \"20ms\"\n\
                request_log_hash_keys = true\n";
    let all = log(text, &[]);
    assert_eq!(all.target(), Some(Target::File("/var/log/r".into())));
    let config = RequestLogConfig {
        sample: 0,
        slow: Some(Duration::from_millis(20)),
        hash_keys: true,
    };
    assert_eq!(all.config(), Some(config));
    let flags = ["--request-log", "-", "--request-log-sample", "7"];
    let given = log(text, &flags);
    assert_eq!(given.target(), Some(Target::Stdout));
    assert_eq!(
        given.config(),
        Some(RequestLogConfig {
            sample: 7,
            ..config
        })
    );
    let restart = read_text(&format!("[proxy]\n{text}{SMALLEST}"), &[]).unwrap();
    let running = read_text(SMALLEST, &[]).unwrap();
    assert_eq!(restart.need_restart(&running), ["request_log"]);
}

#[test]
fn the_rack_of_the_proxy_is_that_of_the_flag_the_file_or_its_address() {
    let racks = "[topology.racks.a]\ncidr = \"10.1.0.0/16\"\n[topology.racks.b]\n[topology.racks.core]\ncentral = true\n";
    let own = |process: &str, flags: &[&str]| {
        let text = format!("[proxy]\n{process}{racks}{SMALLEST}");
        let settings = read_text(&text, flags)?;
        let racks = settings.racks;
        Ok::<_, String>(racks.name(racks.own()).to_owned())
    };
    assert_eq!(own("", &[]).unwrap(), "?");
    assert_eq!(own("advertise = \"10.1.3.4\"\n", &[]).unwrap(), "a");
    let file = "advertise = \"10.1.3.4\"\nrack = \"b\"\n";
    assert_eq!(own(file, &[]).unwrap(), "b");
    assert_eq!(own(file, &["--rack", "core"]).unwrap(), "core");
    let error = own("", &["--rack", "c"]).expect_err("there is none");
    assert_eq!(error, "--rack: no rack \"c\"; there are a, b, core");
    let many: String = (0..65)
        .map(|n| format!("[topology.racks.r{n}]\n"))
        .collect();
    let error = read_text(&format!("{many}{SMALLEST}"), &[]).expect_err("too many");
    assert!(
        error.contains("65 racks; there may be 64 at most"),
        "{error}"
    );
}

#[test]
fn a_profile_has_a_file_a_sample_and_a_bound() {
    let settings = |text: &str, flags: &[&str]| {
        let text = format!("[proxy]\n{text}{SMALLEST}");
        read_text(&text, flags).unwrap()
    };
    let profile = |text: &str, flags: &[&str]| {
        let plan = settings(text, flags).profile;
        let config = plan.config(["a", "b"].into_iter(), &Racks::default());
        let sampling = config.map(|config| (config.head.sampling, config.head.pools.len()));
        (plan.place(), sampling)
    };
    let sampling = |one_of| {
        let (pages, keys) = (one_of, one_of);
        Some((
            Sampling {
                seed: 0,
                pages,
                keys,
            },
            2,
        ))
    };
    let place = |path: &str, max| {
        let path = path.into();
        Some(ProfilePlace { path, max })
    };
    assert_eq!(profile("profile_sample = 3\n", &[]), (None, None));
    let usual = profile("profile = \"/p\"\n", &[]);
    assert_eq!(usual, (place("/p", 1 << 30), sampling(100)));
    let text =
        "profile = \"/p\"\nprofile_sample = 7\nprofile_max = \"2m\"\nprofile_key = \"page\"\n";
    assert_eq!(profile(text, &[]), (place("/p", 2 << 20), sampling(7)));
    let flags = [
        "--profile",
        "/q",
        "--profile-sample",
        "9",
        "--profile-max",
        "1g",
    ];
    assert_eq!(profile(text, &flags), (place("/q", 1 << 30), sampling(9)));
    let full = [
        profile(text, &["--profile-full"]),
        profile(&format!("{text}profile_full = true\n"), &[]),
    ];
    assert!(full.iter().all(|(_, it)| *it == sampling(1)), "{full:?}");
    let with = settings(text, &[]);
    assert_eq!(with.profile.page_key().as_deref(), Some(&b"page:"[..]));
    let without = settings("", &[]);
    assert_eq!(
        (with.need_restart(&without), without.profile.page_key()),
        (vec!["profile"], None)
    );
    let other = settings(&text.replace("= 7", "= 8"), &[]);
    assert_eq!(other.need_restart(&with), [] as [&str; 0], "a reload does");
    for (wrong, what) in [
        ("profile_sample = 0", "profile_sample"),
        ("profile_max = \"900k\"", "use 1m to 1024g"),
        ("profile_key = \"a:b\"", "other than :"),
        ("profile_key = \"\"", "other than :"),
    ] {
        let text = format!("[proxy]\n{wrong}\n{SMALLEST}");
        let error = read_text(&text, &[]).unwrap_err();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn limits_of_multi_gets_are_of_the_process_and_of_routes() {
    let text = "[proxy]\nlimit_keys = true\n[pools.a]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\n\
                [[routes]]\nprefix = \"feed:\"\npool = \"a\"\nget_at_least = \"90%\"\nget_within = \"5ms\"\n";
    let settings = read_text(text, &[]).unwrap();
    assert!(settings.limit_keys);
    let limits: Vec<_> = (settings.routes.routes().iter())
        .map(|route| route.limit)
        .collect();
    let limit = Limit {
        enough: Some(Enough::Percent(90)),
        within: Some(Duration::from_millis(5)),
    };
    assert_eq!(limits, [None, Some(limit)]);
}

#[test]
fn copies_are_of_pools_with_a_list() {
    let text = "[pools.a]\nservers = [\"h\"]\nbundle = \"observe\"\ncopies = 4\n[pools.b]\nservers = [\"i\"]\n\
                bundle = \"off\"\ncopies = 2\n[[routes]]\npool = \"a\"\n";
    let settings = read_text(text, &[]).unwrap();
    let copies: Vec<_> = (settings.pools.iter()).map(|pool| pool.copies).collect();
    let observed = CopiesPlan {
        copies: 4,
        keeping: None,
        is_by_rack: false,
    };
    assert_eq!(copies, [Some(observed), None]);
    const KEPT: &str = "servers = [\"h\"]\nbundle = \"on\"\ncopies = 2\npool_coordinator = \"c\"\n";
    let kept = |more: &str| {
        let settings = read_text(&format!("[pools.a]\n{KEPT}{more}"), &[]).unwrap();
        settings.pools[0].copies.unwrap().keeping
    };
    assert_eq!(kept(""), Some(Keeping::default()));
    let keeping = Keeping {
        ttl: 5,
        value_max: 100,
        fill_share: 0.5,
        strict: false,
    };
    let more =
        "copies_ttl = 5\ncopies_value_max = 100\ncopies_fill_share = 0.5\ncopies_strict = false\n";
    assert_eq!(kept(more), Some(keeping));
    for (more, words) in [
        ("copies_ttl = 0", "1 to 86400 seconds"),
        ("copies_ttl = 86401", "86400"),
        ("copies_value_max = 0", "copies_value_max is 1 to 1048576"),
        (
            "copies_fill_share = 0.009",
            "copies_fill_share is a fraction, 0.01 to 1",
        ),
        ("copies_fill_share = 1.1", "0.01 to 1"),
        ("failover = \"next\"", "two views"),
        ("hot_keys = \"on\"", "not built"),
        ("warm_from = \"a\"", "not built"),
    ] {
        let refused = read_text(&format!("[pools.a]\n{KEPT}{more}\n"), &[]).unwrap_err();
        let told = format!("{refused:?}");
        assert!(told.contains(words), "{more}: {told}");
    }
    for (lines, words) in [
        (
            "servers = [\"h\"]\nbundle = \"observe\"",
            "say how many copies",
        ),
        ("servers = [\"h\"]\ncopies = 2", "copies goes with bundle"),
        (
            "servers = [\"h\"]\nbundle = \"on\"\ncopies = 2",
            "needs a pool_coordinator",
        ),
        (
            "servers = [\"h\"]\nbundle = \"yes\"\ncopies = 2",
            "use \"off\", \"observe\" or \"on\"",
        ),
        (
            "servers = [\"h\"]\nbundle = \"observe\"\ncopies = 2\ncopies_strict = true",
            "copies_strict goes with",
        ),
        (
            "servers = [\"h\"]\ncopies_fill_share = 0.5",
            "copies_fill_share goes with",
        ),
        (
            "dns = \"f:1\"\nbundle = \"on\"\ncopies = 2\npool_coordinator = \"c\"",
            "changes by itself",
        ),
        (
            "servers = [\"h\"]\nbundle = \"observe\"\ncopies = 9",
            "copies is 2 to 8",
        ),
        (
            "coordinator = \"h\"\nbundle = \"observe\"\ncopies = 2",
            "whose list says",
        ),
    ] {
        let refused = read_text(&format!("[pools.a]\n{lines}\n"), &[]).unwrap_err();
        let told = format!("{refused:?}");
        assert!(
            told.contains(&words.replace('"', "\\\"")),
            "{lines}: {told}"
        );
    }
}

#[test]
fn the_example_can_be_used_and_means_what_it_says() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/examples/proxy.toml"
    );
    let checked = check_file(Path::new(path)).unwrap_or_else(|e| panic!("{}", e.report()));
    assert_eq!((checked.pools, checked.routes), (4, 6));
    let settings = read_text(&std::fs::read_to_string(path).unwrap(), &[]).unwrap();
    let names: Vec<&str> = settings.pools.iter().map(|pool| &*pool.name).collect();
    assert_eq!(
        names,
        ["main", "sessions", "thumbs", "hot"],
        "in the order of the file"
    );
    assert_eq!(
        settings.pools[0].settings.request_timeout,
        Duration::from_millis(500)
    );
    let PoolServers::Memcached(list) = &settings.pools[1].servers else {
        panic!("any memcached servers");
    };
    assert_eq!(
        (list.servers()[1].identity(), list.servers()[1].weight),
        ("two".into(), 2)
    );
    let routes = &settings.routes;
    let find = |key: &str| &routes.routes()[routes.find(key.as_bytes(), CommandClass::Set)];
    assert_eq!(find("x").target, RouteTarget::Pool(0));
    let session = find("session:1");
    assert_eq!(session.target, RouteTarget::Pool(1));
    assert_eq!(
        (session.ttl.max, session.ttl.jitter),
        (7 * 86_400, TtlBounds::jitter_of(0.1))
    );
    assert!(find("hot:1").strip_prefix && find("feed:1").read_only);
    assert_eq!(find("internal:1").target, RouteTarget::Deny);
}

#[test]
fn a_pool_says_where_its_keys_go_when_a_server_is_out_of_use() {
    let text = "[pools.a]\nservers = [\"h\"]\nfailover = \"next\"\nfailover_ttl = \"1m\"\n\
                [pools.b]\nservers = [\"i\"]\ngutter = \"c\"\nflush_on_return = true\ncollapse = false\n\
                [pools.c]\nservers = [\"j\"]\n[pools.d]\ncoordinator = \"k\"\ncollapse = false\n\
                [[routes]]\npool = \"a\"\n";
    let pools = read_text(text, &[]).unwrap().pools;
    assert_eq!(pools[0].settings.failover, Failover::Next);
    assert_eq!(pools[0].settings.failover_ttl, Duration::from_secs(60));
    assert_eq!(pools[1].settings.failover, Failover::Gutter("c".into()));
    assert!(pools[1].settings.flush_on_return);
    let collapse: Vec<bool> = pools.iter().map(|pool| pool.settings.collapse).collect();
    assert_eq!(collapse, [true, false, true, false]);
    assert_eq!(pools[2].settings, PoolSettings::default());
}

#[test]
fn a_pool_says_what_is_done_about_its_hot_keys() {
    let text = "[pools.a]\nservers = [\"h\"]\nhot_keys = \"on\"\nhot_keys_lease = \"2s\"\n\
                hot_keys_replicas = 3\n\
                [pools.b]\nservers = [\"i\"]\nhot_keys = \"observe\"\n\
                [[routes]]\npool = \"a\"\n";
    let pools = read_text(text, &[]).unwrap().pools;
    let hot_keys = &pools[0].settings.hot_keys;
    assert_eq!(hot_keys.mode, PlainMode::On);
    assert_eq!(hot_keys.lease, Duration::from_secs(2));
    assert_eq!(hot_keys.gamma_max, 3);
    assert_eq!(pools[1].settings.hot_keys.mode, PlainMode::Observe);
}

#[test]
fn servers_can_be_looked_for() {
    let text = "[proxy]\nnameservers = [\"10.0.0.53\", \"[::1]:5353\"]\n\
                [pools.a]\ndns = \"cache.test:7\"\nfamily = \"ipv4\"\ngutter = \"b\"\n\
                [pools.b]\nsrv = \"_memcached._tcp.test\"\nrefresh = \"5s\"\ndistribution = \"jump\"\n\
                [[routes]]\npool = \"a\"\n";
    let settings = read_text(text, &[]).unwrap();
    let servers: Vec<String> = settings
        .nameservers
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(servers, ["10.0.0.53:53", "[::1]:5353"]);
    let found: Vec<_> = settings
        .discovered()
        .map(|(_, spec)| spec.clone())
        .collect();
    assert_eq!(found[0].source.to_string(), "dns cache.test:7");
    assert_eq!(found[0].refresh, Duration::from_secs(30));
    assert_eq!(found[1].source.to_string(), "srv _memcached._tcp.test");
    assert_eq!(found[1].refresh, Duration::from_secs(5));
    assert_eq!(found[1].placement.distribution.name(), "jump");
}

#[test]
fn who_may_speak_is_said_by_flags_or_by_the_file_and_flags_go_before_it() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("room");
    // Relative paths begin where the file is.
    let text = format!(
        "[proxy]\nlisten = [\"localhost:0\", \"[::1]\"]\nadmin = \"127.0.0.1:0\"\nauth_file = \"users\"\n\
         unix_socket = \"p.sock\"\n{SMALLEST}"
    );
    write("users", "me:secret\n");
    write("others", "me:other\n");
    write("proxy.toml", &text);
    let path = dir.path().join("proxy.toml");
    let read = |flags: &[&str]| {
        let line = ["proxy", "--config", path.to_str().expect("UTF-8")];
        let args = Program::try_parse_from(line.iter().chain(flags)).expect("sound flags");
        Settings::read(&args.args).map_err(|error| error.line())
    };
    let settings = read(&[]).unwrap();
    assert_eq!(settings.access.mode, AuthMode::Text);
    assert!(settings.access.admits(b"me", b"secret"));
    assert_eq!(settings.admin, Some("127.0.0.1:0".parse().unwrap()));
    assert_eq!(settings.listen[0].host.as_deref(), Some("localhost"));
    assert_eq!(settings.unix_socket, Some(dir.path().join("p.sock")));
    let others = dir.path().join("others");
    let others = others.to_str().expect("UTF-8");
    let flags = ["-Y", others, "--admin", "127.0.0.1:9", "-l", "127.0.0.1:1"];
    let other = read(&flags).unwrap();
    assert!(other.access.admits(b"me", b"other") && !other.access.admits(b"me", b"secret"));
    assert_eq!(other.admin, Some("127.0.0.1:9".parse().unwrap()));
    assert_eq!(other.need_restart(&settings), ["listen", "admin"]);
    // Each is sound alone.
    let error = read(&["-S", "--sasl-pwdb", others]).unwrap_err();
    assert!(error.contains("-S and -Y"), "{error}");
    write(
        "proxy.toml",
        &text.replace(
            "auth_file = \"users\"",
            "enable_sasl = true\nsasl_pwdb = \"users\"",
        ),
    );
    assert_eq!(read(&[]).unwrap().access.mode, AuthMode::Sasl);
    assert!(
        read(&["--sasl-pwdb", others])
            .unwrap()
            .access
            .admits(b"me", b"other")
    );
    write("users", "nonsense\n");
    let error = read(&[]).unwrap_err();
    assert!(
        error.contains(":5:13: ") && error.contains("users: "),
        "{error}"
    );
}

/// What stands in a file, and what is said about it.
const BAD: &[(&str, &str)] = &[
    (
        "[pools.a]\nservers = [\"h\"]\ngutter = \"a\"\n",
        "3:10: a gutter is another pool\n  |\n3 | gutter = \"a\"\n  |          ^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\ngutter = \"main\"\n[pools.mian]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\n",
        "3:10: there is no pool \"main\"; did you mean \"mian\"?\n  |\n3 | gutter = \"main\"\n  |          ^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nwarm_from = \"a\"\n",
        "3:13: a pool is warmed from another pool\n  |\n3 | warm_from = \"a\"\n  |             ^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nwarm_from = \"main\"\n[pools.mian]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\n",
        "3:13: there is no pool \"main\"; did you mean \"mian\"?\n  |\n3 | warm_from = \"main\"\n  |             ^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nwarm_from = \"b\"\n[pools.b]\ncoordinator = \"h:1\"\n[[routes]]\npool = \"a\"\n",
        "3:13: a pool is warmed from one with servers, not from one with a coordinator\n  |\n\
         3 | warm_from = \"b\"\n  |             ^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nwarm_from = \"b\"\n[pools.b]\nservers = [\"h\"]\nwarm_from = \"c\"\n\
         [pools.c]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\n",
        "3:13: pool \"b\" is itself warmed from another: end that first\n  |\n\
         3 | warm_from = \"b\"\n  |             ^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nwarm_from = \"b\"\nfailover = \"next\"\n[pools.b]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\n",
        "4:12: failover does not go with warm_from: of two more places nothing tells which has the newest item\n  |\n\
         4 | failover = \"next\"\n  |            ^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nwarm_from = \"b\"\nhot_keys = \"on\"\n[pools.b]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\n",
        "4:12: hot_keys does not go with warm_from: replicas of hot keys would have to follow deletes at the former pool\n  |\n\
         4 | hot_keys = \"on\"\n  |            ^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nwarm_fill = false\n",
        "3:13: warm_fill goes with warm_from\n  |\n3 | warm_fill = false\n  |             ^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\npool_coordinator = \"h:1\"\n",
        "3:20: pool_coordinator goes with warm_from, with distribution = \"adaptive\", with bundle = \"on\", or with architecture = \"sdr\"\n  |\n\
         3 | pool_coordinator = \"h:1\"\n  |                    ^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\ndistribution = \"adaptive\"\n",
        "3:16: an adaptive pool needs a pool_coordinator, which leads its ring\n  |\n\
         3 | distribution = \"adaptive\"\n  |                ^^^^^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nwarm_from = \"b\"\n[pools.b]\nservers = [\"h\"]\ndistribution = \"adaptive\"\n\
         pool_coordinator = \"h:1\"\n[[routes]]\npool = \"a\"\n",
        "3:13: the ring of pool \"b\" moves its keys: it cannot be warmed from\n  |\n3 | warm_from = \"b\"\n  |             ^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nstart = \"even\"\n",
        "3:9: start goes with distribution = \"adaptive\"\n  |\n3 | start = \"even\"\n  |         ^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\ndistribution = \"adaptive\"\nstart = \"jump\"\npool_coordinator = \"h:1\"\n",
        "4:9: jump has no ring; a ring begins as a ketama, or even\n  |\n4 | start = \"jump\"\n  |         ^^^^^^\n",
    ),
    (
        "[pools.a]\ndns = \"h\"\ndistribution = \"adaptive\"\npool_coordinator = \"h:1\"\n",
        "3:16: an adaptive pool has a list of servers\n  |\n\
         3 | distribution = \"adaptive\"\n  |                ^^^^^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\ndistribution = \"adaptive\"\npool_coordinator = \"h:1\"\nfailover = \"next\"\n",
        "5:12: failover does not go with distribution = \"adaptive\": what is stored elsewhere would not move with its slice\n  |\n\
         5 | failover = \"next\"\n  |            ^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nwarm_from = \"b\"\nwarm_fill = false\npool_coordinator = \"h:1\"\n[pools.b]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\n",
        "4:13: warm_fill does not go with pool_coordinator, which leads the pool stage by stage\n  |\n\
         4 | warm_fill = false\n  |             ^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nwarm_from = \"b\"\npool_coordinator = \"h:1\"\n[pools.b]\nservers = [\"h\"]\n\
         [[routes]]\npool = \"a\"\n[[routes]]\nprefix = \"x\"\npool = \"b\"\n",
        "4:20: a route writes to pool \"b\", whose place \"a\" takes: lead it to \"a\", or make it read_only\n  |\n\
         4 | pool_coordinator = \"h:1\"\n  |                    ^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nfailover = \"prev\"\n",
        "3:12: failover: use \"none\" or \"next\", or gutter = \"POOL\" instead\n  |\n\
         3 | failover = \"prev\"\n  |            ^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nhot_keys = \"yes\"\n",
        "3:12: hot_keys: use \"off\", \"observe\" or \"on\"\n  |\n\
         3 | hot_keys = \"yes\"\n  |            ^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nhot_keys = \"on\"\nhot_keys_lease = \"11s\"\n",
        "4:18: hot_keys_lease: use 50ms to 10s\n  |\n\
         4 | hot_keys_lease = \"11s\"\n  |                  ^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nhot_keys_replicas = 2\n",
        "3:21: hot_keys_replicas goes with hot_keys = \"observe\" or \"on\"\n  |\n\
         3 | hot_keys_replicas = 2\n  |                     ^\n",
    ),
    (
        "[pools.a]\ncoordinator = \"h:1\"\nhot_keys = \"on\"\n",
        "3:12: hot_keys goes with servers: a pool of Evenkeel servers has its map\n  |\n\
         3 | hot_keys = \"on\"\n  |            ^^^^\n",
    ),
    (
        "[proxy]\nenable_sasl = true\n[pools.a]\nservers = [\"h\"]\n",
        "2:15: enable_sasl needs sasl_pwdb, a file of user:password lines\n  |\n\
         2 | enable_sasl = true\n  |               ^^^^\n",
    ),
    (
        "[proxy]\nauth_file = \"/no/such/file\"\n[pools.a]\nservers = [\"h\"]\n",
        "2:13: /no/such/file: No such file or directory (os error 2)\n  |\n\
         2 | auth_file = \"/no/such/file\"\n  |             ^^^^^^^^^^^^^^^\n",
    ),
    (
        "[proxy]\nlisten = [\"127.0.0.1\", \"mtls:[::1]\"]\n[pools.a]\nservers = [\"h\"]\n",
        "2:24: listen: this prefix goes with enable_ssl = true\n  |\n\
         2 | listen = [\"127.0.0.1\", \"mtls:[::1]\"]\n  |                        ^^^^^^^^^^^^\n",
    ),
    (
        "[proxy]\nlisten = \"tag[x]:h\"\nadmin = \"localhost\"\n[pools.a]\nservers = [\"h\"]\n",
        "2:10: listen: proto[…]: and tag[…]: are for servers; of the proxy, each connection speaks what it \
         begins with\n  |\n2 | listen = \"tag[x]:h\"\n  |          ^^^^^^^^^^\n\
         3:9: admin: give IP:PORT, such as 127.0.0.1:9150\n  |\n\
         3 | admin = \"localhost\"\n  |         ^^^^^^^^^^^\n",
    ),
    (
        "[proxy]\nenable_ssl = true\n[pools.a]\nservers = [\"h\"]\n",
        "2:14: enable_ssl needs ssl_chain_cert, the file with the certificate\n  |\n\
         2 | enable_ssl = true\n  |              ^^^^\n",
    ),
    (
        "[proxy]\nenable_ssl = true\nssl_chain_cert = \"/dev/null\"\nssl_verify_mode = 2\n[pools.a]\nservers = [\"h\"]\n",
        "4:19: clients' certificates need their authorities, ssl_ca_cert\n  |\n\
         4 | ssl_verify_mode = 2\n  |                   ^\n",
    ),
    (
        "[proxy]\nenable_ssl = true\nssl_chain_cert = \"/dev/null\"\n[pools.a]\nservers = [\"h\"]\n",
        "3:18: /dev/null: there is no certificate in it\n  |\n\
         3 | ssl_chain_cert = \"/dev/null\"\n  |                  ^^^^^^^^^^^\n",
    ),
    (
        "[proxy]\nssl_key = \"k\"\nssl_min_version = 1\n[pools.a]\nservers = [\"h\"]\n",
        "2:11: ssl_key goes with enable_ssl = true\n  |\n2 | ssl_key = \"k\"\n  |           ^^^\n\
         3:19: ssl_min_version is 2 to 3\n  |\n3 | ssl_min_version = 1\n  |                   ^\n\
         3:19: ssl_min_version goes with enable_ssl = true\n  |\n\
         3 | ssl_min_version = 1\n  |                   ^\n",
    ),
    (
        "[topology.racks.a]\ncidr = [\"10.1.0.0/16\", \"10.1.2.3/16\"]\n[topology.racks.b]\ncidr = \"::ffff:10.1.0.0/112\"\n[pools.a]\nservers = [\"h\"]\n",
        "2:24: cidr: there are bits behind the prefix: write 10.1.0.0/16\n  |\n\
         2 | cidr = [\"10.1.0.0/16\", \"10.1.2.3/16\"]\n  |                        ^^^^^^^^^^^^^\n\
         3:17: the racks \"a\" and \"b\" both have 10.1.0.0/16\n  |\n\
         3 | [topology.racks.b]\n  |                 ^\n",
    ),
    (
        "[topology.racks.a]\ncidr = \"10.1.0.0/16\"\n[pools.p]\nservers = [\"10.1.0.7\", \"10.2.0.7\", \"h\", { address = \"h2\", rack = \"b\" }]\n",
        "4:24: 10.2.0.7 is in no rack: add it to the cidr of one, or give rack = \"NAME\"\n  |\n\
         4 | servers = [\"10.1.0.7\", \"10.2.0.7\", \"h\", { address = \"h2\", rack = \"b\" }]\n  |                        ^^^^^^^^^^\n\
         4:66: rack: no rack \"b\"; there are a\n  |\n\
         4 | servers = [\"10.1.0.7\", \"10.2.0.7\", \"h\", { address = \"h2\", rack = \"b\" }]\n  |                                                                  ^^^\n",
    ),
    (
        "[topology.racks.a]\n[topology.racks.b]\n[pools.p]\nservers = [{ address = \"h\", rack = \"a\" }]\n[pools.q]\nservers = [{ address = \"h\", rack = \"b\" }]\n[[routes]]\npool = \"p\"\n",
        "6:36: h:11211 is in rack \"a\" already\n  |\n\
         6 | servers = [{ address = \"h\", rack = \"b\" }]\n  |                                    ^^^\n",
    ),
    (
        "[proxy]\nrack = \"a\"\n[pools.p]\nservers = [\"h\"]\n",
        "2:8: rack: no rack \"a\": there is no [topology.racks.NAME]\n  |\n2 | rack = \"a\"\n  |        ^^^\n",
    ),
    (
        "topology = 3\n[pools.p]\nservers = [\"h\"]\n",
        "1:12: [topology] is a table, not a integer\n  |\n1 | topology = 3\n  |            ^\n",
    ),
    (
        "[topology]\n[pools.p]\nservers = [\"h\"]\n",
        "1:1: a topology is of tables [topology.racks.NAME]\n  |\n1 | [topology]\n  | ^^^^^^^^^^\n",
    ),
    ("", " there is no pool: add a table [pools.NAME]\n"),
    (
        "[pools.a]\nservers = [\"h\"]\nreqest_timeout = \"1s\"\n",
        "3:1: pool \"a\" has no key \"reqest_timeout\"; did you mean \"request_timeout\"? (it has \
         servers, servers_file, dns, srv, refresh, family, tls, tls_ca, tls_server_name, tls_cert, tls_key, auth_file, distribution, hash, hash_tag, start, generation, coordinator, cluster, connect_timeout, \
         request_timeout, on_down, allow_flush, warm_from, warm_fill, pool_coordinator, failover, gutter, failover_ttl, flush_on_return, collapse, hot_keys, hot_keys_lease, hot_keys_replicas, architecture, rack_copies, directory, local_copies, local_copies_ttl, bundle, copies, copies_ttl, copies_value_max, copies_fill_share, copies_strict)\n  |\n3 | reqest_timeout = \"1s\"\n  | ^^^^^^^^^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\n[[routes]]\npool = \"aa\"\n",
        "4:8: there is no pool \"aa\"; did you mean \"a\"? (there are a)\n  |\n4 | pool = \"aa\"\n  |        ^^^^\n",
    ),
    (
        "[pools.main]\nservers = [\"h\"]\n[[routes]]\npool = \"mian\"\n",
        "4:8: there is no pool \"mian\"; did you mean \"main\"? (there are main)\n  |\n\
         4 | pool = \"mian\"\n  |        ^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\nprefix = \"p\"\n",
        "3:1: there is no default route for get: add a route without a prefix for it\n  |\n\
         3 | [[routes]]\n  | ^^^^^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\n[[routes]]\npool = \"a\"\nprefix = \"p\"\n\
         [[routes]]\npool = \"a\"\nprefix = \"p\"\n",
        "10:10: this prefix has a route for get already\n   |\n10 | prefix = \"p\"\n   |          ^^^\n",
    ),
    (
        "[pools.a]\nservers = [{ address = \"h\", weight = 0 }]\n",
        "2:12: the weight of server h is 0; leave the server out, or give it a weight from 1\n  |\n\
         2 | servers = [{ address = \"h\", weight = 0 }]\n  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\", \"g\", \"h:11211\"]\n",
        "2:22: server h is listed twice; give one of them another name if that is meant\n  |\n\
         2 | servers = [\"h\", \"g\", \"h:11211\"]\n  |                      ^^^^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h:x\"]\n",
        "2:12: server \"h:x\": give HOST, HOST:PORT or HOST:PORT:WEIGHT, and a name behind a space \
         if need be\n  |\n2 | servers = [\"h:x\"]\n  |            ^^^^^\n",
    ),
    (
        "[pools.a]\nservers = []\n",
        "2:11: a pool without servers holds no keys\n  |\n2 | servers = []\n  |           ^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\ncoordinator = \"c\"\n",
        "3:15: a pool has either servers or a coordinator, not both\n  |\n3 | coordinator = \"c\"\n\
         \x20 |               ^^^\n",
    ),
    (
        "[pools.a]\ndns = \"cache.test\"\nsrv = \"_a._tcp.test\"\n",
        "3:7: a pool has either dns or srv, not both\n  |\n3 | srv = \"_a._tcp.test\"\n\
         \x20 |       ^^^^^^^^^^^^^^\n",
    ),
    (
        "[pools.a]\ndns = \"cache test\"\nrefresh = \"10ms\"\nfamily = \"ipv5\"\n",
        "2:7: dns: give the name whose addresses are the servers: NAME or NAME:PORT\n  |\n\
         2 | dns = \"cache test\"\n  |       ^^^^^^^^^^^^\n\
         3:11: refresh: use 100ms to 3600s\n  |\n3 | refresh = \"10ms\"\n  |           ^^^^^^\n\
         4:10: family: use \"all\", \"ipv4\" or \"ipv6\"\n  |\n4 | family = \"ipv5\"\n\
         \x20 |          ^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nrefresh = \"10s\"\n",
        "3:11: refresh goes with servers that are looked for, not with a list\n  |\n\
         3 | refresh = \"10s\"\n  |           ^^^^^\n",
    ),
    (
        "[pools.a]\nsrv = \"_a._tcp.test\"\nfamily = \"ipv4\"\n",
        "3:10: family goes with dns\n  |\n3 | family = \"ipv4\"\n  |          ^^^^^^\n",
    ),
    (
        "[pools.a]\nservers_file = \"/no/such/file\"\n",
        "2:16: /no/such/file: No such file or directory (os error 2)\n  |\n\
         2 | servers_file = \"/no/such/file\"\n  |                ^^^^^^^^^^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\ntls_ca = \"ca.pem\"\n",
        "3:10: tls_ca goes with tls = true\n  |\n3 | tls_ca = \"ca.pem\"\n  |          ^^^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\ntls = true\n",
        "3:7: tls needs tls_ca, the file with the authorities of the servers' certificates\n  |\n\
         3 | tls = true\n  |       ^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\ntls = true\ntls_ca = \"/dev/null\"\n",
        "4:10: /dev/null: there is no certificate in it\n  |\n4 | tls_ca = \"/dev/null\"\n\
         \x20 |          ^^^^^^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nauth_file = \"/dev/null\"\n",
        "3:13: /dev/null: there is no line user:password in it\n  |\n\
         3 | auth_file = \"/dev/null\"\n  |             ^^^^^^^^^^^\n",
    ),
    (
        "[pools.a]\ncoordinator = \"c\"\ntls = true\n",
        "3:7: tls goes with servers: those of a cluster speak plain text\n  |\n3 | tls = true\n\
         \x20 |       ^^^^\n",
    ),
    (
        "[proxy]\nnameservers = [\"ns.test\"]\n[pools.a]\nservers = [\"h\"]\n",
        "2:16: nameservers: give the IP address of a name server, or IP:PORT\n  |\n\
         2 | nameservers = [\"ns.test\"]\n  |                ^^^^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\nrequest_timeout = \"61s\"\non_down = \"maybe\"\n",
        "3:19: request_timeout: use 1ms to 60s\n  |\n3 | request_timeout = \"61s\"\n\
         \x20 |                   ^^^^^\n\
         4:11: on_down: use \"miss\" or \"error\"\n  |\n4 | on_down = \"maybe\"\n  |           ^^^^^^^\n",
    ),
    (
        "[proxy]\nthreads = 0\n[pools.a]\nservers = [\"h\"]\n",
        "2:11: threads is 1 to 256\n  |\n2 | threads = 0\n  |           ^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\nget_at_least = \"0%\"\n",
        "5:16: get_at_least: \"0%\" is not \"1%\" to \"100%\"\n  |\n5 | get_at_least = \"0%\"\n  |                ^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\nttl_min = \"2h\"\nttl_max = 60\n",
        "5:11: ttl_min is above ttl_max\n  |\n5 | ttl_min = \"2h\"\n  |           ^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\ncommands = [\"get\", \"sett\"]\n",
        "5:20: there are no commands \"sett\"; did you mean \"set\"? (there are get, set, delete, \
         arithmetic, touch)\n  |\n5 | commands = [\"get\", \"sett\"]\n  |                    ^^^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\n[[routes]]\npool = \"a\"\nstrip_prefix = true\n",
        "5:16: a route without a prefix has nothing to strip\n  |\n5 | strip_prefix = true\n\
         \x20 |                ^^^^\n",
    ),
    (
        "[pools.a]\nservers = [\"h\"]\n[pools.b]\nservers = [\"h\"]\n",
        "1:1: several pools need routes: add a table [[routes]] for each\n  |\n1 | [pools.a]\n  | ^\n",
    ),
    (
        "[pools.a]\nservers = \"h\"\n",
        "2:11: servers is a list in brackets, not a string\n  |\n2 | servers = \"h\"\n  |           ^^^\n",
    ),
];

#[test]
fn what_is_wrong_is_said_with_its_place_and_what_is_allowed() {
    let mut wrong = String::new();
    for (text, message) in BAD {
        let said = read_text(text, &[]).expect_err(text);
        if said != *message {
            wrong += &format!("{text}\nis said to be\n{said}\nnot\n{message}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn of_very_many_problems_the_first_are_said_and_the_others_counted() {
    let keys: String = (0..20_000).map(|n| format!("a{n}={{}},")).collect();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("p.toml");
    let text = format!("pools = {{ {} }}\n", keys.trim_end_matches(','));
    std::fs::write(&path, text).expect("room");
    let rejection = check_file(&path).unwrap_err();
    assert_eq!(rejection.problems.len(), PROBLEMS_MAX);
    assert!(rejection.count() > 20_000);
}

#[test]
fn a_fingerprint_is_that_of_the_file_active_and_what_is_no_file_is_not_waited_for() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("p.toml");
    let missing = fingerprint(&path).unwrap_err();
    assert!(
        missing.ends_with("No such file or directory (os error 2)"),
        "{missing}"
    );
    std::fs::write(&path, SMALLEST).expect("room");
    let checked = check_file(&path).expect("sound");
    assert_eq!(fingerprint(&path), Ok(checked.digest));
    assert!(
        fingerprint(dir.path())
            .unwrap_err()
            .ends_with("no ordinary file")
    );
    assert!(fingerprint(Path::new("/dev/zero")).is_err());
}

#[test]
fn a_fault_of_syntax_has_a_place_too() {
    let said = read_text("[pools.a]\nservers = [\"h\"\non_down = 1\n", &[]).unwrap_err();
    let line = said.lines().next().unwrap();
    let mut parts = line.split(':');
    let number: usize = parts.next().unwrap().parse().unwrap();
    assert!((2..=3).contains(&number), "{said}");
    let missing = Program::parse_from(["proxy", "--config", "/no/such/file.toml"]).args;
    let error = Settings::read(&missing).unwrap_err().line();
    assert!(
        error.starts_with("/no/such/file.toml: No such file"),
        "{error}"
    );
}

#[test]
fn a_start_names_the_first_fault_in_one_line_and_counts_the_others() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("p.toml");
    std::fs::write(&path, "[pools.a]\nservers = [\"h\"]\na = 1\nb = 2\n").expect("room");
    let file = path.to_str().expect("UTF-8");
    let args = Program::parse_from(["proxy", "--config", file]).args;
    let line = Settings::read(&args).unwrap_err().line();
    assert!(
        line.starts_with(&format!("{file}:3:1: pool \"a\" has no key \"a\" (it has ")),
        "{line}"
    );
    assert!(
        line.ends_with(&format!("(and 1 more; `evenkeel proxy check {file}`)")),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1);
}
