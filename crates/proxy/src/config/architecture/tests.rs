use crate::clusters::Clusters;
use crate::config::tests::read_text;
use crate::discovery::Discoveries;
use crate::tls::TlsWays;
use evenkeel_proxy_core::{HoldingBy, Keeping, LocalCopying, PoolKind, Revision};
use evenkeel_runtime::Clock;
use std::time::Duration;

const RACKS: &str = "[topology.racks.a]\n[topology.racks.b]\n[topology.racks.core]\ncidr = \"10.0.0.0/8\"\ncentral = true\n";

/// A pool whose servers are in these racks, and what else is said of it.
fn pool(racks: &[&str], more: &str) -> String {
    let servers = racks
        .iter()
        .enumerate()
        .map(|(number, rack)| format!("{{ address = \"h{number}\", rack = \"{rack}\" }}"));
    let servers: Vec<_> = servers.collect();
    format!(
        "{RACKS}[pools.p]\nservers = [{}]\n{more}",
        servers.join(", ")
    )
}

const SDR: &str = "architecture = \"sdr\"\npool_coordinator = \"c\"\n";

#[test]
fn items_of_sdr_have_copies_in_racks_and_others_have_none() {
    let copies = |racks: &[&str], more: &str| {
        let settings = read_text(&pool(racks, more), &[]).expect(more);
        settings.pools[0].copies
    };
    let plan = copies(&["a", "b"], SDR).expect("copies");
    assert_eq!((plan.copies, plan.keeping), (2, Some(Keeping::default())));
    assert!(plan.is_by_rack);
    let ttl = copies(
        &["a", "b"],
        &format!("{SDR}copies_ttl = 5\nrack_copies = 2\n"),
    );
    assert_eq!(ttl.and_then(|plan| plan.keeping).map(|it| it.ttl), Some(5));
    assert_eq!(copies(&["a", "b"], "architecture = \"sds\"\n"), None);
    assert_eq!(copies(&["core"], "architecture = \"sdc\"\n"), None);
}

#[test]
fn a_rack_copies_what_others_hold_where_that_is_said() {
    let copying = |more: &str| {
        let more = format!("architecture = \"snoop\"\n{more}");
        let settings = read_text(&pool(&["a", "b"], &more), &["--rack", "a"]).expect(&more);
        settings.pools[0].holding.clone().expect("racks").copying
    };
    let of = |ms, keeps| {
        let ttl = Duration::from_millis(ms);
        Some(LocalCopying { ttl, keeps })
    };
    assert_eq!(copying(""), None);
    assert_eq!(
        copying("local_copies = \"off\"\nlocal_copies_ttl = \"2s\"\n"),
        None
    );
    assert_eq!(copying("local_copies = \"on\"\n"), of(1_000, true));
    assert_eq!(
        copying("local_copies = \"observe\"\nlocal_copies_ttl = \"10ms\"\n"),
        of(10, false)
    );
}

#[test]
fn what_does_not_stand_as_its_architecture_has_it_is_refused() {
    for (racks, more, message) in [
        (
            &["a", "core"][..],
            "architecture = \"sds\"\n",
            "h1 is in rack \"core\", which is central: architecture = \"sds\" has none on the backbone",
        ),
        (
            &["core", "a"],
            "architecture = \"sdc\"\n",
            "h1 is in rack \"a\", which is not central: architecture = \"sdc\" has all servers on the backbone",
        ),
        (
            &["a", "a"],
            "architecture = \"sds\"\n",
            "servers are in 1 of the racks: architecture = \"sds\" needs 2",
        ),
        (
            &["a", "b"],
            &format!("{SDR}rack_copies = 3\n"),
            "servers are in 2 of the racks: architecture = \"sdr\" needs 3",
        ),
        (
            &["a", "b"],
            "architecture = \"sdr\"\n",
            "architecture = \"sdr\" needs a pool_coordinator, which switches copies on and off",
        ),
        (
            &["a", "b"],
            &format!("{SDR}bundle = \"on\"\ncopies = 2\n"),
            "copies does not go with architecture = \"sdr\": it has rack_copies",
        ),
        (
            &["a", "b"],
            &format!("{SDR}hot_keys = \"on\"\n"),
            "hot_keys does not go with architecture = \"sdr\": not built",
        ),
        (
            &["a", "b"],
            &format!("{SDR}distribution = \"adaptive\"\n"),
            "architecture = \"sdr\" goes with servers whose list says where keys live",
        ),
        (
            &["a", "b"],
            "rack_copies = 2\n",
            "rack_copies goes with architecture = \"sdr\"",
        ),
        (
            &["a", "b"],
            "architecture = \"fast\"\n",
            "architecture: use \"sdc\", \"sds\", \"sdr\", \"snoop\" or \"dir\"",
        ),
        (
            &["a", "core"],
            "architecture = \"snoop\"\n",
            "h1 is in rack \"core\", which is central: architecture = \"snoop\" has none on the backbone",
        ),
        (
            &["a", "a"],
            "architecture = \"snoop\"\n",
            "servers are in 1 of the racks: architecture = \"snoop\" needs 2",
        ),
        (
            &["a", "b"],
            "architecture = \"snoop\"\nfailover = \"next\"\n",
            "failover does not go with architecture = \"snoop\": an item is where its note leads, and nowhere else",
        ),
        (
            &["a", "b"],
            "architecture = \"snoop\"\ngutter = \"q\"\n",
            "gutter does not go with architecture = \"snoop\": an item is where its note leads, and nowhere else",
        ),
        (
            &["a", "b"],
            "architecture = \"snoop\"\nhot_keys = \"on\"\n",
            "hot_keys does not go with architecture = \"snoop\": not built",
        ),
        (
            &["a", "b"],
            "architecture = \"snoop\"\nbundle = \"on\"\ncopies = 2\n",
            "bundle does not go with architecture = \"snoop\": an item is in one rack",
        ),
        (
            &["a", "b"],
            "architecture = \"snoop\"\ndistribution = \"adaptive\"\n",
            "architecture = \"snoop\" goes with servers whose list says where keys live",
        ),
        (
            &["a", "b"],
            "architecture = \"snoop\"\npool_coordinator = \"c\"\n",
            "pool_coordinator goes with warm_from",
        ),
        (
            &["a", "b"],
            "architecture = \"snoop\"\nrack_copies = 2\n",
            "rack_copies goes with architecture = \"sdr\"",
        ),
        (
            &["a", "b"],
            "architecture = \"snoop\"\ndirectory = \"q\"\n",
            "directory goes with architecture = \"dir\"",
        ),
        (
            &["a", "b"],
            "architecture = \"sds\"\nlocal_copies = \"on\"\n",
            "local_copies goes with architecture = \"snoop\" or \"dir\"",
        ),
        (
            &["a", "b"],
            "architecture = \"snoop\"\nlocal_copies_ttl = \"2s\"\n",
            "local_copies_ttl goes with local_copies = \"observe\" or \"on\"",
        ),
        (
            &["a", "b"],
            "architecture = \"snoop\"\nlocal_copies = \"yes\"\n",
            "local_copies: use \"off\", \"observe\" or \"on\"",
        ),
        (
            &["a", "b"],
            "architecture = \"snoop\"\nlocal_copies = \"on\"\nlocal_copies_ttl = \"9ms\"\n",
            "local_copies_ttl: use 10ms to 60s",
        ),
        (
            &["a", "b"],
            "architecture = \"dir\"\n",
            "architecture = \"dir\" needs a directory: the name of the pool that has its notes",
        ),
        (
            &["a", "b"],
            "architecture = \"dir\"\ndirectory = \"p\"\n",
            "a directory is another pool",
        ),
        (
            &["a", "b"],
            "architecture = \"dir\"\ndirectory = \"notes\"\n",
            "there is no pool \"notes\"",
        ),
    ] {
        let said = read_text(&pool(racks, more), &[]).expect_err(more);
        assert!(said.contains(message), "{more}\nis said to be\n{said}");
    }
}

#[test]
fn the_racks_of_all_servers_have_to_be_known() {
    let of = |servers: &str| {
        let text = format!("{RACKS}[pools.p]\n{servers}\narchitecture = \"sdc\"\n");
        read_text(&text, &[]).map(|_| ())
    };
    assert_eq!(
        of("servers = [\"10.1.2.3\", { address = \"h\", rack = \"core\" }]"),
        Ok(())
    );
    let said = of("servers = [\"h\"]").expect_err("nobody knows");
    let expected = "h is in no rack that is known: architecture = \"sdc\" needs rack = \"NAME\" for it, or an address in the cidr of one";
    assert!(said.contains(expected), "{said}");
    let said = of("dns = \"h\"").expect_err("they change");
    assert!(
        said.contains("architecture goes with servers = [...], whose racks are known"),
        "{said}"
    );
}

/// Pools that are no directories, or are named by others.
#[test]
fn a_directory_is_a_pool_whose_keys_stay_and_a_pool_over_racks_stands_in_for_none() {
    let held = "architecture = \"snoop\"\n";
    let by = "architecture = \"dir\"\ndirectory = \"d\"\n";
    for (more, other, message) in [
        (
            by,
            "servers = [\"d\"]\nfailover = \"next\"\n",
            "a directory is a pool with",
        ),
        (by, "coordinator = \"c\"\n", "a directory is a pool with"),
        (by, "dns = \"d\"\n", "a directory is a pool with"),
        (
            by,
            "servers = [\"d\"]\ndistribution = \"adaptive\"\npool_coordinator = \"c\"\n",
            "a directory is a pool with",
        ),
        (
            held,
            "servers = [\"d\"]\ngutter = \"p\"\n",
            "a gutter is a pool with servers, not one with a coordinator, a ring, or architecture",
        ),
        (
            held,
            "servers = [\"h1\"]\nwarm_from = \"p\"\n",
            "h1 is a server of both pools, where an item of \"d\" would have the name of one of \"p\": give \"d\" a generation of its own",
        ),
        (
            "architecture = \"snoop\"\nwarm_from = \"d\"\n",
            "servers = [\"h0\"]\n",
            "h0 is a server of both pools",
        ),
    ] {
        let text = pool(&["a", "b"], more) + "[pools.d]\n" + other + "[[routes]]\npool = \"p\"\n";
        let said = read_text(&text, &["--rack", "a"]).expect_err(other);
        assert!(said.contains(message), "{other}\nis said to be\n{said}");
    }
}

/// At the same servers an architecture takes the place of another one where its items have names of their own.
#[test]
fn a_generation_is_names_of_a_pools_own() {
    let of = |more: &str| {
        let own = "architecture = \"snoop\"\nwarm_from = \"d\"\n".to_owned() + more;
        let other = "servers = [\"h0\", \"h1\"]\n";
        let text = pool(&["a", "b"], &own) + "[pools.d]\n" + other + "[[routes]]\npool = \"p\"\n";
        read_text(&text, &["--rack", "a"])
    };
    let settings = of("generation = 7\n").expect("names of its own");
    let prefix = |at: usize| settings.pools[at].settings.name_prefix;
    let by_name = |name: &str| settings.pools.iter().position(|pool| &*pool.name == name);
    let (own, other) = (by_name("p").expect("p"), by_name("d").expect("d"));
    let own = prefix(own).expect("a prefix");
    assert_eq!((own[0], own[1], prefix(other)), (1, b'g', None));
    let eighth = of("generation = 8\n").expect("others").pools[0]
        .settings
        .name_prefix;
    assert!(eighth.is_some_and(|eighth| eighth != own));
    let said = of("generation = 0\n").expect_err("those of all");
    assert!(said.contains("h0 is a server of both pools"), "{said}");
    let said = of("generation = 16777216\n").expect_err("there are no such names");
    assert!(said.contains("generation"), "{said}");
}

#[test]
fn what_has_other_names_does_not_go_with_a_generation() {
    for (more, message) in [
        (
            "failover = \"next\"",
            "failover does not go with generation: not built",
        ),
        (
            "hot_keys = \"on\"",
            "hot_keys does not go with generation: not built",
        ),
        (
            "distribution = \"adaptive\"\npool_coordinator = \"c\"",
            "distribution = \"adaptive\" does not go with generation: items of a ring have names of its own",
        ),
    ] {
        let text = pool(&["a", "b"], &format!("generation = 1\n{more}\n"));
        let said = read_text(&text, &[]).expect_err(more);
        assert!(said.contains(message), "{more}\nis said to be\n{said}");
    }
    for more in ["architecture = \"sdr\"", "bundle = \"on\"\ncopies = 2"] {
        let more = format!("generation = 1\n{more}\npool_coordinator = \"c\"\n");
        assert_eq!(read_text(&pool(&["a", "b"], &more), &[]).err(), None);
    }
    let said = read_text("[pools.p]\ncoordinator = \"c\"\ngeneration = 1\n", &[]);
    let message = "generation goes with a pool of memcached servers";
    assert!(said.expect_err("a cluster").contains(message));
}

#[test]
fn a_pool_over_racks_needs_the_proxys_own() {
    let text = pool(&["a", "b"], "architecture = \"snoop\"\n");
    let said = read_text(&text, &[]).expect_err("it is nowhere");
    let expected =
        "pool \"p\" is served from the proxy's own rack first: say which that is, by --rack";
    assert!(said.contains(expected), "{said}");
    let said = read_text(&text, &["--rack", "core"]).expect_err("there is none of its servers");
    let expected = "pool \"p\" has no server in rack \"core\", in which the proxy is";
    assert!(said.contains(expected), "{said}");
    let twice = text + "[pools.\"p@b\"]\nservers = [\"x\"]\n[[routes]]\npool = \"p\"\n";
    let said = read_text(&twice, &["--rack", "a"]).expect_err("two have a name");
    let expected = "a pool may not be called \"p@b\": that is a rack of pool \"p\"";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn workers_are_told_a_pool_for_each_rack() {
    let more = "architecture = \"dir\"\ndirectory = \"d\"\nhash = \"fnv1a_64\"\nrequest_timeout = \"70ms\"\n";
    let text = RACKS.to_owned()
        + "[topology.racks.c]\n[proxy]\nrack = \"b\"\n[pools.p]\nservers = [{ address = \"h0\", rack = \"a\" }, { address = \"h1\", rack = \"b\", weight = 3 }, { address = \"h2\", rack = \"c\" }, { address = \"h3\", rack = \"b\" }]\n"
        + more
        + "[pools.d]\nservers = [\"10.0.0.1\"]\n[[routes]]\npool = \"p\"\n";
    let settings = read_text(&text, &[]).expect("it can be used");
    let discoveries = Discoveries::start(Clock::start(), &[]).expect("a thread");
    let config = settings.proxy_config(
        &Clusters::default(),
        &discoveries,
        &TlsWays::default(),
        Revision::default(),
    );
    let config = config.expect("all are known");
    let told = config.pools.iter().map(|pool| {
        let PoolKind::Memcached(list) = &pool.kind else {
            panic!("all have lists");
        };
        let servers = list.servers().iter();
        let servers: Vec<_> = servers
            .map(|it| format!("{}*{}", it.host, it.weight))
            .collect();
        (&*pool.name, servers.join(" "), list.rule().1)
    });
    let told: Vec<_> = told.collect();
    let expected = [
        ("p", "h1*3 h3*1", "fnv1a_64"),
        ("d", "10.0.0.1*1", "md5"),
        ("p@a", "h0*1", "fnv1a_64"),
        ("p@c", "h2*1", "fnv1a_64"),
    ];
    let expected = expected.map(|(name, servers, rule)| (name, servers.to_owned(), rule));
    assert_eq!(told, expected);
    let timeouts = config
        .pools
        .iter()
        .map(|pool| pool.settings.request_timeout.as_millis());
    let timeouts: Vec<_> = timeouts.collect();
    assert_eq!([timeouts[0], timeouts[2], timeouts[3]], [70; 3]);
    let holding = config.pools[0].holding.as_ref().expect("one rack holds");
    assert_eq!(holding.by, HoldingBy::Directory("d".into()));
    let name = |rack| config.racks.name(Some(rack));
    assert_eq!(name(holding.own), "b");
    let others = holding
        .others
        .iter()
        .map(|(rack, pool)| (name(*rack), &**pool));
    assert!(others.eq([("a", "p@a"), ("c", "p@c")]));
    assert!(config.pools[1..].iter().all(|pool| pool.holding.is_none()));
}
