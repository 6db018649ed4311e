//! A web page in an operator's browser changes nothing, whatever it can make the browser send.

use evenkeel_testkit::{Cluster, ClusterOptions, http};

fn epoch(cluster: &Cluster) -> String {
    cluster.http_get("/api/v1/map").expect("an answer").1
}

#[test]
fn a_web_page_changes_nothing() {
    let cluster = Cluster::start(ClusterOptions {
        servers: 1,
        ..ClusterOptions::nobody_dies()
    });
    let before = epoch(&cluster);
    let send = |request: &str, headers: &str| {
        let address = cluster.coordinator.address();
        let text = format!("{request} HTTP/1.0\r\nHost: {address}\r\n{headers}\r\n");
        http::request(address, &text).expect("an answer")
    };
    let changes = [
        "POST /api/v1/cachelets/1/release",
        "POST /api/v1/plans/1/approve",
        "POST /api/v1/plans/1/cancel",
        "DELETE /api/v1/migrations/1",
    ];
    for change in changes {
        // What a form or a simple request of a foreign page has.
        for headers in ["", "Content-Type: text/plain\r\n"] {
            let (status, body) = send(change, headers);
            assert_eq!(status, 415, "{change}: {body}");
            assert!(body.contains("not_json"), "{body}");
        }
        // A page whose own name leads here.
        let headers = "Content-Type: application/json\r\nOrigin: http://evil.example\r\n";
        let (status, body) = send(change, headers);
        assert_eq!(status, 403, "{change}: {body}");
        assert!(body.contains("from_page"), "{body}");
    }
    assert_eq!(epoch(&cluster), before);
    let (status, body) = send(changes[0], "Content-Type: application/json\r\n");
    // It is heard, and there is nothing to release.
    assert_eq!(status, 409, "{body}");
    assert!(body.contains("not_quarantined"), "{body}");
}

/// The coordinator's own page changes things: it is known by having been loaded from where it sends them.
#[test]
fn the_own_page_is_told_from_others() {
    let cluster = Cluster::start(ClusterOptions {
        servers: 1,
        ..ClusterOptions::nobody_dies()
    });
    let address = cluster.coordinator.address();
    let port = address.port();
    let approve = |host: &str, origin: &str| {
        let text = format!(
            "POST /api/v1/plans/1/approve HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\n{origin}\r\n"
        );
        http::request(address, &text).expect("an answer")
    };
    let own = [address.to_string(), format!("localhost:{port}")];
    for host in &own {
        let (status, body) = approve(host, &format!("Origin: http://{host}\r\n"));
        // It is heard, and there is no such plan.
        assert_eq!(status, 404, "{host}: {body}");
    }
    let evil = format!("evil.example:{port}");
    for (host, origin) in [
        // A name that was made to point here, another port of this machine, another scheme, an unknown page, and two.
        (&evil, format!("Origin: http://{evil}\r\n")),
        (&own[0], "Origin: http://127.0.0.1:1\r\n".into()),
        (&own[0], format!("Origin: https://{}\r\n", own[0])),
        (&own[0], "Origin: null\r\n".into()),
        (
            &own[0],
            format!("Origin: http://{}\r\nOrigin: http://{evil}\r\n", own[0]),
        ),
    ] {
        let (status, body) = approve(host, &origin);
        assert_eq!(status, 403, "{host} {origin}: {body}");
        assert!(body.contains("from_page"), "{body}");
    }
}

/// A page whose own name leads here (DNS rebinding) is known by that name, which its browser says.
#[test]
fn a_web_page_reads_nothing() {
    let cluster = Cluster::start(ClusterOptions {
        servers: 1,
        ..ClusterOptions::nobody_dies()
    });
    let address = cluster.coordinator.address();
    let port = address.port();
    let ask = |path: &str, headers: &str| {
        let text = format!("GET {path} HTTP/1.0\r\n{headers}\r\n");
        http::request(address, &text).expect("an answer")
    };
    let foreign = format!("Host: evil.example:{port}\r\n");
    for path in [
        "/api/v1/map",
        "/api/v1/servers",
        "/api/v1/hotkeys",
        "/api/v1/proxies",
    ] {
        let (status, body) = ask(path, &foreign);
        assert_eq!(status, 403, "{path}: {body}");
        assert!(body.contains("foreign_host"), "{body}");
    }
    for host in [
        format!("localhost:{port}"),
        address.to_string(),
        format!("[::1]:{port}"),
    ] {
        let (status, body) = ask("/api/v1/map", &format!("Host: {host}\r\n"));
        assert_eq!(status, 200, "{host}: {body}");
    }
    // Probes and scrapers come by any name, and so do members and commands, which say what they are.
    assert_eq!(ask("/metrics", &foreign).0, 200);
    let (status, _) = ask("/api/v1/map", &format!("{foreign}Sec-Evenkeel: 1\r\n"));
    assert_eq!(status, 200);
}
