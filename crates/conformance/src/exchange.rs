//! One connection's whole conversation: send, half-close, read to the end.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use evenkeel_testkit::IO_TIMEOUT;

/// How the bytes are cut into writes. The answer must not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// One write.
    Whole,
    /// One byte at a time for some thousand bytes, then the rest in one piece.
    SingleBytes,
    /// Pieces of random lengths, the same for the same seed.
    Random(u64),
}

/// Beyond this many single-byte writes nothing new is learnt: the rest is the inside of a long value.
const SINGLE_BYTES_MAX: usize = 4096;

/// The longest random piece: longer than any command line in the transcripts but the longest.
const RANDOM_PIECE_MAX: u64 = 64;

/// Cuts `bytes` into pieces.
pub fn pieces(bytes: &[u8], split: Split) -> Vec<&[u8]> {
    match split {
        Split::Whole => vec![bytes],
        Split::SingleBytes => {
            let (single, rest) = bytes.split_at(bytes.len().min(SINGLE_BYTES_MAX));
            let mut pieces: Vec<&[u8]> = single.chunks(1).collect();
            if !rest.is_empty() {
                pieces.push(rest);
            }
            pieces
        }
        Split::Random(seed) => {
            let mut state = seed;
            let mut rest = bytes;
            let mut pieces = Vec::new();
            while !rest.is_empty() {
                if pieces.len() == SINGLE_BYTES_MAX {
                    pieces.push(rest);
                    break;
                }
                let len = 1 + (next_random(&mut state) % RANDOM_PIECE_MAX) as usize;
                let (piece, after) = rest.split_at(len.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            pieces
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The seed of this run: `EVENKEEL_SEED`, or the clock. Printed, so that a failure can be replayed.
pub fn seed() -> u64 {
    let seed = match std::env::var("EVENKEEL_SEED") {
        Ok(text) => text.parse().expect("EVENKEEL_SEED is a number"),
        Err(_) => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("the clock is past 1970")
            .as_nanos() as u64,
    };
    println!("seed: EVENKEEL_SEED={seed}");
    seed
}

/// This many bytes fit into the socket's buffers on either side even when the server reads nothing.
const SENT_AT_ONCE_MAX: usize = 16 << 10;

/// Sends `bytes` in pieces on a new connection, half-closes it, and returns all that comes until the
/// server closes. A reset counts as a close: a server may close with bytes unread.
///
/// # Errors
/// A sentence with what had come, when the server neither answers nor closes within [`IO_TIMEOUT`].
pub fn exchange(address: SocketAddr, bytes: &[u8], split: Split) -> Result<Vec<u8>, String> {
    let mut stream = TcpStream::connect_timeout(&address, IO_TIMEOUT)
        .map_err(|error| format!("failed to connect to {address}: {error}"))?;
    let ready = stream
        .set_nodelay(true)
        .and_then(|()| stream.set_read_timeout(Some(IO_TIMEOUT)))
        .and_then(|()| stream.set_write_timeout(Some(IO_TIMEOUT)))
        .and_then(|()| stream.try_clone());
    let mut writer = ready.map_err(|error| format!("failed to set up a socket: {error}"))?;
    let mut write = move || {
        for piece in pieces(bytes, split) {
            if writer.write_all(piece).is_err() {
                return; // The server closed; the reader sees what it said before.
            }
        }
        // Fails only when the server closed first.
        let _ = writer.shutdown(Shutdown::Write);
    };
    std::thread::scope(|scope| {
        if bytes.len() <= SENT_AT_ONCE_MAX {
            write();
        } else {
            // Written beside the reading: a server that answers much may stop reading meanwhile.
            scope.spawn(write);
        }
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => Ok(answer),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(answer),
            Err(error) => {
                // Ends the writer too, which may be blocked.
                let _ = stream.shutdown(Shutdown::Both);
                Err(format!(
                    "{error} after {}",
                    crate::transcript::escape(&answer)
                ))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_bytes_again() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|n| n as u8).collect();
        for split in [
            Split::Whole,
            Split::SingleBytes,
            Split::Random(1),
            Split::Random(2),
        ] {
            assert_eq!(pieces(&bytes, split).concat(), bytes, "{split:?}");
        }
        assert_eq!(pieces(&bytes, Split::SingleBytes)[0].len(), 1);
        assert_eq!(
            pieces(&bytes, Split::Random(7)),
            pieces(&bytes, Split::Random(7))
        );
        assert_ne!(
            pieces(&bytes, Split::Random(7)),
            pieces(&bytes, Split::Random(8))
        );
    }
}
