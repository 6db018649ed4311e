//! The 24 bytes that every packet begins with.

use super::{Opcode, REPLY_MAGIC, REQUEST_MAGIC};

/// Length of a header, in bytes.
pub const HEADER_LEN: usize = 24;

/// The header of a request, whose lengths nobody has checked yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader {
    /// What is asked.
    pub opcode: Opcode,
    /// Length of the key, in bytes.
    pub key_len: u16,
    /// Length of the extras, in bytes.
    pub extras_len: u8,
    /// Always 0 in what is written here; what others write is ignored, as memcached does.
    pub data_type: u8,
    /// For agreed clients the cachelet in which they believe the key to be; ignored from others.
    pub vbucket: u16,
    /// Length of extras, key and value, in bytes.
    pub body_len: u32,
    /// What the answer repeats.
    pub opaque: u32,
    /// CAS unique that the item must still have; 0 for any.
    pub cas: u64,
}

impl RequestHeader {
    /// Reads a header; `None` when `buf` has fewer than [`HEADER_LEN`] bytes or begins otherwise.
    #[inline]
    pub fn parse(buf: &[u8]) -> Option<Self> {
        let raw = buf.first_chunk::<HEADER_LEN>()?;
        let (vbucket, header) = parse(raw, REQUEST_MAGIC)?;
        Some(RequestHeader { vbucket, ..header })
    }

    /// What an answer repeats of it.
    pub fn echo(&self) -> Echo {
        Echo {
            opcode: self.opcode,
            opaque: self.opaque,
        }
    }

    /// Appends the header.
    pub fn write(&self, out: &mut Vec<u8>) {
        write(out, REQUEST_MAGIC, self.vbucket, self);
    }
}

/// What an answer repeats of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The opcode as sent, quiet forms included.
    pub opcode: Opcode,
    /// The opaque.
    pub opaque: u32,
}

/// The header of a reply, whose lengths nobody has checked yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyHeader {
    /// What was asked.
    pub opcode: Opcode,
    /// Length of the key, in bytes.
    pub key_len: u16,
    /// Length of the extras, in bytes.
    pub extras_len: u8,
    /// What became of it; see [`Status`](super::Status).
    pub status: u16,
    /// Length of extras, key and value, in bytes.
    pub body_len: u32,
    /// As sent with the request.
    pub opaque: u32,
    /// CAS unique of the item, or 0.
    pub cas: u64,
}

impl ReplyHeader {
    /// Reads a header; `None` when `buf` has fewer than [`HEADER_LEN`] bytes or begins otherwise.
    pub fn parse(buf: &[u8]) -> Option<Self> {
        let raw = buf.first_chunk::<HEADER_LEN>()?;
        let (status, header) = parse(raw, REPLY_MAGIC)?;
        Some(ReplyHeader {
            opcode: header.opcode,
            key_len: header.key_len,
            extras_len: header.extras_len,
            status,
            body_len: header.body_len,
            opaque: header.opaque,
            cas: header.cas,
        })
    }

    /// Appends the header.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        let common = RequestHeader {
            opcode: self.opcode,
            key_len: self.key_len,
            extras_len: self.extras_len,
            data_type: 0,
            vbucket: 0,
            body_len: self.body_len,
            opaque: self.opaque,
            cas: self.cas,
        };
        write(out, REPLY_MAGIC, self.status, &common);
    }
}

/// The fields that both headers share, and the one at byte 6 that they name differently.
#[inline]
fn parse(raw: &[u8; HEADER_LEN], magic: u8) -> Option<(u16, RequestHeader)> {
    let &[
        first,
        opcode,
        k0,
        k1,
        extras_len,
        data_type,
        s0,
        s1, //
        b0,
        b1,
        b2,
        b3,
        o0,
        o1,
        o2,
        o3, //
        c0,
        c1,
        c2,
        c3,
        c4,
        c5,
        c6,
        c7,
    ] = raw;
    let header = RequestHeader {
        opcode: Opcode(opcode),
        key_len: u16::from_be_bytes([k0, k1]),
        extras_len,
        data_type,
        vbucket: 0,
        body_len: u32::from_be_bytes([b0, b1, b2, b3]),
        opaque: u32::from_be_bytes([o0, o1, o2, o3]),
        cas: u64::from_be_bytes([c0, c1, c2, c3, c4, c5, c6, c7]),
    };
    (first == magic).then_some((u16::from_be_bytes([s0, s1]), header))
}

#[inline]
fn write(out: &mut Vec<u8>, magic: u8, at_6: u16, header: &RequestHeader) {
    let mut raw = [0; HEADER_LEN];
    raw[0] = magic;
    raw[1] = header.opcode.0;
    raw[2..4].copy_from_slice(&header.key_len.to_be_bytes());
    raw[4] = header.extras_len;
    raw[5] = header.data_type;
    raw[6..8].copy_from_slice(&at_6.to_be_bytes());
    raw[8..12].copy_from_slice(&header.body_len.to_be_bytes());
    raw[12..16].copy_from_slice(&header.opaque.to_be_bytes());
    raw[16..24].copy_from_slice(&header.cas.to_be_bytes());
    out.extend_from_slice(&raw);
}
