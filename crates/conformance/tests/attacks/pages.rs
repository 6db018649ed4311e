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
        "POST /api/v1/cachelets/1/split",
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
    assert_eq!(status, 200, "{body}");
}
