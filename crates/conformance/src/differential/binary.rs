//! Sessions in the binary protocol, and how their answers are compared.
//!
//! Written against memcached's `protocol-binary.xml`, and apart from the parser of the product on
//! purpose: a witness must not share the eyes of the one it watches.

use super::random::{Choices, OWN_LEN};

/// First byte of a request.
pub const REQUEST_MAGIC: u8 = 0x80;

/// First byte of an answer.
const ANSWER_MAGIC: u8 = 0x81;

/// Length of a header, of requests and answers alike.
const HEADER_LEN: usize = 24;

/// Where the CAS unique stands in a header.
const CAS_AT: std::ops::Range<usize> = 16..24;

const NOOP: u8 = 0x0a;
const VERSION: u8 = 0x0b;
const STAT: u8 = 0x10;

/// What stands for a CAS unique answered on connection `n`: as long as a unique is.
fn mark(connection: usize) -> [u8; 8] {
    let mut mark = *b"{{cas0}}";
    mark[5] += connection as u8;
    mark
}

/// Puts what was taken from answers in the place of its marks. `taken[n]` is of connection `n`.
pub fn fill_in(bytes: &[u8], taken: &[Option<u64>]) -> Vec<u8> {
    let mut filled = bytes.to_vec();
    for (connection, unique) in taken.iter().enumerate() {
        let (Some(unique), mark) = (unique, mark(connection)) else {
            continue;
        };
        let mut from = 0;
        while let Some(at) = filled[from..].windows(8).position(|window| window == mark) {
            filled[from + at..from + at + 8].copy_from_slice(&unique.to_be_bytes());
            from += at + 8;
        }
    }
    filled
}

/// A no-op, and its answer.
pub fn noop(opaque: u32) -> (Vec<u8>, Vec<u8>) {
    let mut frame = Frame::new(NOOP, &[], &[], &[]);
    frame.opaque = opaque;
    let mut request = Vec::new();
    frame.write(&mut request);
    let mut answer = request.clone();
    answer[0] = ANSWER_MAGIC;
    (request, answer)
}

/// Whether the requests end where their headers say.
pub fn ends_whole(requests: &[u8]) -> bool {
    let mut rest = requests;
    while let Some(len) = rest.get(8..12) {
        let body = u32::from_be_bytes(len.try_into().expect("four bytes")) as usize;
        match rest.get(HEADER_LEN.saturating_add(body)..) {
            Some(behind) if rest[0] == REQUEST_MAGIC => rest = behind,
            _ => return false,
        }
    }
    rest.is_empty()
}

/// One request, with every field of its header at hand.
struct Frame {
    opcode: u8,
    key_len: u16,
    extras_len: u8,
    data_type: u8,
    vbucket: u16,
    body_len: u32,
    opaque: u32,
    cas: [u8; 8],
    body: Vec<u8>,
}

impl Frame {
    fn new(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Frame {
        let body = [extras, key, value].concat();
        Frame {
            opcode,
            key_len: key.len() as u16,
            extras_len: extras.len() as u8,
            data_type: 0,
            vbucket: 0,
            body_len: body.len() as u32,
            opaque: 0,
            cas: [0; 8],
            body,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend([REQUEST_MAGIC, self.opcode]);
        out.extend(self.key_len.to_be_bytes());
        out.extend([self.extras_len, self.data_type]);
        out.extend(self.vbucket.to_be_bytes());
        out.extend(self.body_len.to_be_bytes());
        out.extend(self.opaque.to_be_bytes());
        out.extend(self.cas);
        out.extend(&self.body);
    }
}

/// Which extras a command takes, and whether it takes a value behind the key.
#[derive(Clone, Copy)]
enum Shape {
    /// A key alone.
    Key,
    /// Flags and exptime, a key and a value.
    Store,
    /// A key and a value.
    Join,
    /// Delta, initial value and exptime, and a key.
    Count,
    /// Exptime and a key.
    Touch,
    /// Exptime or nothing; no key.
    Flush,
    /// Nothing at all.
    Bare,
}

/// Commands by how often they are sent: each beside its quiet form, with the shape of both. `stat`
/// is left out: its answer tells about the process.
const COMMANDS: [(usize, [u8; 2], Shape); 18] = [
    (14, [0x00, 0x09], Shape::Key),   // get
    (10, [0x0c, 0x0d], Shape::Key),   // getk
    (20, [0x01, 0x11], Shape::Store), // set
    (5, [0x02, 0x12], Shape::Store),  // add
    (5, [0x03, 0x13], Shape::Store),  // replace
    (8, [0x04, 0x14], Shape::Key),    // delete
    (8, [0x05, 0x15], Shape::Count),  // incr
    (8, [0x06, 0x16], Shape::Count),  // decr
    (5, [0x0e, 0x19], Shape::Join),   // append
    (5, [0x0f, 0x1a], Shape::Join),   // prepend
    (4, [0x1c, 0x1c], Shape::Touch),  // touch
    (4, [0x1d, 0x1e], Shape::Touch),  // gat
    (4, [0x23, 0x24], Shape::Touch),  // gatk
    (1, [0x08, 0x18], Shape::Flush),  // flush
    (6, [NOOP, NOOP], Shape::Bare),   // noop
    (1, [VERSION, VERSION], Shape::Bare),
    (1, [0x07, 0x17], Shape::Bare), // quit
    (2, [0x20, 0x30], Shape::Bare), // sasl mechanisms; a command that there is not
];

/// Lifetimes: none that end while a session runs. The last makes incr and decr create nothing.
const EXPTIMES: [u32; 5] = [0, 0, 1000, 2_592_000, u32::MAX];

/// Deltas and initial values.
const COUNTS: [u64; 7] = [0, 1, 5, 10, 1 << 32, u64::MAX - 1, u64::MAX];

const VALUES: [&str; 10] = [
    "x",
    "hello",
    "",
    "0",
    "1",
    "99",
    "18446744073709551615",
    "-1",
    "12 ",
    "\r\n",
];

/// A connection's worth of frames.
pub fn connection(choices: &mut Choices) -> Vec<u8> {
    let frames = 1 + choices.below_one_of(&[(6, 4), (3, 12), (1, 40)]);
    let spoil_percent = choices.weighted(&[(5, 0), (3, 8), (2, 30)]);
    let mut bytes = Vec::new();
    for _ in 0..frames {
        let mut frame = frame(choices);
        if choices.chance(spoil_percent) {
            spoil(choices, &mut frame);
        }
        frame.write(&mut bytes);
        if choices.chance(spoil_percent / 8) {
            let at = choices.below(bytes.len());
            bytes[at] = choices.number() as u8;
        }
    }
    if choices.chance(3) {
        bytes.truncate(1 + choices.below(bytes.len()));
    }
    // Whatever else is wrong: without its first byte it would be another protocol.
    bytes[0] = REQUEST_MAGIC;
    bytes
}

fn frame(choices: &mut Choices) -> Frame {
    let (opcodes, shape) =
        choices.weighted(&COMMANDS.map(|(weight, opcodes, shape)| (weight, (opcodes, shape))));
    let opcode = opcodes[usize::from(choices.chance(25))];
    let key = key(choices);
    let exptime = EXPTIMES[choices.below(EXPTIMES.len())].to_be_bytes();
    let mut frame = match shape {
        Shape::Key => Frame::new(opcode, &[], &key, &[]),
        Shape::Store => {
            let flags = (choices.below(3) as u32).to_be_bytes();
            Frame::new(opcode, &[flags, exptime].concat(), &key, &value(choices))
        }
        Shape::Join => Frame::new(opcode, &[], &key, &value(choices)),
        Shape::Count => {
            let mut number = || COUNTS[choices.below(COUNTS.len())].to_be_bytes();
            let extras = [&number()[..], &number(), &exptime].concat();
            Frame::new(opcode, &extras, &key, &[])
        }
        Shape::Touch => Frame::new(opcode, &exptime, &key, &[]),
        Shape::Flush => Frame::new(opcode, &[], &[], &[]),
        Shape::Bare => Frame::new(opcode, &[], &[], &[]),
    };
    frame.opaque = choices.number() as u32;
    if choices.chance(12) {
        frame.cas = match choices.chance(70) {
            true => mark(choices.below(super::CONNECTIONS_MAX - 1)),
            false => choices.number().to_be_bytes(),
        };
    }
    frame
}

fn key(choices: &mut Choices) -> Vec<u8> {
    match choices.weighted(&[(94, 0), (3, 1), (3, 2)]) {
        0 => {
            let key = choices.pick(&["a", "b", "c", "k1"]);
            choices.own(key)
        }
        1 => match choices.weighted(&[(2, 250), (1, 251), (1, 300), (1, 0)]) {
            0 => Vec::new(),
            len => choices.own(b"k".repeat(len - OWN_LEN)),
        },
        _ => {
            let key: Vec<u8> = (0..1 + choices.below(8))
                .map(|_| choices.number() as u8)
                .collect();
            choices.own(key)
        }
    }
}

fn value(choices: &mut Choices) -> Vec<u8> {
    match choices.weighted(&[(90, 0), (8, 1), (2, 2)]) {
        0 => choices.pick(&VALUES).into(),
        1 => (0..choices.below(100))
            .map(|_| choices.number() as u8)
            .collect(),
        _ => b"v".repeat(choices.below(9000)),
    }
}

/// Puts something wrong into a frame's header, or makes its body longer or shorter than it says.
fn spoil(choices: &mut Choices, frame: &mut Frame) {
    let odd = [
        0_u32,
        1,
        4,
        7,
        8,
        9,
        20,
        21,
        250,
        251,
        255,
        65_535,
        i32::MAX as u32,
        1 << 31,
        u32::MAX,
    ];
    let number = odd[choices.below(odd.len())];
    match choices.below(10) {
        0 => frame.key_len = number as u16,
        1 => frame.extras_len = number as u8,
        2 => frame.body_len = number,
        3 => frame.body_len = frame.body_len.wrapping_add(1),
        4 => frame.body_len = frame.body_len.wrapping_sub(1),
        5 => frame.opcode = choices.number() as u8,
        6 => frame.data_type = choices.number() as u8,
        7 => frame.vbucket = choices.number() as u16,
        8 => {
            frame.extras_len = frame
                .extras_len
                .wrapping_add(choices.below(3) as u8)
                .wrapping_sub(1)
        }
        _ => {
            frame.key_len = frame
                .key_len
                .wrapping_add(choices.below(3) as u16)
                .wrapping_sub(1)
        }
    }
    // A command that there is not may be anything but this one, whose answer tells about the process.
    if frame.opcode == STAT {
        frame.opcode = VERSION;
    }
}

/// The last CAS unique of an answer.
pub fn last_unique(answer: &[u8]) -> Option<u64> {
    frames(answer)
        .filter_map(|frame| frame.get(CAS_AT))
        .map(|bytes| u64::from_be_bytes(bytes.try_into().expect("eight bytes")))
        .filter(|unique| *unique != 0)
        .last()
}

/// Answers with CAS uniques replaced by their order of first appearance in the session, and without
/// what tells about the process.
pub fn normalise(answer: &[u8], uniques: &mut Vec<u64>) -> Vec<u8> {
    let mut out = Vec::with_capacity(answer.len());
    for frame in frames(answer) {
        let mut frame = frame.to_vec();
        if frame.len() >= HEADER_LEN && frame[0] == ANSWER_MAGIC {
            let unique = u64::from_be_bytes(frame[CAS_AT].try_into().expect("eight bytes"));
            if unique != 0 {
                let known = uniques.iter().position(|known| *known == unique);
                let index = known.unwrap_or_else(|| {
                    uniques.push(unique);
                    uniques.len() - 1
                });
                frame[CAS_AT].copy_from_slice(&(index as u64 + 1).to_be_bytes());
            }
            if frame[1] == VERSION && frame[6..8] == [0, 0] {
                frame[8..12].fill(0);
                frame.truncate(HEADER_LEN);
            }
        }
        out.extend(frame);
    }
    out
}

/// The frames of an answer; what is no frame comes as it is, at the end.
fn frames(answer: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = answer;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let len = match rest.get(8..12) {
            Some(len) if rest[0] == ANSWER_MAGIC => {
                let body = u32::from_be_bytes(len.try_into().expect("four bytes"));
                HEADER_LEN.saturating_add(body as usize).min(rest.len())
            }
            _ => rest.len(),
        };
        let (frame, after) = rest.split_at(len);
        rest = after;
        Some(frame)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(opcode: u8, cas: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![ANSWER_MAGIC, opcode, 0, 0, 0, 0, 0, 0];
        bytes.extend((body.len() as u32).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(cas.to_be_bytes());
        bytes.extend(body);
        bytes
    }

    #[test]
    fn uniques_count_by_identity_and_versions_not_at_all() {
        let ours = [
            answer(1, 77, b""),
            answer(0, 77, b"x"),
            answer(VERSION, 0, b"0.1"),
        ]
        .concat();
        let theirs = [
            answer(1, 5, b""),
            answer(0, 5, b"x"),
            answer(VERSION, 0, b"1.6.18"),
        ]
        .concat();
        let other = [
            answer(1, 5, b""),
            answer(0, 6, b"x"),
            answer(VERSION, 0, b"1.6.18"),
        ]
        .concat();
        let normal = |bytes: &[u8]| normalise(bytes, &mut Vec::new());
        assert_eq!(normal(&ours), normal(&theirs));
        assert_ne!(normal(&ours), normal(&other));
        assert_eq!(last_unique(&other), Some(6));
    }

    #[test]
    fn an_answer_cut_short_keeps_all_its_bytes() {
        for len in 0..30 {
            let bytes = &answer(1, 0, b"abcdef")[..len];
            assert_eq!(normalise(bytes, &mut Vec::new()), bytes);
        }
    }

    #[test]
    fn requests_end_where_their_headers_say() {
        let (request, answer) = noop(7);
        assert_eq!(answer, answer_of_noop());
        let mut long = request.clone();
        long[11] = 1;
        for (bytes, whole) in [
            (&b""[..], true),
            (&request, true),
            (&request[..5], false),
            (&request[..23], false),
            (&long, false),
            (&[&long[..], b"x", &request].concat(), true),
            (&answer, false),
        ] {
            assert_eq!(ends_whole(bytes), whole, "{bytes:?}");
        }
    }

    fn answer_of_noop() -> Vec<u8> {
        let mut bytes = answer(NOOP, 0, b"");
        bytes[15] = 7;
        bytes
    }

    #[test]
    fn marks_are_filled_in() {
        let mut frame = Frame::new(0x01, &[0; 8], b"a", b"x");
        frame.cas = mark(1);
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        let filled = fill_in(&bytes, &[None, Some(0x0102)]);
        assert_eq!(filled[CAS_AT], 0x0102_u64.to_be_bytes());
        assert_eq!(fill_in(&bytes, &[Some(3)]), bytes, "of another connection");
    }
}
