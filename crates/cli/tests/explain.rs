//! `evenkeel explain`: what it prints by a file alone, and by a proxy that runs with a server dead.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use evenkeel_testkit::{Client, Memcached, evenkeel, poll_until};
use serde_json::Value;

const FILE: &str = r#"
[pools.main]
servers = ["10.0.0.1", "10.0.0.2", "10.0.0.3:11212"]
failover = "next"

[pools.sessions]
servers = ["10.0.1.1", "10.0.1.2"]
distribution = "rendezvous"
hash_tag = "{}"

[pools.fleet]
coordinator = "http://127.0.0.1:1"
warm_from = "main"

[[routes]]
pool = "main"

[[routes]]
prefix = "user:"
commands = ["get", "set", "arithmetic", "touch"]
pool = "sessions"
strip_prefix = true
add_prefix = "v2:"
ttl_max = "1h"
ttl_jitter = 0.1

[[routes]]
prefix = "user:"
commands = ["delete"]
deny = true

[[routes]]
prefix = "hot:"
pool = "fleet"
"#;

fn explain(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .arg("explain")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built for this test");
    let mut stdin = child.stdin.take().expect("it was piped");
    stdin
        .write_all(input.as_bytes())
        .expect("it reads its keys");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_file_says_where_keys_go() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("proxy.toml");
    std::fs::write(&file, FILE).expect("written");
    let file = file.to_str().expect("a path of ours is text");
    let output = explain(
        &["--config", file, "page:1", "-"],
        "user:{7}:cart\nhot:1\r\n",
    );
    let expected = "\
page:1
  get, set, delete, arithmetic, touch
    route     1, without a prefix: no prefix begins the key
    pool      main, of memcached servers
    scheme    list, no copies; read home; write home
    key       page:1
    place     ketama_weighted, md5: 0xebf416db
    home      main/10.0.0.3:11212 at 10.0.0.3:11212
    if not    main/10.0.0.2:11211 at 10.0.0.2:11211
              main/10.0.0.1:11211 at 10.0.0.1:11211
    asked     main/10.0.0.3:11212: its home, if that is in use

user:{7}:cart
  get, set, arithmetic, touch
    route     2, of prefix \"user:\": the longest prefix that begins the key
    pool      sessions, of memcached servers
    scheme    list, no copies; read home; write home
    key       v2:{7}:cart
    exptime   at most 3600 s, up to 100 ‰ less at random
    place     rendezvous, xxh3 of \"7\" alone: 0x6eed105b82285fa
    home      sessions/10.0.1.2:11211 at 10.0.1.2:11211
    asked     sessions/10.0.1.2:11211: its home, if that is in use
  delete
    route     3, of prefix \"user:\": the longest prefix that begins the key
    answered  CLIENT_ERROR denied: no route of the proxy takes this command for this key

hot:1
  get, set, delete, arithmetic, touch
    route     4, of prefix \"hot:\": the longest prefix that begins the key
    pool      fleet, of evenkeel servers
    scheme    map, copies of hot keys; read leased copy; write home and propagate
    key       hot:1
    place     unknown
    former    main/10.0.0.3:11212 at 10.0.0.3:11212: what is not here is brought from there, and writes delete there first
    asked     unknown: the map is known to a proxy that runs
";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn servers_alone_are_enough_and_json_is_one_object_a_line() {
    let output = explain(&["-s", "a:1,b:2", "--format", "json", "x", "y"], "");
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let keys: Vec<_> = lines.iter().map(|line| line["key"].as_str()).collect();
    assert_eq!(keys, [Some("x"), Some("y")]);
    let to = &lines[0]["ways"][0]["to"];
    assert_eq!(to["pool"], "default");
    assert_eq!(to["placing"]["by"], "list");
    assert_eq!(to["home"]["health"], Value::Null, "nobody was asked");
}

#[test]
fn what_cannot_be_used_is_said_in_one_line() {
    for (arguments, named) in [
        (&["key"][..], "--proxy"),
        (&["-s", "a", "--config", "f", "key"], "--config"),
        (&["-s", "a:x", "key"], "a:x"),
        (&["-s", "a"], "KEY"),
        (
            &["-s", "a", "two words"],
            "CLIENT_ERROR bad command line format",
        ),
    ] {
        let output = explain(arguments, "");
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert_eq!(told.lines().count(), 1, "{arguments:?}: {told}");
        assert!(told.contains(named), "{arguments:?}: {told}");
    }
    let output = explain(&["--proxy", "127.0.0.1:1", "key"], "");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("127.0.0.1:1"));
}

#[test]
fn a_proxy_that_runs_knows_that_a_server_is_dead() {
    let mut memcached = [Memcached::spawn(&[]), Memcached::spawn(&[])];
    let names = memcached
        .each_ref()
        .map(|server| server.address().to_string());
    let servers = names.join(",");
    let flags = ["-t", "1", "-s", &servers, "--failover", "next"];
    // Nobody gives a server up that is only held up.
    let proxy = evenkeel::proxy(&[&flags[..], &evenkeel::LONG_TIMEOUTS].concat());
    let address = proxy.address().to_string();
    let ask = |key: &str| -> Value {
        let output = explain(&["--proxy", &address, "--format", "json", key], "");
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    // A key of the first server.
    let key = (0..).map(|n| format!("key:{n}"));
    let mut key = key.filter(|key| ask(key)["ways"][0]["to"]["home"]["name"] == *names[0]);
    let key = key.next().expect("half of all keys");
    let mut client = Client::connect(proxy.address());
    assert_eq!(client.set(&key, b"x"), "STORED");
    assert!(
        memcached[0].client().get(&key).is_some(),
        "explained as it is"
    );
    let to = &ask(&key)["ways"][0]["to"];
    assert_eq!(to["asked"], *names[0]);
    assert_eq!(to["home"]["health"]["connection"], "up");

    memcached[0].process().kill();
    poll_until(Duration::from_secs(60), "the proxy to notice", || {
        client.get(&key);
        (ask(&key)["ways"][0]["to"]["asked"] == *names[1]).then_some(())
    });
    let output = explain(&["--proxy", &address, &key], "");
    let told = text(&output.stdout);
    for words in [
        format!("home      {}, out of use, connection down, ", names[0]),
        format!("if not    {}, in use, connection up\n", names[1]),
        format!(
            "asked     {}: its home is out of use, and failover is \"next\"\n",
            names[1]
        ),
    ] {
        assert!(told.contains(&words), "{words} in\n{told}");
    }
    assert_eq!(client.set(&key, b"y"), "STORED");
    assert!(
        memcached[1].client().get(&key).is_some(),
        "explained as it is"
    );
}
