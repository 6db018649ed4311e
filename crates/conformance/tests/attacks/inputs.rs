//! What clients and servers have sent to memcached and its kin that hurt them, sent to a server and to a proxy: the process lives, its
//! memory stays bounded, others are served, and what is counted is right.

use evenkeel_testkit::{Client, Memcached, Process, evenkeel};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Memory that a process may take beyond what it had: buffers of a few connections and an allocator's leftovers, and far from what
/// these clients send.
const GROWTH_MAX_BYTES: u64 = 96 << 20;

/// More than a process may keep of one client.
const ENDLESS_BYTES: usize = 256 << 20;

/// Longest wait for one read or write; reached only by a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that clients speak to, and the server that keeps what they store: the same, or one behind it.
struct Scene {
    front: Process,
    behind: Option<Process>,
    resident: u64,
}

impl Scene {
    fn server(flags: &[&str]) -> Scene {
        let front = evenkeel::server(&[&["-t", "1"], flags].concat());
        let resident = front.resident_bytes();
        Scene {
            front,
            behind: None,
            resident,
        }
    }

    /// A proxy with these flags before a server with those.
    fn proxy(flags: &[&str], behind: &[&str]) -> Scene {
        let behind = evenkeel::server(&[&["-t", "1"], behind].concat());
        let address = behind.address().to_string();
        let long_timeouts = &evenkeel::LONG_TIMEOUTS[..];
        let front = evenkeel::proxy(&[&["-t", "1", "-s", &address], long_timeouts, flags].concat());
        let resident = front.resident_bytes();
        Scene {
            front,
            behind: Some(behind),
            resident,
        }
    }

    fn address(&self) -> SocketAddr {
        self.front.address()
    }

    fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// Statistics of the server that keeps items.
    fn stored(&self, name: &str) -> String {
        let keeper = self.behind.as_ref().unwrap_or(&self.front);
        Client::connect(keeper.address()).stats("")[name].clone()
    }

    /// It lives, and has not grown beyond its bounds.
    fn is_alive(&mut self) {
        assert!(self.front.is_running());
        let grown = self.front.resident_bytes().saturating_sub(self.resident);
        assert!(grown < GROWTH_MAX_BYTES, "it grew by {grown} bytes");
        assert!(self.behind.as_mut().is_none_or(Process::is_running));
    }

    /// It is alive, and serves a client that `logs_in`.
    fn is_well(&mut self, log_in: impl Fn(&mut Client)) {
        self.is_alive();
        let mut client = self.client();
        log_in(&mut client);
        assert_eq!(client.set("witness", b"seen"), "STORED");
        assert_eq!(client.get("witness").expect("stored").data, b"seen");
    }
}

/// A test of a server and of a proxy.
fn on_both(test: impl Fn(&mut Scene)) {
    for mut scene in [Scene::server(&[]), Scene::proxy(&[], &[])] {
        test(&mut scene);
        scene.is_well(|_| ());
    }
}

const USER: &str = "somebody";
const PASSWORD: &str = "something";

/// The same, of processes that ask who is there.
fn on_both_with_users(
    users: &str,
    flag: &str,
    test: impl Fn(&mut Scene),
    log_in: impl Fn(&mut Client),
) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("users");
    write_secret(&file, users);
    let flags: Vec<&str> = flag
        .split(' ')
        .chain([file.to_str().expect("UTF-8")])
        .collect();
    for mut scene in [Scene::server(&flags), Scene::proxy(&flags, &[])] {
        test(&mut scene);
        scene.is_well(&log_in);
    }
}

fn write_secret(file: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(file, text).expect("room");
    let secret = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(file, secret).expect("our own file");
}

fn one_user() -> String {
    format!("{USER}:{PASSWORD}\n")
}

fn log_in(client: &mut Client) {
    let words = format!("{USER} {PASSWORD}");
    assert_eq!(client.set("auth", words.as_bytes()), "STORED");
}

/// Sends `begin`, and then `piece` again and again, until the peer closes. How many bytes it took.
fn send_endlessly(address: SocketAddr, begin: &[u8], piece: &[u8]) -> usize {
    let mut stream = TcpStream::connect(address).expect("it accepts");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
    let mut sent = 0;
    let mut next = begin;
    while sent < ENDLESS_BYTES {
        match stream.write(next) {
            Ok(count) => sent += count,
            Err(error) => {
                let ends = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
                assert!(ends.contains(&error.kind()), "{error}");
                return sent;
            }
        }
        next = piece;
    }
    panic!("it takes {sent} bytes and more");
}

/// Whether the peer closes, whatever it says before.
fn is_closed(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    said
}

#[test]
fn a_line_of_spaces_without_end() {
    let spaces = [b' '; 1 << 16];
    on_both(|scene| {
        for begin in ["", "get ", "set k 0 0 1", "mg k "] {
            send_endlessly(scene.address(), begin.as_bytes(), &spaces);
        }
    });
    let both = |scene: &mut Scene| {
        send_endlessly(scene.address(), b"set ", &spaces);
    };
    on_both_with_users(&one_user(), "-Y", both, log_in);
}

#[test]
fn thousands_of_empty_lines_before_authentication() {
    const LINES: usize = 100_000;
    on_both_with_users(
        &one_user(),
        "-Y",
        |scene| {
            let mut client = scene.client();
            let stream = TcpStream::connect(scene.address()).expect("it accepts");
            let mut writes = stream.try_clone().expect("a socket");
            let writer = thread::spawn(move || writes.write_all(&b"\r\n".repeat(LINES)));
            let mut lines = BufReader::new(stream).lines();
            for _ in 0..LINES {
                let line = lines.next().expect("an answer to each").expect("it stays");
                assert_eq!(line, "CLIENT_ERROR unauthenticated");
            }
            writer.join().expect("no panic").expect("it reads");
            assert_eq!(client.command("get k"), "CLIENT_ERROR unauthenticated");
        },
        log_in,
    );
}

#[test]
fn a_huge_authentication_token() {
    on_both_with_users(
        &one_user(),
        "-Y",
        |scene| {
            // All of these are longer than any name and password: the connection ends before any of it is kept.
            for len in [
                "2049",
                "1048576",
                "2147483647",
                "2147483648",
                "4294967295",
                "18446744073709551615",
            ] {
                let line = format!("set auth 0 0 {len}\r\n");
                let mut stream = TcpStream::connect(scene.address()).expect("it accepts");
                stream.write_all(line.as_bytes()).expect("room");
                let said = is_closed(&mut stream);
                assert!(!said.starts_with(b"STORED"), "{len}");
            }
        },
        log_in,
    );
}

#[test]
fn a_huge_sasl_token() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("users");
    write_secret(&file, &one_user());
    let flags = ["-S", "--sasl-pwdb", file.to_str().expect("UTF-8")];
    for mut scene in [Scene::server(&flags), Scene::proxy(&flags, &[])] {
        for len in [1 << 20, 1 << 30, u32::MAX] {
            let mut stream = TcpStream::connect(scene.address()).expect("it accepts");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            stream.write_all(&header(0x21, 5, 0, len)).expect("room");
            stream.write_all(b"PLAIN").expect("room");
            let mut answer = [0; 24];
            stream.read_exact(&mut answer).expect("it is refused");
            assert_ne!(status(&answer), 0, "{len}");
            // What was announced may still come: it is not kept. It may also have closed.
            let _ = stream.write_all(&[0; 64 << 20]);
            scene.is_alive();
        }
        let mut stream = TcpStream::connect(scene.address()).expect("it accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let token = format!("PLAIN\0{USER}\0{PASSWORD}");
        stream
            .write_all(&header(0x21, 5, 0, token.len() as u32))
            .expect("room");
        stream.write_all(token.as_bytes()).expect("room");
        let mut answer = [0; 24];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(status(&answer), 0);
    }
}

#[test]
fn a_meta_flag_without_its_argument_as_the_last_token() {
    on_both(|scene| {
        let mut client = scene.client();
        for letter in "ABCDEFIJMNOPRTUVXYZLSK".chars() {
            for line in [
                format!("mg none {letter}\r\n"),
                format!("mg none v t {letter}\r\n"),
                format!("ms none 1 {letter}\r\nx\r\n"),
                format!("md none q {letter}\r\n"),
                format!("ma none {letter}\r\n"),
                format!("ma none t D1 {letter}\r\n"),
                format!("mn {letter}\r\n"),
                format!("me none {letter}\r\n"),
            ] {
                // It is answered by one line or none, and what follows is in its place.
                client.send(line.as_bytes());
                client.send(b"version\r\n");
                let said = client.meta_reply();
                if said.status != "VERSION" {
                    assert_eq!(client.meta_reply().status, "VERSION", "{line}: {said:?}");
                }
            }
        }
    });
}

#[test]
fn a_bad_mode_or_opaque_of_ms_stores_nothing_and_keeps_its_place() {
    let long_opaque = format!("O{}", "o".repeat(40));
    on_both(|scene| {
        let mut client = scene.client();
        assert_eq!(client.set("there", b"old"), "STORED");
        let items = scene.stored("curr_items");
        for flag in ["M", "MX", "MSS", "M\u{7f}", "M1", long_opaque.as_str()] {
            for key in ["there", "new"] {
                let reply = client.meta_set(key, b"get there\r\n", flag);
                assert_eq!(reply.status, "CLIENT_ERROR", "{flag}");
                assert_eq!(client.command("mn"), "MN", "{flag}");
            }
        }
        assert_eq!(scene.stored("curr_items"), items);
        assert_eq!(client.get("there").expect("stored").data, b"old");
        assert_eq!(client.get("new"), None);
    });
}

/// The first bytes of a binary request.
fn header(opcode: u8, key_len: u16, extras_len: u8, body_len: u32) -> Vec<u8> {
    let mut bytes = vec![0x80, opcode];
    bytes.extend(key_len.to_be_bytes());
    bytes.extend([extras_len, 0, 0, 0]);
    bytes.extend(body_len.to_be_bytes());
    bytes.extend([0; 12]);
    bytes
}

/// Status of a binary answer.
fn status(answer: &[u8]) -> u16 {
    u16::from_be_bytes([answer[6], answer[7]])
}

/// A binary set of a key of one byte.
fn binary_set(key: u8) -> Vec<u8> {
    let mut request = header(0x01, 1, 8, 8 + 1 + 1);
    request.extend([0; 8]);
    request.extend([key, b'v']);
    request
}

#[test]
fn a_binary_body_above_two_gigabytes_smuggles_no_command() {
    on_both(|scene| {
        for opcode in [0x00, 0x01, 0x04, 0x05, 0x0a, 0x0e, 0x1c] {
            for len in [i32::MAX as u32, 1 << 31, (1 << 31) + 40, u32::MAX] {
                let mut stream = TcpStream::connect(scene.address()).expect("it accepts");
                // If the length were taken for a negative or a small one, the next command would stand in the body.
                let mut bytes = header(opcode, 1, 8, len);
                for _ in 0..50 {
                    bytes.extend(binary_set(b'z'));
                }
                // It may have closed by then.
                let _ = stream.write_all(&bytes);
                let said = is_closed(&mut stream);
                assert!(said.is_empty() || status(&said) != 0, "{opcode:#x} {len}");
            }
        }
        assert_eq!(scene.client().get("z"), None);
        // The next command of a client that stays within bounds is in its place.
        let mut stream = TcpStream::connect(scene.address()).expect("it accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.write_all(&binary_set(b'y')).expect("room");
        stream.write_all(&header(0x0a, 0, 0, 0)).expect("room");
        let mut answers = [0; 48];
        stream.read_exact(&mut answers).expect("two answers");
        assert_eq!((answers[1], status(&answers)), (0x01, 0));
        assert_eq!((answers[25], status(&answers[24..])), (0x0a, 0));
    });
}

#[test]
fn a_flood_of_getk_leaves_the_item_as_it_was() {
    /// More than sixteen bits of references.
    const FLOOD: usize = 70_000;
    on_both(|scene| {
        let mut client = scene.client();
        assert_eq!(client.set("k", b"first"), "STORED");
        let items = scene.stored("curr_items");
        let mut request = header(0x0c, 1, 0, 1);
        request.push(b'k');
        let answer_len = 24 + 4 + "kfirst".len();
        // While none of the answers is read, the item is overwritten and deleted.
        let mut stream = TcpStream::connect(scene.address()).expect("it accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut writes = stream.try_clone().expect("a socket");
        let writer = thread::spawn(move || writes.write_all(&request.repeat(FLOOD)));
        let mut answer = vec![0; answer_len];
        stream.read_exact(&mut answer).expect("the first answer");
        assert!(status(&answer) == 0 && answer.ends_with(b"kfirst"));
        assert_eq!(client.set("k", b"other"), "STORED");
        for _ in 1..FLOOD {
            stream.read_exact(&mut answer).expect("an answer to each");
            assert!(status(&answer) == 0 && matches!(&answer[28..], b"kfirst" | b"kother"));
        }
        writer.join().expect("no panic").expect("it reads");
        assert_eq!(scene.stored("curr_items"), items);
        assert_eq!(client.delete("k"), "DELETED");
        assert_eq!(client.get("k"), None);
        // Memory of items that nobody refers to is given back to others.
        assert_eq!(client.set("k", b"again"), "STORED");
        assert_eq!(client.get("k").expect("stored").data, b"again");
    });
}

/// A server that answers each request for a value with one of this many bytes, and sends until it is cut off.
fn boaster(len: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut writes = stream.try_clone().expect("a socket");
                for line in BufReader::new(stream).lines() {
                    // Whatever happens to this connection, the proxy has ended it.
                    let Ok(line) = line else { return };
                    let mut words = line.split(' ');
                    let head = match (words.next(), words.next()) {
                        (Some("get" | "gets"), Some(key)) => format!("VALUE {key} 0 {len}\r\n"),
                        (Some("mg"), Some(_)) => format!("VA {len} f0\r\n"),
                        _ => "VERSION 1.6.18\r\n".to_owned(),
                    };
                    if writes.write_all(head.as_bytes()).is_err() {
                        return;
                    }
                    while !head.starts_with("VERSION") {
                        if writes.write_all(&[b'x'; 1 << 16]).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    address
}

#[test]
fn a_backend_whose_value_has_two_or_four_gigabytes() {
    for len in [1 << 31, (1 << 31) + 1, (1 << 32) - 2, 1 << 32, u64::MAX] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("proxy.toml");
        let sound = evenkeel::server(&["-t", "1"]);
        let (bad, good) = (boaster(len), sound.address());
        let text = format!(
            "[pools.bad]\nservers = [\"{bad}\"]\non_down = \"error\"\n[pools.good]\nservers = [\"{good}\"]\n\
             [[routes]]\nprefix = \"bad:\"\npool = \"bad\"\n[[routes]]\npool = \"good\"\n"
        );
        std::fs::write(&file, text).expect("room");
        let front = evenkeel::proxy(&["-t", "1", "--config", file.to_str().expect("UTF-8")]);
        let resident = front.resident_bytes();
        let mut scene = Scene {
            front,
            behind: Some(sound),
            resident,
        };
        for request in [
            "get bad:k",
            "gets bad:k",
            "mg bad:k v f",
            "get bad:k bad:l good",
        ] {
            let said = scene.client().command(request);
            assert!(said.starts_with("SERVER_ERROR"), "{len}, {request}: {said}");
            scene.is_well(|_| ());
        }
    }
}

#[test]
fn an_endless_line_of_get_under_a_memory_limit() {
    let keys = b"abcdefghijklmno ".repeat(4096);
    for mut scene in [
        Scene::server(&["-m", "16"]),
        Scene::proxy(&[], &["-m", "16"]),
    ] {
        for begin in ["get ", "gets ", "gat 0 "] {
            let lines: Vec<_> = (0..8)
                .map(|_| {
                    let (address, keys, begin) = (scene.address(), keys.clone(), begin.to_owned());
                    thread::spawn(move || send_endlessly(address, begin.as_bytes(), &keys))
                })
                .collect();
            for line in lines {
                line.join().expect("each line ends");
            }
        }
        scene.is_well(|_| ());
    }
}

#[test]
fn a_million_prefixes() {
    const PREFIXES: usize = 1_000_000;
    /// As many as a worker counts by themselves.
    const COUNTED: usize = 65_536;
    let detail = ["-D", ":"];
    for mut scene in [Scene::server(&detail), Scene::proxy(&[], &detail)] {
        let mut client = scene.client();
        for first in (0..PREFIXES).step_by(1000) {
            let mut line = b"get".to_vec();
            for number in first..first + 1000 {
                line.extend(format!(" {number}:").bytes());
            }
            line.extend(b"\r\n");
            client.send(&line);
            assert_eq!(client.line(), "END");
        }
        let keeper = scene.behind.as_ref().unwrap_or(&scene.front);
        let grown = keeper.resident_bytes();
        assert!(grown < GROWTH_MAX_BYTES, "it has {grown} bytes");
        let mut client = Client::connect(keeper.address());
        let overflowed = client.stats("evenkeel")["prefixes_overflowed"].clone();
        assert_eq!(overflowed, (PREFIXES - COUNTED).to_string());
        client.send(b"stats detail dump\r\n");
        let mut lines = 0;
        while client.line() != "END" {
            lines += 1;
        }
        assert_eq!(lines, COUNTED);
        scene.is_well(|_| ());
    }
}

/// Processor time that a process has had, in nanoseconds, of all threads that there are.
fn processor_time(process: &Process) -> u64 {
    let folder = format!("/proc/{}/task", process.pid());
    let threads = std::fs::read_dir(folder).expect("a running process has threads");
    let times = threads.map(|thread| {
        let file = thread.expect("listed").path().join("schedstat");
        let text = std::fs::read_to_string(file).expect("the kernel counts");
        text.split(' ')
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(0)
    });
    times.sum()
}

/// memcached ends a line at a zero byte, and takes the data block of what it refuses for commands: their answers would be those of
/// anyone who asks next on the connection that all clients of a proxy share.
#[test]
fn nothing_is_smuggled_behind_a_zero_byte_to_the_connection_that_all_share() {
    let memcached = Memcached::spawn(&["-t", "1"]);
    let address = memcached.address().to_string();
    let proxy =
        evenkeel::proxy(&[&["-t", "1", "-s", &address], &evenkeel::LONG_TIMEOUTS[..]].concat());
    let (mut attacker, mut other) = (
        Client::connect(proxy.address()),
        Client::connect(proxy.address()),
    );
    assert_eq!(other.set("victim", b"right"), "STORED");
    let poison = "set victim 0 0 5\r\nright\r\nget victim\r\n";
    let len = poison.len();
    for line in [
        "get victim\0".to_owned(),
        "mg victim\0 v".to_owned(),
        "mg victim k O\0 v".to_owned(),
        format!("set a\0b 0 0 {len}\r\n{poison}"),
        format!("ms a\0b {len}\r\n{poison}"),
        format!("append a\0 0 0 {len}\r\n{poison}"),
    ] {
        attacker.send(format!("{line}\r\nmn\r\n").as_bytes());
        assert_eq!(attacker.line(), "CLIENT_ERROR bad command line format");
        while attacker.line() != "MN" {}
        let value = other.get("victim").map(|value| value.data);
        assert_eq!(value.as_deref(), Some(&b"right"[..]), "{line:?}");
    }
    let lost = other.stats("servers");
    let state = lost.iter().find(|(name, _)| name.ends_with(":state"));
    assert_eq!(state.map(|(_, state)| state.as_str()), Some("up"));
    assert_eq!(other.stats("proxy")["reads_unavailable"], "0");
}

#[test]
fn the_time_that_checking_a_password_takes_tells_nothing_of_it() {
    /// Of each kind in a round.
    const ATTEMPTS: usize = 2000;
    const ROUNDS_MIN: usize = 5;
    const ROUNDS_MAX: usize = 20;
    // The longest there are: anyone who compares until the first difference takes the longer, the more of it is right.
    let password = "p".repeat(254);
    let users: String = (0..256).map(|_| format!("{USER}:{password}q\n")).collect();
    on_both_with_users(
        &users,
        "-Y",
        |scene| {
            let attempt = |password: &str| {
                let words = format!("{USER} {password}");
                format!("set auth 0 0 {}\r\n{words}\r\n", words.len()).repeat(ATTEMPTS)
            };
            let nearly = attempt(&format!("{password}r"));
            let nothing = attempt(&"r".repeat(255));
            let took = |attempts: &str| {
                let stream = TcpStream::connect(scene.address()).expect("it accepts");
                let before = processor_time(&scene.front);
                let (mut writes, text) =
                    (stream.try_clone().expect("a socket"), attempts.to_owned());
                let writer = thread::spawn(move || writes.write_all(text.as_bytes()));
                let mut lines = BufReader::new(stream).lines();
                for _ in 0..ATTEMPTS {
                    let line = lines.next().expect("an answer to each").expect("it stays");
                    assert_eq!(line, "CLIENT_ERROR authentication failure");
                }
                writer.join().expect("no panic").expect("it reads");
                processor_time(&scene.front) - before
            };
            // The least of some rounds, in turn: what else the machine does makes some longer. On a busy machine it takes more of them until
            // neither was disturbed; what takes longer by itself does so in each.
            let mut rounds: Vec<_> = Vec::new();
            loop {
                rounds.push((took(&nearly), took(&nothing)));
                let nearly = rounds.iter().map(|round| round.0).min().expect("rounds");
                let nothing = rounds.iter().map(|round| round.1).min().expect("rounds");
                let more = nearly as f64 / nothing as f64;
                if rounds.len() >= ROUNDS_MIN && (0.8..1.25).contains(&more) {
                    break;
                }
                assert!(rounds.len() < ROUNDS_MAX, "{more}: {rounds:?}");
            }
        },
        |client| {
            let words = format!("{USER} {password}q");
            assert_eq!(client.set("auth", words.as_bytes()), "STORED");
        },
    );
}
