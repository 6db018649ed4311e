//! Requests that were drawn and encoded before a load begins, to be sent round and round.
//!
//! Drawing a key, writing its name and encoding it costs a generator more than the kernel takes to send it
//! under pipelines. Done beforehand, it costs the load nothing. Connections begin at different places of the
//! ring; what a connection has in flight is a range of it.

use super::encode::Encoder;
use super::request::Request;
use crate::{LoadPlan, Protocol};
use evenkeel_workload::{Operation, Workload};
use memchr::memchr2;
use std::sync::Arc;

/// Bytes of requests that are made beforehand. Far more than the caches of a core, and many times the
/// requests in flight, so that the keys in them are as good as drawn afresh.
const RING_BYTES: usize = 32 << 20;

/// What is to be known of a request without a look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A get of one key.
    Get,
    /// A get of several keys.
    MultiGet,
    /// A set.
    Set,
    /// Any other, which has no values in its answer.
    Other(Operation),
}

impl Kind {
    #[inline]
    pub(crate) fn is_read(self) -> bool {
        matches!(self, Kind::Get | Kind::MultiGet)
    }

    pub(crate) fn operation(self) -> Operation {
        match self {
            Kind::Get | Kind::MultiGet => Operation::Get,
            Kind::Set => Operation::Set,
            Kind::Other(operation) => operation,
        }
    }
}

/// The bytes around the keys of a get, in a dialect.
#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Before the first key.
    before: usize,
    /// Between two.
    between: usize,
    /// Behind the last.
    behind: usize,
}

impl Frame {
    /// `get KEY KEY`, or `mg KEY v` for each key.
    fn of(protocol: Protocol) -> Frame {
        match protocol {
            Protocol::Meta => Frame {
                before: "mg ".len(),
                between: " v\r\nmg ".len(),
                behind: " v\r\n".len(),
            },
            _ => Frame {
                before: "get ".len(),
                between: " ".len(),
                behind: "\r\n".len(),
            },
        }
    }
}

/// The requests.
pub(crate) struct Ring {
    bytes: Vec<u8>,
    /// Where each request begins; then where the last one ends.
    starts: Vec<u32>,
    kinds: Vec<Kind>,
    frame: Frame,
}

impl Ring {
    /// Draws and encodes the requests of a plan, as many as the plan will send or as fill
    /// [`RING_BYTES`]. The plan has been validated.
    pub(crate) fn new(plan: &Arc<LoadPlan>, workload: &Workload) -> Ring {
        let most = match plan.stop.requests {
            Some(requests) => usize::try_from(requests).unwrap_or(usize::MAX).max(1),
            None => usize::MAX,
        };
        let mut ring = Ring {
            bytes: Vec::with_capacity(RING_BYTES),
            starts: vec![0],
            kinds: Vec::new(),
            frame: Frame::of(plan.protocol),
        };
        let mut stream = workload.stream(0, 1);
        let mut encoder = Encoder::new(plan, 0);
        let mut request = Request::default();
        while ring.bytes.len() < RING_BYTES && ring.kinds.len() < most {
            request.reset(0);
            request.operation = stream.next_keys(0, &mut request.keys);
            encoder.encode(&request, None, &mut ring.bytes);
            let end = u32::try_from(ring.bytes.len());
            ring.starts
                .push(end.expect("RING_BYTES and one request are below 4 GiB"));
            ring.kinds.push(match request.operation {
                Operation::Get if request.keys.len() == 1 => Kind::Get,
                Operation::Get => Kind::MultiGet,
                Operation::Set => Kind::Set,
                other => Kind::Other(other),
            });
        }
        ring
    }

    /// How many requests there are: at least one.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// All requests, one behind the other.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The request behind another one.
    #[inline]
    pub(crate) fn behind(&self, index: usize, count: usize) -> usize {
        let next = index + count;
        if next < self.len() {
            next
        } else {
            next - self.len()
        }
    }

    #[inline]
    pub(crate) fn kind(&self, index: usize) -> Kind {
        self.kinds[index]
    }

    /// The bytes of a request.
    #[inline]
    pub(crate) fn request(&self, index: usize) -> &[u8] {
        &self.bytes[self.starts[index] as usize..self.starts[index + 1] as usize]
    }

    /// Where this many requests from `index` on lie, which must not reach past the last.
    #[inline]
    pub(crate) fn range(&self, index: usize, count: usize) -> std::ops::Range<usize> {
        self.starts[index] as usize..self.starts[index + count] as usize
    }

    /// How many of `count` requests from `index` on lie together in this many bytes: none only where none is
    /// wanted.
    #[inline]
    pub(crate) fn together(&self, index: usize, count: usize, bytes_max: usize) -> usize {
        let count = count.min(self.len() - index);
        if self.range(index, count).len() <= bytes_max {
            return count;
        }
        let starts = &self.starts[index + 1..=index + count];
        let end_max = self.starts[index] as usize + bytes_max;
        starts
            .partition_point(|&end| end as usize <= end_max)
            .max(1)
    }

    /// The key of a get of one key.
    #[inline]
    pub(crate) fn only_key(&self, index: usize) -> &[u8] {
        let request = self.request(index);
        &request[self.frame.before..request.len() - self.frame.behind]
    }

    /// Where the first key of a get is.
    #[inline]
    pub(crate) fn first_key_at(&self) -> usize {
        self.frame.before
    }

    /// The key of a get that begins this many bytes behind the get's beginning, and where the next one begins;
    /// the get's length behind the last.
    #[inline]
    pub(crate) fn key_at(&self, index: usize, at: usize) -> (&[u8], usize) {
        let request = self.request(index);
        let last = request.len() - self.frame.behind;
        let end = match self.kinds[index] {
            // A key holds neither, and one of them follows it.
            Kind::MultiGet => memchr2(b' ', b'\r', &request[at..]).map_or(last, |len| at + len),
            _ => last,
        };
        let next = if end < last {
            end + self.frame.between
        } else {
            request.len()
        };
        (&request[at..end], next)
    }

    /// The keys of a get.
    pub(crate) fn keys(&self, index: usize) -> impl Iterator<Item = &[u8]> {
        let mut at = self.frame.before;
        std::iter::from_fn(move || {
            (at < self.request(index).len()).then(|| {
                let (key, next) = self.key_at(index, at);
                at = next;
                key
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Source, Target};
    use evenkeel_workload::{KeyList, WorkloadSpec};

    fn plan(workload: &str, protocol: Protocol, requests: u64) -> (Arc<LoadPlan>, Workload) {
        let spec: WorkloadSpec = workload.parse().unwrap();
        let target: Target = "127.0.0.1:1".parse().unwrap();
        let mut plan = LoadPlan::new(target, Source::Generated(spec.clone()));
        plan.protocol = protocol;
        plan.stop.requests = Some(requests);
        (Arc::new(plan), spec.build().unwrap())
    }

    #[test]
    fn the_requests_are_those_that_would_be_drawn() {
        let workload = "keys=500 key-size=12..40 value-size=0..300 ttl=60s multiget=geometric(0.4, 9) \
                        mix=mix(get=5, set=2, delete=1, touch=1, add=1, append=1)";
        for protocol in [Protocol::Classic, Protocol::Meta] {
            let (plan, drawn) = plan(workload, protocol, 2000);
            let ring = Ring::new(&plan, &drawn);
            assert_eq!(ring.len(), 2000);
            let mut stream = drawn.stream(0, 1);
            let mut encoder = Encoder::new(&plan, 0);
            let (mut several, mut bytes) = (0, Vec::new());
            for index in 0..ring.len() {
                let mut request = Request::default();
                request.operation = stream.next_keys(0, &mut request.keys);
                let from = bytes.len();
                encoder.encode(&request, None, &mut bytes);
                assert_eq!(ring.request(index), &bytes[from..], "{index}");
                if request.operation == Operation::Get {
                    let mut keys = KeyList::default();
                    ring.keys(index).for_each(|key| keys.push(key));
                    assert!(keys.iter().eq(request.keys.iter()), "{index}");
                    several += usize::from(keys.len() > 1);
                    assert_eq!(ring.kind(index) == Kind::MultiGet, keys.len() > 1);
                }
                assert_eq!(ring.kind(index).is_read(), request.is_read());
            }
            assert_eq!(ring.bytes(), bytes);
            assert!(several > 100, "{several} multigets");
        }
    }

    #[test]
    fn requests_lie_together_up_to_the_end_and_a_limit() {
        let (plan, drawn) = plan("keys=9 value-size=0..5000", Protocol::Classic, 100);
        let ring = Ring::new(&plan, &drawn);
        for index in 0..ring.len() {
            for count in [0, 1, 7, 200] {
                for bytes_max in [0, 100, 6000, 1 << 20] {
                    // One by one.
                    let mut wanted = 0;
                    while wanted < count
                        && index + wanted < ring.len()
                        && (wanted == 0 || ring.range(index, wanted + 1).len() <= bytes_max)
                    {
                        wanted += 1;
                    }
                    assert_eq!(ring.together(index, count, bytes_max), wanted);
                }
            }
        }
        assert_eq!(ring.behind(98, 1), 99);
        assert_eq!(ring.behind(98, 2), 0);
    }

    #[test]
    fn a_ring_is_as_large_as_it_says() {
        let (plan, drawn) = plan(
            "keys=9 value-size=100000 mix=mix(set=1)",
            Protocol::Meta,
            u64::MAX,
        );
        let ring = Ring::new(&plan, &drawn);
        let len = ring.bytes().len();
        assert!((RING_BYTES..RING_BYTES + 200_000).contains(&len), "{len}");
    }
}
