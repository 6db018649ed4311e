use crate::config::tests::read_text;
use evenkeel_proxy_core::Keeping;

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
            "architecture = \"snoop\"\n",
            "architecture: that is not built yet",
        ),
        (
            &["a", "b"],
            "architecture = \"fast\"\n",
            "architecture: use \"sdc\", \"sds\" or \"sdr\"",
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
