//! Many sessions on few connections.
//!
//! Sessions use keys of their own, so that several can be sent on one connection: the first parts of
//! all of them, then on another connection the second parts, and so on. A *sentinel* follows each part,
//! whose answer names the part and so says where its answers end. No time passes waiting for that: the
//! sentinels and, behind the last part, the end of the stream tell.
//!
//! A part may close the connection or swallow what follows it, sentinels included. Then the answers that
//! came behind the last sentinel are taken for its, and the parts after it are sent again on another
//! connection. Both servers are treated alike: the same bytes give the same answers, or else somebody
//! differs, and what differs is run again without neighbours before it counts.

use std::net::SocketAddr;

use super::{CONNECTIONS_MAX, Session, Uniques, binary, is_binary};
use crate::exchange::{Split, exchange};

/// What all connections of a session are answered.
pub type Answers = Vec<Vec<u8>>;

/// Runs all sessions against one server.
///
/// # Errors
/// A sentence, when the server neither answers nor closes.
pub fn run(
    address: SocketAddr,
    sessions: &[&Session],
    split: Split,
) -> Result<Vec<Answers>, String> {
    let mut uniques: Vec<Uniques> = sessions.iter().map(|_| Uniques::default()).collect();
    let mut answers = vec![Answers::new(); sessions.len()];
    for turn in 0..CONNECTIONS_MAX {
        for protocols in [false, true] {
            let parts: Vec<(usize, Vec<u8>)> = sessions
                .iter()
                .enumerate()
                .filter_map(|(n, session)| {
                    let bytes = session.connections.get(turn)?;
                    (is_binary(bytes) == protocols).then(|| (n, uniques[n].fill_in(bytes)))
                })
                .collect();
            let (numbers, parts): (Vec<usize>, Vec<Vec<u8>>) = parts.into_iter().unzip();
            for (n, answer) in numbers.into_iter().zip(converse(address, &parts, split)?) {
                uniques[n].take(&sessions[n].connections[turn], &answer);
                answers[n].push(answer);
            }
        }
    }
    Ok(answers)
}

/// Sends parts of one protocol, and returns what each was answered.
fn converse(address: SocketAddr, parts: &[Vec<u8>], split: Split) -> Result<Answers, String> {
    let mut answers = Answers::new();
    while answers.len() < parts.len() {
        let first = answers.len();
        let mut bytes = Vec::new();
        for (n, part) in parts.iter().enumerate().skip(first) {
            bytes.extend(part);
            if n + 1 < parts.len() {
                bytes.extend(sentinel(is_binary(&parts[n]), n).0);
            }
        }
        let answer = exchange(address, &bytes, split)?;
        let mut rest = &answer[..];
        for (n, part) in parts.iter().enumerate().skip(first) {
            let end = sentinel(is_binary(part), n).1;
            let found = rest.windows(end.len()).position(|window| window == end);
            let Some(at) = found.filter(|_| n + 1 < parts.len()) else {
                break;
            };
            let (own, behind) = rest.split_at(at + end.len());
            answers.push(own.to_vec());
            rest = behind;
        }
        answers.push(rest.to_vec());
    }
    Ok(answers)
}

/// What follows part `n`, and how its answer ends. It leaves the store as it is, but for one item in
/// text: there, no command that stores nothing is answered by more than its own name.
fn sentinel(binary: bool, n: usize) -> (Vec<u8>, Vec<u8>) {
    match binary {
        true => binary::noop(SENTINEL_OPAQUE + n as u32),
        false => (
            format!("ms ={n}= 0 k O{n}\r\n\r\n").into_bytes(),
            format!("HD k={n}= O{n}\r\n").into_bytes(),
        ),
    }
}

/// Opaques of binary sentinels begin here; that a session has one by chance is possible, and harms
/// nothing: its answers would end early on both sides.
const SENTINEL_OPAQUE: u32 = 0x5e47_0000;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers each line `x` by `x`, `q` by closing, and to sentinels what they want.
    fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it has one");
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).expect("it comes whole");
                for line in String::from_utf8_lossy(&bytes).lines() {
                    let answer = match line.split(' ').collect::<Vec<_>>()[..] {
                        ["q"] => break,
                        ["ms", key, _, _, opaque] => format!("HD k{key} {opaque}\r\n"),
                        [""] => String::new(),
                        _ => format!("{line}\r\n"),
                    };
                    stream.write_all(answer.as_bytes()).expect("it is read");
                }
            }
        });
        address
    }

    #[test]
    fn each_part_gets_its_own_answers() {
        let parts = ["a\r\n", "q\r\nlost\r\n", "b\r\nc\r\n", "", "d\r\nq\r\n"];
        let parts: Vec<Vec<u8>> = parts.map(|part| part.into()).to_vec();
        let answers = converse(server(), &parts, Split::Whole).expect("it answers");
        let answers: Vec<_> = answers
            .iter()
            .map(|answer| String::from_utf8_lossy(answer))
            .collect();
        assert_eq!(
            answers,
            [
                "a\r\nHD k=0= O0\r\n",
                "",
                "b\r\nc\r\nHD k=2= O2\r\n",
                "HD k=3= O3\r\n",
                "d\r\n"
            ]
        );
    }
}
