//! A port that answers GET requests of probes, scrapers and a browser.
//!
//! Those who ask are a supervisor, a scraper and anyone who looks at a page, every few seconds, and each gets a thread of its own, since
//! browsers open connections that they say nothing on. A library with an async runtime was rejected for that; what is needed of HTTP is a
//! request line. Anyone who asks slowly is cut off after [`REQUEST_TIME`] in all. Who comes while [`REQUESTS_MAX`] are being answered
//! waits until one is.

use crate::UsageError;
use crate::spawn_named;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest request that is read, in bytes.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Requests that are answered at a time. More wait, in the kernel's queue of the port.
const REQUESTS_MAX: usize = 16;

/// How long reading a request, and then writing its answer, may take.
const REQUEST_TIME: Duration = Duration::from_secs(2);

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRequest<'r> {
    /// What is asked for.
    pub path: &'r str,
    /// What stands behind its `?`; empty without one.
    pub query: &'r str,
    /// By which name: the first `Host`; empty without one.
    pub host: &'r str,
}

/// What a path answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// 200, or 503 for what is not well.
    pub status: u16,
    /// What the body is.
    pub kind: PageKind,
    /// Text of that kind.
    pub body: String,
    /// Further headers: names and values.
    pub headers: &'static [(&'static str, &'static str)],
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Plain text, or Prometheus's.
    Text,
    /// JSON.
    Json,
    /// A file of this content type.
    File(&'static str),
}

impl PageKind {
    fn content_type(self) -> &'static str {
        match self {
            PageKind::Text => "text/plain; version=0.0.4; charset=utf-8",
            PageKind::Json => "application/json",
            PageKind::File(kind) => kind,
        }
    }
}

/// The thread that answers; ended by [`HttpPort::stop`].
#[derive(Debug)]
pub struct HttpPort {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl HttpPort {
    /// Listens, and answers each request with what `pages` gives for it; `None` is 404.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn start(
        address: SocketAddr,
        pages: impl Fn(&PageRequest<'_>) -> Option<Page> + Send + Sync + 'static,
    ) -> Result<HttpPort, UsageError> {
        let fail = |error: io::Error| UsageError(format!("failed to listen on {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let pages = Arc::new(pages);
        let seats = Arc::new(Seats::default());
        let thread = spawn_named("http".into(), move || {
            loop {
                let seat = Seats::take(&seats);
                let stream = listener.accept();
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                let pages = Arc::clone(&pages);
                let answered = stream.and_then(|(stream, _)| {
                    spawn_named("http".into(), move || {
                        let _until_it_is_answered = seat;
                        // Whatever goes wrong with one request concerns its sender alone.
                        let _ = answer(stream, &*pages);
                    })
                });
                if answered.is_err() {
                    // Descriptors or threads ran out: not again at once.
                    std::thread::park_timeout(crate::EXHAUSTED_PAUSE);
                }
            }
        })
        .map_err(fail)?;
        Ok(HttpPort {
            address,
            stop,
            thread,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the thread.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Release);
        // The thread waits for a connection; this is one. If none can be made, it is left to the end
        // of the process.
        let mut here = self.address;
        if here.ip().is_unspecified() {
            here.set_ip(match here {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        if TcpStream::connect_timeout(&here, REQUEST_TIME).is_ok() {
            let _ = self.thread.join();
        }
    }
}

/// How many requests are being answered.
#[derive(Debug, Default)]
struct Seats {
    taken: Mutex<usize>,
    is_left: Condvar,
}

/// One of them, until it is dropped.
struct Seat(Arc<Seats>);

impl Seats {
    /// Waits until one is free.
    fn take(seats: &Arc<Seats>) -> Seat {
        let taken = seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |taken: &mut usize| *taken >= REQUESTS_MAX;
        let mut taken =
            (seats.is_left.wait_while(taken, is_full)).unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        Seat(Arc::clone(seats))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.is_left.notify_one();
    }
}

impl Page {
    /// Plain text.
    pub fn text(status: u16, body: impl Into<String>) -> Page {
        Page::of(status, PageKind::Text, body)
    }

    /// Text of a kind.
    pub fn of(status: u16, kind: PageKind, body: impl Into<String>) -> Page {
        Page {
            status,
            kind,
            body: body.into(),
            headers: &[],
        }
    }
}

fn answer(
    mut stream: TcpStream,
    pages: &impl Fn(&PageRequest<'_>) -> Option<Page>,
) -> io::Result<()> {
    let head = read_head(&mut stream)?;
    let page = match request(&head) {
        Ok(request) => pages(&request).unwrap_or_else(|| Page::text(404, "no such path\n")),
        Err(status) => Page::text(status, "only GET is answered here\n"),
    };
    let reason = match page.status {
        200 => "OK",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        503 => "Service Unavailable",
        _ => "Bad Request",
    };
    let more = page.headers.iter();
    let more: String = more
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let text = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\n\
         Content-Length: {}\r\n{more}Connection: close\r\n\r\n{}",
        page.status,
        page.kind.content_type(),
        page.body.len(),
        page.body
    );
    stream.set_write_timeout(Some(REQUEST_TIME))?;
    stream.write_all(text.as_bytes())
}

/// Reads up to the empty line behind the headers.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let end = Instant::now() + REQUEST_TIME;
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() >= REQUEST_BYTES_MAX {
            return Err(io::Error::new(ErrorKind::TimedOut, "no whole request"));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(head)
}

/// What a GET request asks for; or the status that says what is wrong.
fn request(head: &[u8]) -> Result<PageRequest<'_>, u16> {
    let head = std::str::from_utf8(head).map_err(|_| 400u16)?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some(target), Some(version)) if version.starts_with("HTTP/1.") => {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let mut headers = lines.filter_map(|line| line.split_once(':'));
            let host = headers.find(|(name, _)| name.eq_ignore_ascii_case("host"));
            Ok(PageRequest {
                path,
                query,
                host: host.map_or("", |(_, value)| value.trim()),
            })
        }
        (Some(_), Some(_), Some(version)) if version.starts_with("HTTP/1.") => Err(405),
        _ => Err(400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }

    /// `/healthz` is well, and `/echo` says what it was asked.
    fn port() -> HttpPort {
        let address = "127.0.0.1:0".parse().expect("an address");
        let port = HttpPort::start(address, |request| match request.path {
            "/healthz" => Some(Page::text(200, "ok\n")),
            "/echo" => Some(Page {
                headers: &[("x-more", "yes")],
                ..Page::of(
                    403,
                    PageKind::File("text/x"),
                    format!("{} {}", request.query, request.host),
                )
            }),
            _ => None,
        });
        port.expect("a free port")
    }

    #[test]
    fn paths_are_answered_until_the_end() {
        let port = port();
        let here = port.address();
        for (request, status) in [
            ("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 "),
            ("GET /healthz?x=1 HTTP/1.0\r\n\r\n", "HTTP/1.1 200 "),
            ("GET /nowhere HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "),
            ("POST /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 405 "),
            ("nonsense\r\n\r\n", "HTTP/1.1 400 "),
        ] {
            let answer = ask(here, request);
            assert!(answer.starts_with(status), "{request}: {answer}");
        }
        // One that leaves without a request keeps nobody from the next answer.
        drop(TcpStream::connect(here).expect("it listens"));
        assert!(ask(here, "GET /healthz HTTP/1.1\r\n\r\n").ends_with("\r\n\r\nok\n"));
        port.stop();
        assert!(TcpStream::connect(here).is_err(), "nobody listens any more");
    }

    #[test]
    fn a_page_is_told_the_query_and_the_host() {
        let port = port();
        let request =
            "GET /echo?a=1&b HTTP/1.1\r\nAccept: */*\r\nhOST:  h:1 \r\nHost: other\r\n\r\n";
        let answer = ask(port.address(), request);
        assert_eq!(
            answer,
            "HTTP/1.1 403 Forbidden\r\nContent-Type: text/x\r\nContent-Length: 9\r\nx-more: yes\r\nConnection: close\r\n\r\na=1&b h:1"
        );
        port.stop();
    }

    #[test]
    fn connections_on_which_nothing_is_said_keep_nobody_from_an_answer() {
        let port = port();
        let silent: Vec<TcpStream> = (1..REQUESTS_MAX)
            .map(|_| TcpStream::connect(port.address()).expect("it listens"))
            .collect();
        let answer = ask(port.address(), "GET /healthz HTTP/1.1\r\n\r\n");
        assert!(answer.ends_with("ok\n"), "{answer}");
        // One more than are answered at a time: it waits until they are given up.
        let one_more = TcpStream::connect(port.address()).expect("it listens");
        assert!(ask(port.address(), "GET /healthz HTTP/1.1\r\n\r\n").ends_with("ok\n"));
        drop((silent, one_more));
        port.stop();
    }
}
