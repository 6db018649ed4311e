//! What a process says while it runs: one line an event on standard error, with a time, a level and fields.
//!
//! Libraries say it by the macros of `tracing`; [`LogOptions::start`] has it written. An event that repeats within
//! [`FOLDED_FOR`] is written a few times, and then how often it came again: a client that is refused a thousand times a minute
//! is six lines.
//!
//! ```text
//! 2026-11-28T17:44:31.128054Z WARN evenkeel proxy: server is down pool=main server=cache1:11211 cause="connection refused"
//! ```

use clap::{ArgAction, ValueEnum};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// How long an event that comes again is only counted.
pub const FOLDED_FOR: Duration = Duration::from_secs(60);

/// So often it is written before: who reloads a file twice sees two lines.
const WRITTEN_MAX: u64 = 5;

/// Different events whose repeats are counted at a time; those beyond are written each time.
const FOLDED_MAX: usize = 256;

/// How the log of a process is written.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct LogOptions {
    /// Lines for people, or a JSON object a line
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        env = "EVENKEEL_LOG_FORMAT",
        default_value_t = LogFormat::Text
    )]
    pub log_format: LogFormat,

    /// The least important events that are logged
    #[arg(
        long,
        value_name = "LEVEL",
        value_enum,
        env = "EVENKEEL_LOG_LEVEL",
        default_value_t = LogLevel::Info
    )]
    pub log_level: LogLevel,

    /// Log single connections, too: --log-level debug
    #[arg(short = 'v', long, action = ArgAction::Count)]
    pub verbose: u8,
}

/// How an event is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// `TIME LEVEL PROGRAM: MESSAGE NAME=VALUE…`
    #[default]
    Text,
    /// An object with `time`, `level`, `program`, `message` and the fields.
    Json,
}

/// How important events are that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum LogLevel {
    /// The process cannot do its work.
    Error,
    /// Somebody should look.
    Warn,
    /// What has changed.
    #[default]
    Info,
    /// What happened to single connections.
    Debug,
}

impl LogOptions {
    /// Has everything written from now on that this process says. `program` is what it calls itself, as in
    /// `evenkeel proxy`. A second call in a process changes nothing.
    pub fn start(self, program: &'static str) {
        let lines = Lines {
            program,
            format: self.log_format,
            folds: Mutex::default(),
        };
        let level = match self.log_level {
            _ if self.verbose > 0 => LevelFilter::DEBUG,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
        };
        // Fails where there is one already.
        let _ = tracing_subscriber::registry()
            .with(lines.with_filter(level))
            .try_init();
    }
}

/// What one event says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Said {
    level: Level,
    message: String,
    fields: Vec<(&'static str, Value)>,
}

impl Visit for Said {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), value.into()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push((name, format!("{value:?}").into())),
        }
    }
}

/// Writes events to standard error.
#[derive(Debug)]
struct Lines {
    program: &'static str,
    format: LogFormat,
    folds: Mutex<Folds>,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said {
            level: *event.metadata().level(),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut said);
        let mut time = String::new();
        let _ = SystemTime.format_time(&mut Writer::new(&mut time));
        // A map of counts is sound between any two statements.
        let mut folds = self.folds.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = String::new();
        for (said, repeated) in folds.take(Instant::now(), said) {
            lines += &match self.format {
                LogFormat::Text => text(&time, self.program, &said, repeated),
                LogFormat::Json => json(&time, self.program, &said, repeated),
            };
            lines.push('\n');
        }
        // Nobody can be told that standard error is gone.
        let _ = io::stderr().write_all(lines.as_bytes());
    }
}

/// The line of an event, without its end.
fn text(time: &str, program: &str, said: &Said, repeated: u64) -> String {
    let mut line = format!("{time} {} {program}: {}", said.level, said.message);
    for (name, value) in &said.fields {
        let shown = match value {
            Value::String(text) if is_one_word(text) => text.clone(),
            value => value.to_string(),
        };
        let _ = write!(line, " {name}={shown}");
    }
    if repeated > 0 {
        let _ = write!(line, " ({repeated} more in {} s)", FOLDED_FOR.as_secs());
    }
    line
}

/// Whether a value is read as one without quotes.
fn is_one_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\');
    !text.is_empty() && text.bytes().all(is_plain)
}

fn json(time: &str, program: &str, said: &Said, repeated: u64) -> String {
    let mut object = Map::new();
    object.insert("time".into(), time.into());
    object.insert("level".into(), said.level.as_str().into());
    object.insert("program".into(), program.into());
    object.insert("message".into(), said.message.as_str().into());
    for (name, value) in &said.fields {
        object.insert((*name).into(), value.clone());
    }
    if repeated > 0 {
        object.insert("repeated".into(), repeated.into());
    }
    Value::Object(object).to_string()
}

/// Events that came lately: since when, and how often.
#[derive(Debug, Default)]
struct Folds {
    known: HashMap<Said, (Instant, u64)>,
}

impl Folds {
    /// What is to be written now that this was said: repeats whose time is over, with their number, and the event itself, if it is
    /// no repeat. O(events that are known).
    fn take(&mut self, now: Instant, said: Said) -> Vec<(Said, u64)> {
        let is_over = |since: Instant| now.duration_since(since) >= FOLDED_FOR;
        let mut written = Vec::new();
        for (former, (_, times)) in self.known.extract_if(|_, (since, _)| is_over(*since)) {
            if times > WRITTEN_MAX {
                written.push((former, times - WRITTEN_MAX));
            }
        }
        let is_written = match self.known.get_mut(&said) {
            Some((_, times)) => {
                *times += 1;
                *times <= WRITTEN_MAX
            }
            None => {
                if self.known.len() < FOLDED_MAX {
                    self.known.insert(said.clone(), (now, 1));
                }
                true
            }
        };
        if is_written {
            written.push((said, 0));
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(message: &str) -> Said {
        Said {
            level: Level::WARN,
            message: message.into(),
            fields: vec![
                ("server", "cache1:11211".into()),
                ("cause", "no such host".into()),
                ("down_ms", 1_500_u64.into()),
            ],
        }
    }

    #[test]
    fn an_event_is_a_line_or_an_object() {
        let shown = text("T", "evenkeel proxy", &said("server is down"), 0);
        let expected = "T WARN evenkeel proxy: server is down server=cache1:11211 cause=\"no such host\" down_ms=1500";
        assert_eq!(shown, expected);
        let shown = text("T", "evenkeel proxy", &said("server is down"), 37);
        assert_eq!(shown, format!("{expected} (37 more in 60 s)"));
        let shown: Value = serde_json::from_str(&json("T", "p", &said("m"), 2)).unwrap();
        let expected = serde_json::json!({
            "time": "T", "level": "WARN", "program": "p", "message": "m",
            "server": "cache1:11211", "cause": "no such host", "down_ms": 1500, "repeated": 2,
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_value_ends_where_it_seems_to() {
        for hostile in ["", "a b", "a=b", "a\nb", "a\"b", "\u{1b}[2J"] {
            let mut it = said("m");
            it.fields = vec![("key", hostile.into())];
            let shown = text("T", "p", &it, 0);
            let (_, value) = shown.split_once("key=").unwrap();
            assert_eq!(serde_json::from_str::<String>(value).unwrap(), hostile);
            assert!(!shown.contains(['\n', '\u{1b}']), "{shown:?}");
        }
    }

    #[test]
    fn repeats_are_counted_and_told_when_their_time_is_over() {
        let mut folds = Folds::default();
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let told = |written: Vec<(Said, u64)>| -> Vec<(String, u64)> {
            written.into_iter().map(|(it, n)| (it.message, n)).collect()
        };
        let once = |message: &str| vec![(message.to_owned(), 0)];
        for ms in 0..WRITTEN_MAX {
            assert_eq!(told(folds.take(at(ms), said("a"))), once("a"));
        }
        for ms in 11..=47 {
            assert!(folds.take(at(ms), said("a")).is_empty());
        }
        assert_eq!(told(folds.take(at(50), said("b"))), once("b"));
        let later = folds.take(at(60_000), said("a"));
        assert_eq!(told(later), [("a".to_owned(), 37), ("a".to_owned(), 0)]);
        let later = folds.take(at(120_000), said("c"));
        assert_eq!(told(later), once("c"), "nothing came too often");
        assert_eq!(folds.known.len(), 1);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut folds = Folds::default();
        let now = Instant::now();
        for number in 0..2 * FOLDED_MAX {
            assert_eq!(folds.take(now, said(&number.to_string())).len(), 1);
        }
        assert_eq!(folds.known.len(), FOLDED_MAX);
        let last = said(&(2 * FOLDED_MAX - 1).to_string());
        assert_eq!(
            folds.take(now, last).len(),
            1,
            "those beyond are written each time"
        );
    }
}
