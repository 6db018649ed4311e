//! `evenkeel explain KEY`: where a key goes and why, by a configuration alone or as a running proxy
//! sees it.
//!
//! A configuration is asked through a core that nobody connects to; a running proxy by `stats explain
//! KEY` over its ordinary port, so that it needs no other.

mod words;

use crate::args::{Args, Elsewhere, Format};
use crate::clusters::Clusters;
use crate::config::Settings;
use crate::discovery::Discoveries;
use crate::tls::TlsWays;
use anyhow::Context;
use clap::Args as ClapArgs;
use evenkeel_placement::config::{Distribution, HashTag};
use evenkeel_placement::hash::Hash;
use evenkeel_proxy_core::{Explanation, ProxyCore, Revision, Together};
use evenkeel_runtime::{Clock, UsageError, print_line, resolve_server};
use evenkeel_types::Instant;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long connecting to a running proxy may take, and its answer.
const PROXY_PATIENCE: Duration = Duration::from_secs(5);

/// Longest answer line that is read: some times what a key with many servers needs.
const ANSWER_LEN_MAX: u64 = 256 * 1024;

/// Says where keys go through a proxy, and why.
#[derive(Clone, Debug, ClapArgs)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct ExplainArgs {
    /// A proxy that runs, HOST:PORT: also says how the servers are
    #[arg(long, value_name = "ADDR", group = "source")]
    pub proxy: Option<String>,

    /// The file that a proxy is given
    #[arg(
        long,
        value_name = "FILE",
        env = "EVENKEEL_PROXY_CONFIG",
        group = "source"
    )]
    pub config: Option<PathBuf>,

    /// The servers that a proxy is given without a file
    #[arg(
        short = 's',
        long,
        value_name = "SERVER[,SERVER]",
        value_delimiter = ',',
        group = "source"
    )]
    pub servers: Vec<String>,

    /// As the proxy's
    #[arg(long, value_name = "NAME", requires = "servers")]
    pub distribution: Option<Distribution>,

    /// As the proxy's
    #[arg(long, value_name = "NAME", requires = "servers")]
    pub hash: Option<Hash>,

    /// As the proxy's
    #[arg(long, value_name = "PAIR", requires = "servers")]
    pub hash_tag: Option<HashTag>,

    /// As the proxy's
    #[arg(long, value_enum, requires = "servers")]
    pub failover: Option<Elsewhere>,

    /// Says which servers a multi-get of all keys asks, and how many it would ask without copies
    #[arg(long)]
    pub together: bool,

    /// How to say it; JSON is one object a line, one line a key
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// The keys; `-` reads more from standard input, one a line
    #[arg(value_name = "KEY", required = true)]
    pub keys: Vec<String>,
}

/// Who is asked.
enum Source {
    /// A core with the configuration and no connections.
    Core(Box<ProxyCore>),
    /// A connection to a proxy.
    Proxy(BufReader<TcpStream>),
}

/// Explains keys on standard output.
///
/// # Errors
/// [`UsageError`] when a flag or a file cannot be used, or something is no key; the other keys are explained
/// all the same. Others when the proxy does not answer.
pub fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    let mut source = Source::open(args)?;
    let keys = keys(&args.keys)?;
    if args.together {
        let together = source.ask_together(&keys)?.map_err(UsageError)?;
        let text = match args.format {
            Format::Json => serde_json::to_string(&together)?,
            Format::Text => words::together(&together),
        };
        return Ok(print_line(text.trim_end())?);
    }
    let mut refused = Vec::new();
    let mut gap = "";
    for key in &keys {
        match source.ask(key)? {
            Ok(explanation) => {
                let text = match args.format {
                    Format::Json => serde_json::to_string(&explanation)?,
                    Format::Text => format!("{gap}{}", words::text(&explanation)),
                };
                gap = "\n";
                print_line(text.trim_end())?;
            }
            Err(words) => refused.push(format!("{:?}: {words}", String::from_utf8_lossy(key))),
        }
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(UsageError(refused.join("; ")).into()),
    }
}

/// The keys that are named, and for a `-` those of standard input, one a line.
///
/// # Errors
/// That cannot be read.
pub fn keys(named: &[String]) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    for key in named {
        if key != "-" {
            keys.push(key.clone().into_bytes());
            continue;
        }
        for line in std::io::stdin().lock().split(b'\n') {
            let line = line.context("failed to read keys from standard input")?;
            let key = line.strip_suffix(b"\r").unwrap_or(&line);
            if !key.is_empty() {
                keys.push(key.to_vec());
            }
        }
    }
    Ok(keys)
}

/// The words of an error line.
pub fn refusal(line: &[u8]) -> String {
    String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
}

impl Source {
    fn open(args: &ExplainArgs) -> anyhow::Result<Source> {
        if let Some(proxy) = &args.proxy {
            let stream = connect(proxy, PROXY_PATIENCE, PROXY_PATIENCE)
                .with_context(|| format!("failed to reach {proxy}"))?;
            return Ok(Source::Proxy(BufReader::new(stream)));
        }
        let settings = Settings::read(&Args {
            config: args.config.clone(),
            servers: args.servers.clone(),
            distribution: args.distribution,
            hash: args.hash,
            hash_tag: args.hash_tag,
            failover: args.failover,
            ..Args::default()
        });
        let settings = settings.map_err(|error| UsageError(error.line()))?;
        let core = core(&settings, &TlsWays::default())?;
        Ok(Source::Core(Box::new(core)))
    }

    /// The explanation of a key, or the words by which it is refused.
    fn ask(&mut self, key: &[u8]) -> anyhow::Result<Result<Explanation, String>> {
        match self {
            Source::Core(core) => {
                let explained = core.explain(Instant::default(), key, false);
                Ok(explained.map_err(refusal))
            }
            Source::Proxy(stream) => ask_proxy(stream, "explain", &[key]),
        }
    }

    /// The servers of a multi-get, or the words by which it is refused.
    fn ask_together(&mut self, keys: &[Vec<u8>]) -> anyhow::Result<Result<Together, String>> {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        match self {
            Source::Core(core) => Ok(core.together(&keys).map_err(refusal)),
            Source::Proxy(stream) => ask_proxy(stream, "together", &keys),
        }
    }
}

/// Asks a proxy that runs about keys.
fn ask_proxy<A: DeserializeOwned>(
    stream: &mut BufReader<TcpStream>,
    what: &str,
    keys: &[&[u8]],
) -> anyhow::Result<Result<A, String>> {
    // They must not be taken for several commands, nor for something else after them.
    if keys.iter().any(|key| key.iter().any(|byte| *byte <= b' ')) {
        return Ok(Err("CLIENT_ERROR bad command line format".into()));
    }
    let line = [b"stats", what.as_bytes(), &keys.join(&b' '), b"\r\n"].join(&b' ');
    let asked = stream.get_mut().write_all(&line);
    asked.context("failed to ask the proxy")?;
    let line = read_line(stream)?;
    let Some(json) = line.strip_prefix(&format!("STAT {what} ")) else {
        return Ok(Err(line));
    };
    let answer = serde_json::from_str(json).context("failed to read the proxy's answer")?;
    let end = read_line(stream)?;
    anyhow::ensure!(end == "END", "failed to read the proxy's answer: {end}");
    Ok(Ok(answer))
}

/// A core that knows a configuration and has no connections.
///
/// # Errors
/// [`UsageError`] when the configuration has servers that are not known without a proxy that runs.
pub fn core(settings: &Settings, ways: &TlsWays) -> anyhow::Result<ProxyCore> {
    let revision = Revision {
        digest: settings.digest.clone(),
        ..Revision::default()
    };
    // Nobody is asked for servers here: a pool whose servers are looked for is known to a proxy that runs.
    let discoveries = Discoveries::start(Clock::start(), &[])?;
    let config = settings.proxy_config(&Clusters::default(), &discoveries, ways, revision);
    let config = Arc::new(config.map_err(UsageError)?);
    Ok(ProxyCore::new(&config, 0))
}

/// A connection to `HOST` or `HOST:PORT`, whose reads and writes may take this long each.
///
/// # Errors
/// There is nobody at its address, or not in time.
#[allow(
    clippy::disallowed_methods,
    reason = "a command of its own, which waits for the answer"
)]
pub fn connect(
    address: &str,
    connecting: Duration,
    answering: Duration,
) -> std::io::Result<TcpStream> {
    let address = resolve_server(address).map_err(std::io::Error::other)?;
    let stream = TcpStream::connect_timeout(&address, connecting)?;
    stream.set_read_timeout(Some(answering))?;
    stream.set_write_timeout(Some(answering))?;
    Ok(stream)
}

fn read_line(stream: &mut BufReader<TcpStream>) -> anyhow::Result<String> {
    use std::io::Read;
    let mut line = Vec::new();
    stream
        .by_ref()
        .take(ANSWER_LEN_MAX)
        .read_until(b'\n', &mut line)
        .context("failed to read the proxy's answer")?;
    anyhow::ensure!(line.ends_with(b"\n"), "the proxy's answer breaks off");
    Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
}
