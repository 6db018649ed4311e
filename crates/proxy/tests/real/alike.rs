//! Small servers on one port of several loopback addresses, as a name with several addresses stands for.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

type Items = Arc<Mutex<BTreeMap<String, String>>>;

/// Where they listen. Their threads end with their connections, and with the process at the latest.
pub fn start_alike(hosts: &[&str]) -> Vec<SocketAddr> {
    loop {
        let first = TcpListener::bind((hosts[0], 0)).expect("a free port");
        let port = first.local_addr().expect("it is bound").port();
        let others = hosts[1..].iter();
        let others: Result<Vec<_>, _> = others
            .map(|host| TcpListener::bind((*host, port)))
            .collect();
        // A port that is free at one address may be in use at another.
        if let Ok(others) = others {
            let all = std::iter::once(first).chain(others);
            return all.map(listen).collect();
        }
    }
}

fn listen(listener: TcpListener) -> SocketAddr {
    let address = listener.local_addr().expect("it is bound");
    let items = Items::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let items = Arc::clone(&items);
            std::thread::spawn(move || serve(&items, &stream));
        }
    });
    address
}

/// Answers `version`, `set` and `get` of one key, to the end of a connection.
fn serve(items: &Items, mut stream: &TcpStream) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        let mut items = items.lock().expect("no panic");
        let answer = match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
            ["version"] => "VERSION 1.6.18\r\n".to_owned(),
            ["set", key, ..] => {
                items.insert(key.into(), lines.next()?.ok()?);
                "STORED\r\n".to_owned()
            }
            ["get", key] => match items.get(key) {
                Some(value) => format!("VALUE {key} 0 {}\r\n{value}\r\nEND\r\n", value.len()),
                None => "END\r\n".to_owned(),
            },
            _ => "ERROR\r\n".to_owned(),
        };
        stream.write_all(answer.as_bytes()).ok()?;
    }
    Some(())
}
