//! Files as they come: plain, gzip or zstd, told by their first bytes and decompressed on the way.

use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Longest line, in bytes. Keys are far shorter; a longer line means that the file is no text.
pub const LINE_LEN_MAX: usize = 64 << 10;

/// Size of the buffers for the file and for what it decompresses to.
const BUFFER_LEN: usize = 128 << 10;

/// First bytes of a gzip file (RFC 1952, section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// First bytes of a zstd frame, and of a skippable one, whose first byte has sixteen values (RFC 8878,
/// section 3.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const ZSTD_SKIPPABLE_MAGIC: [u8; 3] = [0x2a, 0x4d, 0x18];

/// Largest window of a zstd frame as a power of two: 128 MiB, what the `zstd` tool itself takes unless
/// it is told otherwise. It bounds the memory that a file can make us take.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Opens a file for reading what it holds once decompressed.
///
/// # Errors
/// As the file system says; damage shows while reading.
pub(crate) fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let mut file = BufReader::with_capacity(BUFFER_LEN, File::open(path)?);
    let start = file.fill_buf()?;
    let skippable = start
        .get(1..4)
        .is_some_and(|magic| magic == ZSTD_SKIPPABLE_MAGIC)
        && start[0] & 0xf0 == 0x50;
    Ok(if start.starts_with(&GZIP_MAGIC) {
        let decoder = MultiGzDecoder::new(file);
        Box::new(BufReader::with_capacity(BUFFER_LEN, decoder))
    } else if start.starts_with(&ZSTD_MAGIC) || skippable {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(file)?;
        decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        Box::new(BufReader::with_capacity(BUFFER_LEN, decoder))
    } else {
        Box::new(file)
    })
}
