//! How the connections to a pool's servers are secured, as a file says it.

use super::reader::{Reader, Section};
use crate::tls::TlsWay;
use evenkeel_protocol::AUTH_TOKEN_LEN_MAX;
use evenkeel_proxy_core::Login;
use evenkeel_runtime::{TlsClient, TlsClientFiles};
use std::path::Path;
use std::sync::Arc;

/// Largest file with a password, in bytes: one line of it is read.
const AUTH_FILE_BYTES_MAX: u64 = 64 << 10;

/// What belongs to `tls = true`.
const TLS_KEYS: [&str; 4] = ["tls_ca", "tls_server_name", "tls_cert", "tls_key"];

/// How TLS is spoken with the servers; `None` where it is not, or cannot be.
pub fn tls(reader: &mut Reader, section: &Section<'_>) -> Option<TlsWay> {
    if !reader.flag(section, "tls") {
        for key in TLS_KEYS.into_iter().filter(|key| section.has(key)) {
            reader.fail(section.place_of(key), format!("{key} goes with tls = true"));
        }
        return None;
    }
    if refuses_cluster(reader, section, "tls") {
        return None;
    }
    let Some(authorities) = reader.path(section, "tls_ca") else {
        if !section.has("tls_ca") {
            let what =
                "tls needs tls_ca, the file with the authorities of the servers' certificates";
            reader.fail(section.place_of("tls"), what);
        }
        return None;
    };
    let server_name = reader.text(section, "tls_server_name").map(|at| at.value);
    let chain = reader.path(section, "tls_cert");
    let key = reader.path(section, "tls_key");
    if let (None, Some(key)) = (&chain, &key) {
        reader.fail(key.span.clone(), "tls_key goes with tls_cert");
        return None;
    }
    let files = TlsClientFiles {
        authorities: authorities.value.clone(),
        chain: chain.as_ref().map(|at| at.value.clone()),
        key: key.as_ref().map(|at| at.value.clone()),
    };
    match TlsClient::load(&files) {
        Ok(client) => Some(TlsWay {
            client,
            server_name,
        }),
        Err(error) => {
            // The message begins with the file's name.
            let given = [key, chain, Some(authorities)].into_iter().flatten();
            let is_named = |path: &Path| error.starts_with(&path.display().to_string());
            let named = given.into_iter().find(|at| is_named(&at.value));
            let span = named.map_or(section.place_of("tls"), |at| at.span);
            reader.fail(span, error);
            None
        }
    }
}

/// Who the proxy says it is; `None` where nobody asks, or it cannot be said.
pub fn login(reader: &mut Reader, section: &Section<'_>) -> Option<Arc<Login>> {
    let path = reader.path(section, "auth_file")?;
    if refuses_cluster(reader, section, "auth_file") {
        return None;
    }
    match read_login(&path.value) {
        Ok(login) => Some(Arc::new(login)),
        Err(error) => {
            reader.fail(path.span, error);
            None
        }
    }
}

/// Servers of a cluster can do neither.
fn refuses_cluster(reader: &mut Reader, section: &Section<'_>, key: &str) -> bool {
    let is_cluster = section.has("coordinator");
    if is_cluster {
        let what = format!("{key} goes with servers: those of a cluster speak plain text");
        reader.fail(section.place_of(key), what);
    }
    is_cluster
}

/// Reads the first line `user:password` of a file as servers have it for `-Y`.
#[allow(
    clippy::disallowed_methods,
    reason = "at the start, and on the thread that reloads"
)]
fn read_login(path: &Path) -> Result<Login, String> {
    let named = |what: &str| format!("{}: {what}", path.display());
    let length = std::fs::metadata(path).map_err(|error| named(&error.to_string()))?;
    if length.len() > AUTH_FILE_BYTES_MAX {
        return Err(named("too large for a file with a password"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| named(&error.to_string()))?;
    let Some(line) = text.lines().find(|line| !line.is_empty()) else {
        return Err(named("there is no line user:password in it"));
    };
    let Some((user, password)) = line.split_once(':') else {
        return Err(named("the first line is not user:password"));
    };
    let is_word = |word: &str| {
        let is_odd = |c: char| c.is_ascii_whitespace() || c.is_control();
        !word.is_empty() && !word.contains(is_odd)
    };
    if !is_word(user) || !is_word(password) {
        return Err(named("name and password are words without spaces"));
    }
    if user.len() + 1 + password.len() > AUTH_TOKEN_LEN_MAX {
        return Err(named("name and password are too long to be sent"));
    }
    Ok(Login {
        user: user.to_owned(),
        password: password.to_owned(),
    })
}
