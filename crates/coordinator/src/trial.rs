//! Whether a new memcached can be a server of a ring: it answers `version`, and shows that it can hold marks.

use std::time::Duration;

use evenkeel_protocol::{Limits, Reply, ReplyOutcome, parse_reply};
use evenkeel_schemes::mark;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time for one trial. A server that needs longer would hold applications up.
const PATIENCE: Duration = Duration::from_secs(1);

/// Both answers are shorter.
const ANSWER_LEN_MAX: usize = 512;

/// Tries the server at `HOST:PORT` once, on a connection of its own.
///
/// # Errors
///
/// Why it is no use, in words.
pub(crate) async fn try_server(address: &str) -> Result<(), String> {
    match timeout(PATIENCE, asked(address)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Err(format!("{address}: {error}")),
        Err(_) => Err(format!(
            "{address} has not answered within {} ms",
            PATIENCE.as_millis()
        )),
    }
}

async fn asked(address: &str) -> std::io::Result<Result<(), String>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"version\r\n").await?;
    stream.write_all(mark::TRIAL).await?;
    let mut answer = Vec::with_capacity(ANSWER_LEN_MAX);
    loop {
        let is_over = stream.read_buf(&mut answer).await? == 0;
        match judge(&answer) {
            Some(true) => return Ok(Ok(())),
            Some(false) => break,
            None if is_over || answer.len() >= ANSWER_LEN_MAX => break,
            None => {}
        }
    }
    let said = answer.escape_ascii();
    Ok(Err(format!(
        "{address} answers otherwise than a memcached with meta commands and CAS uniques: {said}"
    )))
}

/// Whether the two answers are good, as far as they are there.
fn judge(answer: &[u8]) -> Option<bool> {
    let (version, len) = match parse_reply(answer, &Limits::default()) {
        ReplyOutcome::Reply { reply, consumed } => (reply, consumed),
        ReplyOutcome::Incomplete { .. } => return None,
        _ => return Some(false),
    };
    if !matches!(version, Reply::Version(_)) {
        return Some(false);
    }
    match parse_reply(&answer[len..], &Limits::default()) {
        ReplyOutcome::Reply { reply, .. } => Some(mark::passes_trial(&reply)),
        ReplyOutcome::Incomplete { .. } => None,
        _ => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_testkit::Memcached;

    #[test]
    fn answers_are_judged_as_soon_as_they_are_there() {
        for (said, judged) in [
            ("", None),
            ("VERSION 1.6", None),
            ("VERSION 1.6.38\r\n", None),
            ("VERSION 1.6.38\r\nHD c", None),
            ("VERSION 1.6.38\r\nHD c7\r\n", Some(true)),
            (
                "VERSION 1.6.38\r\nSERVER_ERROR out of memory\r\n",
                Some(true),
            ),
            ("VERSION 1.6.38\r\nHD c0\r\n", Some(false)),
            ("VERSION 1.6.38\r\nHD\r\n", Some(false)),
            ("VERSION 1.4.0\r\nERROR\r\n", Some(false)),
            ("ERROR\r\n", Some(false)),
            ("SSH-2.0-OpenSSH\r\n", Some(false)),
        ] {
            assert_eq!(judge(said.as_bytes()), judged, "{said:?}");
        }
    }

    #[test]
    fn a_memcached_passes_unless_it_gives_no_uniques() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let tried = |arguments: &[&str]| {
            let server = Memcached::spawn(arguments);
            let address = server.address().to_string();
            // A busy machine may need several tries.
            let mut tries = (0..100).map(|_| runtime.block_on(try_server(&address)));
            let is_judged = |said: &Result<(), String>| match said {
                Ok(()) => true,
                Err(why) => !why.contains("has not answered within"),
            };
            tries.find(is_judged).expect("an answer in time")
        };
        assert_eq!(tried(&["-t", "1"]), Ok(()));
        let why = tried(&["-t", "1", "-C"]).unwrap_err();
        assert!(why.contains("answers otherwise"), "{why}");
    }
}
