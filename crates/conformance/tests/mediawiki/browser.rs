//! A browser as far as a wiki needs one: pages, forms, and cookies kept between them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::wiki::{ADMIN, PASSWORD, SESSION_COOKIE, VISITOR_COOKIE};

/// How long the wiki may take for one page. It interprets a few hundred files for each.
const PAGE_DEADLINE: Duration = Duration::from_secs(60);

/// Browsers so far.
static VISITORS: AtomicUsize = AtomicUsize::new(0);

/// A page as it came.
#[derive(Debug)]
pub struct Page {
    pub status: u16,
    pub body: String,
}

/// One user of the wiki.
pub struct Browser {
    wiki: SocketAddr,
    cookies: BTreeMap<String, String>,
    requests: usize,
    /// Number of this browser among all.
    visitor: usize,
}

impl Browser {
    pub fn new(wiki: SocketAddr) -> Browser {
        Browser {
            wiki,
            cookies: BTreeMap::new(),
            requests: 0,
            visitor: VISITORS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The page of that title; `more` is the rest of the query, such as `&action=history`.
    pub fn page(&mut self, title: &str, more: &str) -> Page {
        self.request("GET", &format!("/index.php?title={title}{more}"), None)
    }

    /// A call of the wiki's API. The answer is JSON, or the test fails with what came instead.
    pub fn api(&mut self, fields: &[(&str, &str)]) -> Value {
        let mut form = String::from("format=json&formatversion=2");
        for (name, value) in fields {
            write!(form, "&{name}={}", escaped(value)).expect("a string takes all text");
        }
        let page = self.request("POST", "/api.php", Some(&form));
        assert_eq!(page.status, 200, "{fields:?}: {}", page.body);
        serde_json::from_str(&page.body)
            .unwrap_or_else(|error| panic!("{fields:?}: {error}: {}", page.body))
    }

    /// Logs in as the administrator, not to be remembered beyond the session. False if the wiki did not
    /// keep that.
    pub fn log_in(&mut self) -> bool {
        self.cookies.clear();
        let token = self.token("login");
        let answer = self.api(&[
            ("action", "clientlogin"),
            ("username", ADMIN),
            ("password", PASSWORD),
            ("logintoken", &token),
            ("loginreturnurl", "http://127.0.0.1/"),
        ]);
        answer["clientlogin"]["status"] == "PASS" && self.is_logged_in()
    }

    /// What it has asked for so far: pages, and calls of the API.
    pub fn requests(&self) -> usize {
        self.requests
    }

    pub fn is_logged_in(&mut self) -> bool {
        let answer = self.api(&[("action", "query"), ("meta", "userinfo")]);
        answer["query"]["userinfo"]["name"] == ADMIN
    }

    /// What the wiki knows this browser by.
    pub fn session(&self) -> &str {
        &self.cookies[SESSION_COOKIE]
    }

    /// Stores a page's text.
    pub fn edit(&mut self, title: &str, text: &str, summary: &str) {
        let token = self.token("csrf");
        let answer = self.api(&[
            ("action", "edit"),
            ("title", title),
            ("text", text),
            ("summary", summary),
            ("token", &token),
            ("assert", "user"),
        ]);
        assert_eq!(answer["edit"]["result"], "Success", "{title}: {answer}");
    }

    fn token(&mut self, kind: &str) -> String {
        let answer = self.api(&[("action", "query"), ("meta", "tokens"), ("type", kind)]);
        let token = &answer["query"]["tokens"][format!("{kind}token")];
        token
            .as_str()
            .unwrap_or_else(|| panic!("there is a {kind} token in {answer}"))
            .to_owned()
    }

    fn request(&mut self, method: &str, target: &str, form: Option<&str>) -> Page {
        self.requests += 1;
        let wiki = self.wiki;
        let mut head = format!("{method} {target} HTTP/1.0\r\nHost: {wiki}\r\n");
        let visitor = format!("{VISITOR_COOKIE}={}", self.visitor);
        let kept = self.cookies.iter().map(|(n, v)| format!("{n}={v}"));
        let cookies: Vec<String> = kept.chain([visitor]).collect();
        write!(head, "Cookie: {}\r\n", cookies.join("; ")).expect("a string takes all text");
        if let Some(form) = form {
            let len = form.len();
            write!(
                head,
                "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len}\r\n"
            )
            .expect("a string takes all text");
        }
        let text = format!("{head}\r\n{}", form.unwrap_or_default());
        let answer = exchange(wiki, &text)
            .unwrap_or_else(|error| panic!("{method} {target}: the wiki does not answer: {error}"));
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("{method} {target}: not HTTP: {answer}"));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        self.keep_cookies(head);
        Page {
            status: status.unwrap_or_else(|| panic!("{method} {target}: no status in {head}")),
            body: body.to_owned(),
        }
    }

    fn keep_cookies(&mut self, head: &str) {
        for line in head.lines() {
            let Some((name, value)) = line.split_once(": ") else {
                continue;
            };
            if name.eq_ignore_ascii_case("set-cookie")
                && let Some((name, value)) = value.split(';').next().and_then(|c| c.split_once('='))
            {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}

fn exchange(address: SocketAddr, text: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PAGE_DEADLINE)?;
    stream.set_read_timeout(Some(PAGE_DEADLINE))?;
    stream.write_all(text.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A value as a form sends it.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for &byte in text.as_bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("a string takes all text");
        }
    }
    out
}
