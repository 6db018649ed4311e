//! Copies of values, which may be large.
//!
//! glibc (2.36) copies 4 KiB and more by `rep movsb` where the processor says that this is fast. On some AMD processors it takes about ten
//! times as long where what is written begins a few bytes further into its page than what is read (docs/performance.md, "Large
//! values"). A value behind its line in an answer often lies like that to the same value behind its header in an item.
//! Pieces of fewer bytes are copied by vectors, as fast as `rep movsb` at its best.

/// Copied at a time, in bytes: half of the least from which on glibc uses `rep movsb`.
const PIECE: usize = 2048;

/// Appends bytes.
///
/// ```
/// let mut out = b"VALUE k 0 5000\r\n".to_vec();
/// evenkeel_types::copy::append(&mut out, &[b'v'; 5000]);
/// assert_eq!((out.len(), out[5015]), (5016, b'v'));
/// ```
#[inline(always)]
pub fn append(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() <= PIECE {
        out.extend_from_slice(bytes);
    } else {
        append_pieces(out, bytes);
    }
}

/// Replaces all of `to`.
///
/// # Panics
/// When they differ in length.
///
/// ```
/// let mut to = [0; 5000];
/// evenkeel_types::copy::replace(&mut to, &[7; 5000]);
/// assert_eq!(to, [7; 5000]);
/// ```
#[inline(always)]
pub fn replace(to: &mut [u8], from: &[u8]) {
    if from.len() <= PIECE {
        to.copy_from_slice(from);
    } else {
        replace_pieces(to, from);
    }
}

#[inline(never)]
fn append_pieces(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len());
    for piece in bytes.chunks(PIECE) {
        out.extend_from_slice(piece);
    }
}

#[inline(never)]
fn replace_pieces(to: &mut [u8], from: &[u8]) {
    assert_eq!(
        to.len(),
        from.len(),
        "a copy has the length of what is copied"
    );
    for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The twin: what the library does.
    #[test]
    fn a_copy_is_what_was_copied_whatever_its_length() {
        let bytes: Vec<u8> = (0..3 * PIECE + 7).map(|at| (at % 251) as u8).collect();
        for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, bytes.len()] {
            let mut out = b"line".to_vec();
            append(&mut out, &bytes[..len]);
            assert_eq!(out, [b"line", &bytes[..len]].concat(), "{len}");
            let mut to = vec![0; len];
            replace(&mut to, &bytes[..len]);
            assert_eq!(to, bytes[..len], "{len}");
        }
    }

    #[test]
    #[should_panic(expected = "the length of what is copied")]
    fn a_copy_of_another_length_is_a_mistake() {
        replace(&mut [0; PIECE], &[0; PIECE + 1]);
    }
}
