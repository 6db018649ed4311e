//! The statistics that are lists: hot keys, replicas held, cachelets. Each worker adds its lines.

use super::engine::Engine;
use super::message::LinesView;
use super::time::TimeBase;
use evenkeel_protocol::text;
use evenkeel_types::Now;
use std::io::Write;

/// Most lines that one worker adds to an answer, so that a list stays an answer and not a dump.
pub const LINES_MAX: usize = 1000;

/// Writes one worker's lines of a list.
pub fn lines(engine: &Engine, view: LinesView, now: Now, out: &mut Vec<u8>) {
    // Writing into memory cannot fail, so the results below carry nothing.
    match view {
        LinesView::HotKeys => {
            for info in engine.hot.list().iter().take(LINES_MAX) {
                out.extend_from_slice(b"STAT ");
                escape(&info.key, out);
                let _ = write!(
                    out,
                    " state={} rps={:.0} gamma={} shadows=",
                    info.state.to_string().to_uppercase(),
                    info.requests_per_second.max(0.0),
                    info.shadows.len()
                );
                for (i, shadow) in info.shadows.iter().enumerate() {
                    let _ = write!(out, "{}{shadow}", if i == 0 { "" } else { "," });
                }
                out.extend_from_slice(text::CRLF);
            }
        }
        LinesView::Replicas => {
            for (key, version, len) in engine.replicas.list(TimeBase::seconds(now)).take(LINES_MAX)
            {
                out.extend_from_slice(b"STAT ");
                escape(key, out);
                let _ = write!(out, " version={version} bytes={len}\r\n");
            }
        }
        LinesView::Cachelets => {
            for id in engine.store.cachelet_ids().take(LINES_MAX) {
                let Some(stats) = engine.store.cachelet_stats(id) else {
                    continue;
                };
                let _ = write!(
                    out,
                    "STAT {id} items={} bytes={} segments={} index_bytes={} reads={} hits={} writes={}\r\n",
                    stats.items,
                    stats.bytes,
                    stats.segments,
                    stats.index_bytes,
                    stats.reads,
                    stats.hits,
                    stats.writes
                );
            }
        }
    }
}

/// Writes a key so that it is one word of printable characters, still easy to read: only what is not
/// printable, and the sign itself, becomes `%XX`.
pub fn escape(key: &[u8], out: &mut Vec<u8>) {
    for &byte in key {
        if byte.is_ascii_graphic() && byte != b'%' {
            out.push(byte);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Writes a key as memcached does in dumps and logs: what may not stand in a URI becomes `%XX`.
pub fn uri_encode(key: &[u8], out: &mut Vec<u8>) {
    for &byte in key {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_one_printable_word() {
        let mut out = Vec::new();
        escape(b"a%b \x00\xff", &mut out);
        assert_eq!(out, b"a%25b%20%00%FF");
        out.clear();
        uri_encode(b"a:b-c._~/ %", &mut out);
        assert_eq!(out, b"a%3Ab-c._~%2F%20%25");
    }
}
