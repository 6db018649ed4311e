//! Where a thread's requests come from: generated, a fill of all keys, or a trace shared by all.

use crate::Source;
use evenkeel_workload::trace::{TraceError, TraceReader, TraceRequest};
use evenkeel_workload::{KeyList, Operation, Workload, WorkloadError, WorkloadStream};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Requests of a trace that a thread takes at a time: few locks, and still nearly the trace's order.
const TRACE_BATCH_LEN: usize = 64;

/// A request to be sent; its keys are in the caller's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    pub(crate) operation: Operation,
    /// Size of the value, where the source tells it.
    pub(crate) value_len: Option<u32>,
    /// Time to live in seconds, where the source tells it.
    pub(crate) ttl_s: Option<u32>,
}

impl Draw {
    /// A request of a source that leaves sizes to the plan.
    fn of(operation: Operation) -> Self {
        Draw {
            operation,
            value_len: None,
            ttl_s: None,
        }
    }
}

/// A source made ready, to be split into a feed for each thread.
pub(crate) enum FeedSource {
    Generated(Workload),
    Fill(Workload),
    Trace(Arc<SharedTrace>),
}

/// Why a source cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    #[error(transparent)]
    Trace(#[from] TraceError),
}

impl FeedSource {
    pub(crate) fn open(source: &Source) -> Result<Self, SourceError> {
        Ok(match source {
            Source::Generated(spec) => FeedSource::Generated(spec.build()?),
            Source::Fill(spec) => FeedSource::Fill(spec.build()?),
            Source::Trace {
                path,
                format,
                repeat,
            } => {
                let reader = TraceReader::open(path, *format)?;
                let position = TracePosition {
                    reader,
                    ended: false,
                    request: TraceRequest::default(),
                };
                let trace = SharedTrace {
                    repeat: *repeat,
                    position: Mutex::new(position),
                };
                FeedSource::Trace(Arc::new(trace))
            }
        })
    }

    /// The feed of thread `thread` of `threads`.
    pub(crate) fn feed(&self, thread: usize, threads: usize) -> Feed {
        match self {
            FeedSource::Generated(workload) => Feed::Generated(workload.stream(thread, threads)),
            FeedSource::Fill(workload) => Feed::Fill {
                ids: workload.fill(thread, threads),
                workload: workload.clone(),
            },
            FeedSource::Trace(trace) => Feed::Trace {
                trace: Arc::clone(trace),
                batch: Batch::default(),
                generation: 0,
            },
        }
    }
}

/// A thread's requests.
pub(crate) enum Feed {
    Generated(WorkloadStream),
    Fill {
        ids: Range<u64>,
        workload: Workload,
    },
    Trace {
        trace: Arc<SharedTrace>,
        batch: Batch,
        generation: u64,
    },
}

impl Feed {
    /// The next request of a load that began `now_ns` ago, its keys appended to `list`; `None` when
    /// the source has ended.
    pub(crate) fn next(
        &mut self,
        now_ns: u64,
        list: &mut KeyList,
    ) -> Result<Option<Draw>, TraceError> {
        match self {
            Feed::Generated(stream) => Ok(Some(Draw::of(stream.next_keys(now_ns, list)))),
            Feed::Fill { ids, workload } => Ok(ids.next().map(|id| {
                list.push_with(|bytes| workload.write_key(id, bytes));
                Draw::of(Operation::Set)
            })),
            Feed::Trace {
                trace,
                batch,
                generation,
            } => {
                if batch.next == batch.draws.len() {
                    trace.fill(batch)?;
                }
                let Some(&draw) = batch.draws.get(batch.next) else {
                    return Ok(None);
                };
                list.push_with(|bytes| {
                    bytes.extend_from_slice(batch.keys.get(batch.next));
                    if *generation > 0 {
                        // Traces leave room for it: TRACE_KEY_LEN_MAX is below KEY_LEN_MAX.
                        bytes.push(b'~');
                        bytes.extend_from_slice(itoa::Buffer::new().format(*generation).as_bytes());
                    }
                });
                batch.next += 1;
                Ok(Some(draw))
            }
        }
    }

    /// Makes other keys hot: another permutation of generated keys, or the keys of the trace under
    /// other names. Generation 0 is where a feed starts.
    pub(crate) fn switch_to(&mut self, to: u64) {
        match self {
            Feed::Generated(stream) => stream.switch_to(to),
            Feed::Fill { .. } => {}
            Feed::Trace { generation, .. } => *generation = to,
        }
    }
}

/// Requests taken from a trace and not yet sent.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    keys: KeyList,
    draws: Vec<Draw>,
    next: usize,
}

/// A trace that several threads read together.
pub(crate) struct SharedTrace {
    repeat: bool,
    position: Mutex<TracePosition>,
}

struct TracePosition {
    reader: TraceReader,
    ended: bool,
    request: TraceRequest,
}

impl SharedTrace {
    /// Refills a batch; it stays empty at the end of the trace.
    fn fill(&self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.keys.clear();
        batch.draws.clear();
        batch.next = 0;
        // A thread that panicked here left the reader between two requests at worst.
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        let TracePosition {
            reader,
            ended,
            request,
        } = &mut *position;
        while !*ended && batch.draws.len() < TRACE_BATCH_LEN {
            if reader.next_request(request)? {
                batch.keys.push(&request.key);
                batch.draws.push(Draw {
                    operation: match request.operation {
                        // The version that it went with is not in the trace.
                        Operation::Cas => Operation::Set,
                        other => other,
                    },
                    value_len: request.value_len,
                    ttl_s: request.ttl_s,
                });
            } else if self.repeat {
                reader.rewind()?;
            } else {
                *ended = true;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(content: &str, repeat: bool) -> (tempfile::TempDir, FeedSource) {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("trace.txt");
        std::fs::write(&path, content).unwrap();
        let source = FeedSource::open(&Source::Trace {
            path,
            format: None,
            repeat,
        })
        .unwrap();
        (folder, source)
    }

    fn draw(feed: &mut Feed) -> Option<(Operation, Vec<String>)> {
        let mut list = KeyList::default();
        let draw = feed.next(0, &mut list).unwrap()?;
        let keys = (0..list.len()).map(|i| String::from_utf8_lossy(list.get(i)).into_owned());
        Some((draw.operation, keys.collect()))
    }

    fn key(feed: &mut Feed) -> Option<String> {
        draw(feed).map(|(_, keys)| keys.concat())
    }

    #[test]
    fn threads_share_a_trace_and_each_request_is_sent_once() {
        let content: String = (0..1000).map(|n| format!("k{n}\n")).collect();
        let (_folder, source) = trace(&content, false);
        let mut feeds = [source.feed(0, 2), source.feed(1, 2)];
        let mut seen = Vec::new();
        while let (Some(one), two) = (key(&mut feeds[0]), key(&mut feeds[1])) {
            seen.push(one);
            seen.extend(two);
        }
        while let Some(rest) = key(&mut feeds[1]) {
            seen.push(rest);
        }
        seen.sort();
        let mut all: Vec<String> = content.lines().map(str::to_owned).collect();
        all.sort();
        assert_eq!(seen, all);
    }

    #[test]
    fn a_repeated_trace_goes_on_and_a_switch_renames_its_keys() {
        let (_folder, source) = trace("a\nb\n", true);
        let mut feed = source.feed(0, 1);
        let first: Vec<String> = (0..5).filter_map(|_| key(&mut feed)).collect();
        assert_eq!(first, ["a", "b", "a", "b", "a"]);
        feed.switch_to(2);
        assert_eq!(key(&mut feed).unwrap(), "b~2");
        feed.switch_to(0);
        assert_eq!(key(&mut feed).unwrap(), "a");
    }

    #[test]
    fn a_fill_covers_every_key_once_over_all_threads() {
        let spec = "keys=100 prefix=k key-size=4".parse().unwrap();
        let source = FeedSource::open(&Source::Fill(spec)).unwrap();
        let mut seen = Vec::new();
        for thread in 0..3 {
            let mut feed = source.feed(thread, 3);
            while let Some((operation, mut keys)) = draw(&mut feed) {
                assert_eq!(operation, Operation::Set);
                seen.append(&mut keys);
            }
        }
        let all: Vec<String> = (0..100).map(|n| format!("k{n:03}")).collect();
        assert_eq!(seen, all);
    }

    #[test]
    fn a_multiget_has_its_keys_and_a_set_has_one() {
        let spec = "keys=100 mix=mix(get=1, set=1) multiget=5".parse().unwrap();
        let source = FeedSource::open(&Source::Generated(spec)).unwrap();
        let mut feed = source.feed(0, 1);
        for _ in 0..100 {
            let (operation, keys) = draw(&mut feed).unwrap();
            assert_eq!(keys.len(), if operation == Operation::Get { 5 } else { 1 });
        }
    }
}
