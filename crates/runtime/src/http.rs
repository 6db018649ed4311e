//! A port that answers GET requests of probes and scrapers.
//!
//! One thread serves one request after another: those who ask are a supervisor and a scraper, every few
//! seconds. A library with an async runtime was rejected for that; what is needed of HTTP is a request
//! line. Anyone who asks slowly is cut off after [`REQUEST_TIME`] in all, so the next one waits no longer.

use crate::UsageError;
use crate::spawn_named;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest request that is read, in bytes.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// How long reading a request, and then writing its answer, may take.
const REQUEST_TIME: Duration = Duration::from_secs(2);

/// What a path answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// 200, or 503 for what is not well.
    pub status: u16,
    /// What the body is.
    pub kind: PageKind,
    /// Text of that kind.
    pub body: String,
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Plain text, or Prometheus's.
    Text,
    /// JSON.
    Json,
}

impl PageKind {
    fn content_type(self) -> &'static str {
        match self {
            PageKind::Text => "text/plain; version=0.0.4; charset=utf-8",
            PageKind::Json => "application/json",
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
    /// Listens, and answers each path with what `pages` gives for it; `None` is 404.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn start(
        address: SocketAddr,
        pages: impl Fn(&str) -> Option<Page> + Send + 'static,
    ) -> Result<HttpPort, UsageError> {
        let fail = |error: io::Error| UsageError(format!("failed to listen on {address}: {error}"));
        let listener = TcpListener::bind(address).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = spawn_named("http".into(), move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                // Whatever goes wrong with one request concerns its sender alone.
                match stream.and_then(|stream| answer(stream, &pages)) {
                    Ok(()) => {}
                    // Descriptors ran out: not again at once.
                    Err(error) if error.raw_os_error().is_some() => {
                        std::thread::park_timeout(crate::EXHAUSTED_PAUSE);
                    }
                    Err(_) => {}
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

fn answer(mut stream: TcpStream, pages: &impl Fn(&str) -> Option<Page>) -> io::Result<()> {
    let head = read_head(&mut stream)?;
    let page = |status, body: &str| Page {
        status,
        kind: PageKind::Text,
        body: body.to_owned(),
    };
    let page = match request_path(&head) {
        Ok(path) => pages(path).unwrap_or_else(|| page(404, "no such path\n")),
        Err(status) => page(status, "only GET is answered here\n"),
    };
    let reason = match page.status {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        503 => "Service Unavailable",
        _ => "Bad Request",
    };
    let text = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{}",
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

/// The path of a GET request, without its query; or the status that says what is wrong.
fn request_path(head: &[u8]) -> Result<&str, u16> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| 400u16)?;
    let mut words = line.split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some(target), Some(version)) if version.starts_with("HTTP/1.") => {
            Ok(target.split('?').next().unwrap_or(target))
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

    #[test]
    fn paths_are_answered_one_after_another_until_the_end() {
        let address = "127.0.0.1:0".parse().expect("an address");
        let port = HttpPort::start(address, |path| {
            (path == "/healthz").then(|| Page {
                kind: PageKind::Text,
                status: 200,
                body: "ok\n".into(),
            })
        })
        .expect("a free port");
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
}
