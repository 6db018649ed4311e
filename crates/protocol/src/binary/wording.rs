//! Answers that are composed as text, worded in binary.
//!
//! Commands about the whole server (`stats`, `flush_all`, the hello) answer in lines. Rather than
//! compose them twice, what they say is read again here, line by line.

use crate::binary::{Echo, Opcode, Status, answer};
use crate::text;

/// Appends what `said` says in text as the answer to a binary request.
pub fn in_binary(said: &[u8], echo: Echo, out: &mut Vec<u8>) {
    match echo.opcode.loud() {
        (Opcode::STAT, _) => statistics(said, echo, out),
        // Nothing was said because nothing was to be said.
        _ if said.is_empty() => {}
        (Opcode::HELLO, _) => {
            answer::text(out, echo, said.strip_suffix(text::CRLF).unwrap_or(said))
        }
        (_, true) if said == text::OK => {}
        _ if said == text::OK => answer::done(out, echo, 0),
        _ => answer::error(out, echo, Status::InvalidArguments),
    }
}

/// A packet for each `STAT` line and an empty one behind the last; an unknown argument is not found.
fn statistics(said: &[u8], echo: Echo, out: &mut Vec<u8>) {
    let mut lines = said
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(text::CRLF).unwrap_or(line))
        .peekable();
    let first = lines.peek().copied().unwrap_or_default();
    if first.starts_with(b"PREFIX ") {
        // `stats detail dump`: memcached sends the whole text as one statistic.
        return packets([(b"detailed".as_slice(), said)], echo, out);
    }
    if !matches!(
        first,
        [b'S', b'T', b'A', b'T', b' ', ..] | b"END" | b"RESET" | b"OK"
    ) {
        return answer::error(out, echo, Status::NotFound);
    }
    let statistics = lines
        .filter_map(|line| line.strip_prefix(b"STAT "))
        .map(|line| {
            let end = line.iter().position(|&byte| byte == b' ');
            match end {
                Some(end) => (&line[..end], &line[end + 1..]),
                None => (line, b"".as_slice()),
            }
        });
    packets(statistics, echo, out);
}

fn packets<'a>(
    statistics: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    echo: Echo,
    out: &mut Vec<u8>,
) {
    for (name, value) in statistics {
        answer::stat(out, echo, name, value);
    }
    answer::stat(out, echo, b"", b"");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;
    use crate::binary::{ReplyOutcome, parse_reply};

    /// The packets that an answer becomes, as `status key=value`.
    fn worded(opcode: Opcode, said: &str) -> Vec<String> {
        let mut out = Vec::new();
        let echo = Echo { opcode, opaque: 7 };
        in_binary(said.as_bytes(), echo, &mut out);
        let mut rest = out.as_slice();
        let mut packets = Vec::new();
        while let ReplyOutcome::Reply { reply, consumed } = parse_reply(rest, &Limits::default()) {
            assert_eq!((reply.opcode, reply.opaque), (opcode, 7));
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            packets.push(format!(
                "{} {}={}",
                reply.status,
                text(reply.key),
                text(reply.value)
            ));
            rest = &rest[consumed..];
        }
        assert!(rest.is_empty());
        packets
    }

    #[test]
    fn statistics_become_packets() {
        assert_eq!(
            worded(
                Opcode::STAT,
                "STAT a 1\r\nSTAT b c d\r\nSTAT e\r\nSTAT f \r\nEND\r\n"
            ),
            ["0 a=1", "0 b=c d", "0 e=", "0 f=", "0 ="]
        );
        assert_eq!(worded(Opcode::STAT, "END\r\n"), ["0 ="]);
        assert_eq!(worded(Opcode::STAT, "RESET\r\n"), ["0 ="]);
        assert_eq!(worded(Opcode::STAT, "OK\r\n"), ["0 ="]);
        assert_eq!(worded(Opcode::STAT, "ERROR\r\n"), ["1 =Not found"]);
        assert_eq!(worded(Opcode::STAT, ""), ["1 =Not found"]);
        let dump = "PREFIX a get 1 hit 0 set 0 del 0\r\nEND\r\n";
        assert_eq!(
            worded(Opcode::STAT, dump),
            [format!("0 detailed={dump}").as_str(), "0 ="]
        );
    }

    #[test]
    fn other_answers_become_one_packet() {
        assert_eq!(worded(Opcode::FLUSH, "OK\r\n"), ["0 ="]);
        assert_eq!(worded(Opcode::FLUSHQ, "OK\r\n"), Vec::<String>::new());
        assert_eq!(worded(Opcode::FLUSHQ, ""), Vec::<String>::new());
        assert_eq!(worded(Opcode::VERBOSITY, "OK\r\n"), ["0 ="]);
        assert_eq!(
            worded(Opcode::VERBOSITY, "CLIENT_ERROR no\r\n"),
            ["4 =Invalid arguments"]
        );
        assert_eq!(
            worded(Opcode::HELLO, "EVENKEEL 1 server=0\r\n"),
            ["0 =EVENKEEL 1 server=0"]
        );
    }
}
