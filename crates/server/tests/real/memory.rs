//! What connections may cost: the sum of their buffers is bounded whatever they do, and an idle one
//! costs next to nothing.

use evenkeel_testkit::{Client, Process, evenkeel, poll_until};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How sockets are served; `auto` is io_uring, where the machine allows it.
const WAYS: [&str; 2] = ["epoll", "auto"];

const DEADLINE: Duration = Duration::from_secs(60);

/// Memory limit of the server, in megabytes.
const LIMIT_MB: u64 = 64;

/// The promise: the limit, 5 % and 64 MiB for everything that is no item.
const RESIDENT_BYTES_MAX: u64 = (LIMIT_MB << 20) / 100 * 105 + (64 << 20);

/// Clients of each hostile manner: enough to make the server hold three times what it may.
const HOSTILE: usize = 80;

const LARGE: usize = 1_000_000;

/// Connections that warm the server up: enough to touch every receive buffer of a ring.
const WARM: usize = 600;

/// Sets of each of them: the receive buffers of a ring are used in turn.
const WARM_SETS: usize = 8;

/// Idle connections after those: so many that megabytes which the allocator keeps or gives back meanwhile come to little for each.
const IDLE: usize = 6000;

/// Most that an idle connection may cost, in bytes.
const IDLE_BYTES_MAX: u64 = 4096;

/// Said to who waits for memory for too long.
const REFUSED: &str = "SERVER_ERROR out of memory reading request";

/// Many who send most of a large value, and many who ask for megabytes and read nothing: memory stays
/// within the promise, anyone who behaves is served meanwhile, and what was done about the others is counted.
#[test]
fn hostile_clients_cannot_make_the_server_hold_more_than_it_promises() {
    for way in WAYS {
        let limit = LIMIT_MB.to_string();
        let server = evenkeel::server(&["-t", "2", "-m", &limit, "--io", way]);
        let address = server.address();
        let mut witness = Client::connect(address);
        let keys: Vec<String> = (0..10).map(|n| format!("large{n}")).collect();
        for key in &keys {
            assert_eq!(witness.set(key, &vec![b'v'; LARGE]), "STORED");
        }
        // Keys of both workers, twice a pause's worth for each.
        let question = format!("get {}\r\n", keys.join(" ")).repeat(4);
        let half = [
            format!("set half 0 0 {LARGE}\r\n").as_bytes(),
            &[b'h'; LARGE / 10 * 9],
        ]
        .concat();
        let mut hostile = Vec::new();
        for n in 0..HOSTILE {
            hostile.push(Pushed::new(address, question.as_bytes()));
            hostile.push(Pushed::new(address, &half));
            let value = vec![b'w'; n * 4000];
            serve(address, &mut witness, &value);
            assert!(fetch(address, &mut witness) == value, "{way}");
        }
        let number = |stats: &std::collections::BTreeMap<String, String>, name: &str| -> u64 {
            stats[name].parse().expect("a number")
        };
        poll_until(DEADLINE, "those who do not move are closed", || {
            hostile.iter_mut().for_each(Pushed::push);
            serve(address, &mut witness, &[b'w'; 200_000]);
            let stats = witness.stats("");
            (number(&stats, "read_buf_oom") > 0 && number(&stats, "response_obj_oom") > 0)
                .then_some(())
        });
        let most = memory(&server, "VmHWM:");
        println!("{way}: {} MiB resident at most", most >> 20);
        assert!(most <= RESIDENT_BYTES_MAX, "{way}: {most} B were resident");

        // Then they all go, and what they held is free for others.
        drop(hostile);
        poll_until(DEADLINE, "nothing is held any more", || {
            let stats = witness.stats("");
            let held = number(&stats, "read_buf_bytes") + number(&stats, "response_obj_bytes");
            // But for the few bytes that the witness keeps for its next command.
            (number(&stats, "curr_connections") == 1 && held <= IDLE_BYTES_MAX).then_some(())
        });
        for key in &keys {
            assert_eq!(witness.set(key, &vec![b'x'; LARGE]), "STORED");
            let seen = witness.get(key).map(|value| value.data.len());
            assert_eq!(seen, Some(LARGE));
        }
    }
}

/// Stores a value for one who behaves. On a busy machine those before it in line may take longer than a command waits for memory, or
/// it is itself the slowest of those who hold some; then it is told so and its connection is closed, and it asks again on another.
fn serve(address: SocketAddr, witness: &mut Client, value: &[u8]) {
    poll_until(DEADLINE, "the one who behaves to be served", || {
        // Where it was closed while it still sent, what was said may be lost.
        let said = witness.try_set("witness", 0, 0, value);
        match said.as_deref() {
            Ok("STORED") => return Some(()),
            Ok(said) => assert_eq!(said, REFUSED),
            Err(error) => assert!(is_end(error), "{error}"),
        }
        *witness = Client::connect(address);
        None
    });
}

/// Whether the server closed the connection.
fn is_end(error: &std::io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}

/// The value that was stored for one who behaves, likewise.
fn fetch(address: SocketAddr, witness: &mut Client) -> Vec<u8> {
    poll_until(DEADLINE, "the one who behaves to be answered", || {
        let said = witness.try_get("witness");
        if let Err(error) = &said {
            let is_refused = error.to_string().contains(REFUSED);
            assert!(is_refused || is_end(error), "{error}");
            *witness = Client::connect(address);
        }
        Some(said.ok()?.expect("it was stored").data)
    })
}

/// A large command for which there is no room waits, here until the one who holds all of it is given up; who has
/// announced much and sent little holds little, and a small command waits for nobody.
#[test]
fn a_large_command_waits_for_room_that_another_holds() {
    for way in WAYS {
        let server = evenkeel::server(&[
            "-t",
            "1",
            "-I",
            "4m",
            "-o",
            "read_buf_mem_limit=1",
            "--io",
            way,
        ]);
        let mut witness = Client::connect(server.address());
        assert_eq!(witness.stats("settings")["read_buf_mem_limit"], "1048576");
        let begin = format!("set a 0 0 {LARGE}\r\n");
        let mut boasters: Vec<TcpStream> = (0..20)
            .map(|_| sent(server.address(), begin.as_bytes()))
            .collect();
        let most = [begin.as_bytes(), &[b'a'; LARGE / 10 * 9]].concat();
        let mut holder = Pushed::new(server.address(), &most);
        poll_until(DEADLINE, "it holds its room", || {
            holder.push();
            let held: usize = witness.stats("")["read_buf_bytes"].parse().expect("bytes");
            (held >= LARGE / 10 * 9).then_some(())
        });
        // As much as the pool has beside the holder, and more at once than it has left in all.
        for n in 0..100 {
            let value = vec![b's'; 60_000];
            assert_eq!(witness.set(&format!("small{n}"), &value), "STORED");
        }
        assert_eq!(witness.stats("")["read_buf_oom"], "0", "{way}");
        // Asks for room, waits for it, and is served once the holder has been given up.
        assert_eq!(witness.set("b", &vec![b'b'; LARGE]), "STORED");
        let stats = witness.stats("");
        assert_eq!(stats["read_buf_oom"], "1", "{way}");
        let waits: usize = witness.stats("evenkeel")["read_buf_waits"]
            .parse()
            .expect("a number");
        assert!(waits >= 1, "{way}");
        let mut told = String::new();
        let stream = &mut holder.stream;
        stream.set_nonblocking(false).expect("an option");
        stream.set_read_timeout(Some(DEADLINE)).expect("an option");
        stream.read_to_string(&mut told).expect("then the end");
        assert_eq!(told, "SERVER_ERROR out of memory reading request\r\n");
        // A value that is larger than all of the memory is let in, too, although others wait halfway.
        assert_eq!(witness.set("c", &vec![b'c'; 3 * LARGE]), "STORED");
        // Those who have announced much go on where they were.
        for boaster in &mut boasters {
            let rest = [vec![b'a'; LARGE], b"\r\n".to_vec()].concat();
            boaster.write_all(&rest).expect("it is read");
            let mut said = [0; 8];
            boaster.read_exact(&mut said).expect("an answer");
            assert_eq!(&said, b"STORED\r\n", "{way}");
        }
    }
}

/// A client that says all it has to say and then that nothing follows is answered, whatever waits for
/// memory in between.
#[test]
fn a_large_value_before_the_end_is_stored() {
    for way in WAYS {
        let server = evenkeel::server(&["-t", "1", "--io", way]);
        let mut bytes = format!("set last 0 0 {LARGE}\r\n").into_bytes();
        bytes.resize(bytes.len() + LARGE, b'l');
        bytes.extend_from_slice(b"\r\n");
        let answer = Client::connect(server.address()).finish(&bytes);
        assert_eq!(answer, b"STORED\r\n", "{way}");
    }
}

/// The same for answers: who does not read is closed when others need the memory.
#[test]
fn the_one_who_has_not_read_for_longest_goes_first() {
    for way in WAYS {
        let server = evenkeel::server(&["-t", "1", "-o", "resp_obj_mem_limit=1", "--io", way]);
        let mut witness = Client::connect(server.address());
        assert_eq!(witness.stats("settings")["resp_obj_mem_limit"], "1048576");
        assert_eq!(witness.set("large", &vec![b'v'; LARGE]), "STORED");
        let mut stubborn = sent(server.address(), "get large\r\n".repeat(20).as_bytes());
        poll_until(DEADLINE, "the one who does not read is closed", || {
            assert_eq!(
                witness.get("large").map(|seen| seen.data.len()),
                Some(LARGE)
            );
            (witness.stats("")["response_obj_oom"] == "1").then_some(())
        });
        stubborn
            .set_read_timeout(Some(DEADLINE))
            .expect("an option");
        let mut rest = Vec::new();
        match stubborn.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        assert!(rest.len() < 20 * LARGE, "{way}: not all was sent");
    }
}

/// A connection that has been answered and says nothing more costs less than 4 KiB.
#[test]
fn an_idle_connection_costs_little() {
    for way in WAYS {
        let server = evenkeel::server(&["-t", "2", "-c", "8000", "--io", way]);
        let mut open: Vec<Client> = (0..WARM).map(|_| answered(server.address())).collect();
        // Receive buffers that all connections share are memory from their first use on.
        for client in &mut open {
            for _ in 0..WARM_SETS {
                assert_eq!(client.set("idle", &[b'i'; 6000]), "STORED");
            }
        }
        let before = memory(&server, "VmRSS:");
        open.extend((0..IDLE).map(|_| answered(server.address())));
        // What the last answers needed may go a moment later.
        let each = poll_until(DEADLINE, "an idle connection costs little", || {
            assert!(open[0].get("idle").is_some(), "it was stored");
            let grown = memory(&server, "VmRSS:").saturating_sub(before);
            let each = grown / IDLE as u64;
            println!("{way}: {each} B for an idle connection");
            (each <= IDLE_BYTES_MAX).then_some(each)
        });
        assert!(each <= IDLE_BYTES_MAX && open.len() == WARM + IDLE);
    }
}

/// A connection that stored and read a value of some kilobytes.
fn answered(address: SocketAddr) -> Client {
    let mut client = Client::connect(address);
    assert_eq!(client.set("idle", &[b'i'; 6000]), "STORED");
    assert_eq!(client.get("idle").map(|value| value.data.len()), Some(6000));
    client
}

/// A connection on which these few bytes were sent, and nothing is read.
fn sent(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server accepts");
    stream.write_all(bytes).expect("sockets take so few");
    stream
}

/// A connection on which as much of some bytes is sent as the server takes, and nothing is read.
struct Pushed<'a> {
    stream: TcpStream,
    left: &'a [u8],
}

impl<'a> Pushed<'a> {
    fn new(address: SocketAddr, bytes: &'a [u8]) -> Pushed<'a> {
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_nonblocking(true).expect("an option");
        let left = bytes;
        let mut pushed = Pushed { stream, left };
        pushed.push();
        pushed
    }

    /// Sends what there is room for. The server makes room whenever it gets to read.
    fn push(&mut self) {
        while !self.left.is_empty() {
            match self.stream.write(self.left) {
                Ok(count) => self.left = &self.left[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    // It may have been closed already, to make room for others.
                    let closed = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
                    assert!(closed.contains(&error.kind()), "{error}");
                    self.left = &[];
                }
            }
        }
    }
}

/// A line of `/proc/PID/status`, in bytes.
fn memory(process: &Process, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()))
        .expect("a running process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<u64>().ok())
        .expect("with its memory in kB")
        * 1024
}

/// What an operator would learn from the kernel, at night, is said at the start.
#[test]
fn a_limit_beyond_the_machines_memory_is_told() {
    let server = evenkeel::server(&["-t", "1", "-m", "999999999"]);
    server.await_stderr("-m 999999999: a full server takes up to ");
    assert_eq!(Client::connect(server.address()).set("k", b"v"), "STORED");
}
