//! Who may speak to the proxy, and through what: addresses, TLS, credentials and the admin port, as flags
//! say it and as a file does.
//!
//! Each key of the file is a flag's name and means the same; a flag goes before the key of its name. What
//! belongs together must stand together in the file, so that it can be judged without the flags.

use super::reader::{At, Reader, Section};
use crate::args::Args;
use crate::limits::listener;
use evenkeel_placement::config::PORT_DEFAULT;
use evenkeel_protocol::auth::{AuthMode, Credentials, FILE_BYTES_MAX};
use evenkeel_proxy_core::Access;
use evenkeel_runtime::{
    Certificates, Clock, GivenOption, ListenSpec, ListenerTls, TlsKind, TlsOptions, UsageError,
    parse_http_address, read_secret,
};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The keys of a file that are about it.
pub const FRONT_KEYS: [&str; 14] = [
    "listen",
    "admin",
    "auth_file",
    "enable_sasl",
    "sasl_pwdb",
    "enable_ssl",
    "ssl_chain_cert",
    "ssl_key",
    "ssl_keyformat",
    "ssl_ca_cert",
    "ssl_verify_mode",
    "ssl_min_version",
    "ssl_ciphers",
    "ssl_session_cache",
];

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Front {
    /// Addresses; `None` for the usual one.
    pub listen: Option<Vec<ListenSpec>>,
    /// Address of the HTTP port.
    pub admin: Option<SocketAddr>,
    /// SASL is wanted, and with it the binary protocol.
    pub enable_sasl: bool,
    /// Who may come in by it.
    pub sasl_pwdb: Option<PathBuf>,
    /// Who may come in by text.
    pub auth_file: Option<PathBuf>,
    /// TLS is spoken.
    pub enable_ssl: bool,
    /// How.
    pub tls: TlsOptions,
}

impl Front {
    /// What the flags say, and of the rest what a file says; and warnings to print.
    ///
    /// # Errors
    /// Names the flag that cannot be used, or those that do not go together.
    pub fn merged(args: &Args, file: Front) -> Result<(Front, Vec<String>), UsageError> {
        let mut tls = file.tls;
        let warnings = args.tls_options(&mut tls)?;
        let front = Front {
            listen: args.listeners()?.or(file.listen),
            admin: args.admin.or(file.admin),
            enable_sasl: args.enable_sasl || file.enable_sasl,
            sasl_pwdb: args.sasl_pwdb.clone().or(file.sasl_pwdb),
            auth_file: args.auth_file.clone().or(file.auth_file),
            enable_ssl: args.enable_ssl || file.enable_ssl,
            tls,
        };
        front.check()?;
        Ok((front, warnings))
    }

    fn check(&self) -> Result<(), UsageError> {
        let fail = |message: &str| Err(UsageError(message.into()));
        if self.enable_sasl && self.auth_file.is_some() {
            return fail("-S and -Y: use one of them, for they need different protocols");
        }
        if self.enable_sasl && self.sasl_pwdb.is_none() {
            return fail("-S: name a file of user:password lines by --sasl-pwdb");
        }
        let listen = self.listen.iter().flatten();
        let prefixed = listen.into_iter().find(|spec| is_prefixed(spec));
        match (self.enable_ssl, prefixed) {
            (true, _) if self.tls.chain_cert.is_none() => {
                fail("-Z: give the certificate by -o ssl_chain_cert=FILE")
            }
            (false, Some(spec)) => Err(UsageError(format!(
                "-l {}: this prefix is for use with -Z",
                spec.text
            ))),
            (false, None) if self.tls != TlsOptions::default() => {
                fail("-o ssl_… has no effect without -Z")
            }
            _ => Ok(()),
        }
    }

    /// What applications must do before they are heard.
    fn auth_mode(&self) -> AuthMode {
        match (self.enable_sasl, &self.auth_file) {
            (true, _) => AuthMode::Sasl,
            (false, Some(_)) => AuthMode::Text,
            (false, None) => AuthMode::Open,
        }
    }

    /// Reads the file of those who may come in; and a warning to print.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn access(&self) -> Result<(Access, Option<String>), UsageError> {
        let mode = self.auth_mode();
        let path = match mode {
            AuthMode::Sasl => &self.sasl_pwdb,
            AuthMode::Text => &self.auth_file,
            AuthMode::Open => &None,
        };
        let Some(path) = path else {
            return Ok((Access::default(), None));
        };
        let (credentials, warning) = credentials(path)?;
        let credentials = Some(Arc::new(credentials));
        Ok((Access { mode, credentials }, warning))
    }
}

fn is_prefixed(spec: &ListenSpec) -> bool {
    spec.tls != ListenerTls::Default
}

fn credentials(path: &Path) -> Result<(Credentials, Option<String>), UsageError> {
    let (text, warning) = read_secret(path, FILE_BYTES_MAX)?;
    let credentials = Credentials::parse(&text)
        .map_err(|error| UsageError(format!("{}: {error}", path.display())))?;
    Ok((credentials, warning))
}

/// What a file says.
pub fn front(reader: &mut Reader, section: &Section<'_>) -> Front {
    let listen = listen(reader, section);
    let admin = reader.parsed(section, "admin", parse_http_address);
    let mut front = Front {
        listen: None,
        admin: admin.map(|at| at.value),
        enable_sasl: reader.flag(section, "enable_sasl"),
        sasl_pwdb: users(reader, section, "sasl_pwdb"),
        auth_file: users(reader, section, "auth_file"),
        enable_ssl: reader.flag(section, "enable_ssl"),
        tls: tls_options(reader, section),
    };
    match (front.enable_sasl, section.has("sasl_pwdb")) {
        (true, false) => reader.fail(
            section.place_of("enable_sasl"),
            "enable_sasl needs sasl_pwdb, a file of user:password lines",
        ),
        (false, true) => reader.fail(
            section.place_of("sasl_pwdb"),
            "sasl_pwdb goes with enable_sasl = true",
        ),
        _ => {}
    }
    if front.enable_sasl && section.has("auth_file") {
        let what = "auth_file is for text and enable_sasl for the binary protocol: use one of them";
        reader.fail(section.place_of("auth_file"), what);
    }
    check_tls(
        reader,
        section,
        &front,
        listen.as_deref().unwrap_or_default(),
    );
    front.listen = listen.map(|listen| listen.into_iter().map(|at| at.value).collect());
    front
}

fn listen(reader: &mut Reader, section: &Section<'_>) -> Option<Vec<At<ListenSpec>>> {
    let texts = reader.texts(section, "listen")?;
    if texts.is_empty() {
        reader.fail(section.place_of("listen"), "listen needs an address");
    }
    let mut specs = Vec::new();
    for At { value: text, span } in texts {
        match listener(&text, PORT_DEFAULT) {
            Ok(value) => specs.push(At { value, span }),
            Err(error) => {
                let error = error.to_string();
                let what = error.strip_prefix(&format!("-l {text}: "));
                reader.fail(span, format!("listen: {}", what.unwrap_or(&error)));
            }
        }
    }
    Some(specs)
}

/// A file of users that can be used.
fn users(reader: &mut Reader, section: &Section<'_>, key: &str) -> Option<PathBuf> {
    let path = reader.path(section, key)?;
    match credentials(&path.value) {
        Ok(_) => Some(path.value),
        Err(error) => {
            reader.fail(path.span, error.to_string());
            None
        }
    }
}

fn tls_options(reader: &mut Reader, section: &Section<'_>) -> TlsOptions {
    let mut file = |key| reader.path(section, key).map(|at| at.value);
    let mut tls = TlsOptions {
        chain_cert: file("ssl_chain_cert"),
        key: file("ssl_key"),
        ca_cert: file("ssl_ca_cert"),
        ..TlsOptions::default()
    };
    let mut given = Vec::new();
    let mode = reader.number(section, "ssl_verify_mode", 0..=3);
    given.extend(mode.map(|at| ("ssl_verify_mode", at.value.to_string())));
    // Older versions are not spoken; the flag warns of them.
    let version = reader.number(section, "ssl_min_version", 2..=3);
    given.extend(version.map(|at| ("ssl_min_version", at.value.to_string())));
    for name in ["ssl_ciphers", "ssl_keyformat"] {
        given.extend(reader.text(section, name).map(|at| (name, at.value)));
    }
    if reader.flag(section, "ssl_session_cache") {
        given.push(("ssl_session_cache", String::new()));
    }
    for (name, value) in given {
        let value = Some(value.as_str());
        if let Err(error) = tls.take(&GivenOption { name, value }, &mut Vec::new()) {
            let error = error.to_string();
            let what = error.strip_prefix("-o ").unwrap_or(&error);
            reader.fail(section.place_of(name), what);
        }
    }
    tls
}

/// What belongs together stands together, and the files can be used.
fn check_tls(reader: &mut Reader, section: &Section<'_>, front: &Front, listen: &[At<ListenSpec>]) {
    if !front.enable_ssl {
        for key in FRONT_KEYS.into_iter().filter(|key| key.starts_with("ssl_")) {
            if section.has(key) {
                let what = format!("{key} goes with enable_ssl = true");
                reader.fail(section.place_of(key), what);
            }
        }
        for at in listen.iter().filter(|at| is_prefixed(&at.value)) {
            reader.fail(
                at.span.clone(),
                "listen: this prefix goes with enable_ssl = true",
            );
        }
        return;
    }
    if !section.has("ssl_chain_cert") {
        let what = "enable_ssl needs ssl_chain_cert, the file with the certificate";
        reader.fail(section.place_of("enable_ssl"), what);
        return;
    }
    if !section.has("ssl_ca_cert") {
        let wants = listen.iter();
        let mut wants = wants.filter(|at| at.value.tls == ListenerTls::Mutual);
        let wanting = match wants.next() {
            Some(at) => Some(at.span.clone()),
            None if front.tls.verify_mode > 0 => Some(section.place_of("ssl_verify_mode")),
            None => None,
        };
        if let Some(span) = wanting {
            let what = "clients' certificates need their authorities, ssl_ca_cert";
            reader.fail(span, what);
            return;
        }
    }
    let kinds = listen.iter().map(|at| TlsKind::of(true, at.value.tls));
    if let Err(error) = Certificates::load(&front.tls, kinds, Clock::start()) {
        let error = error.to_string();
        let error = error.strip_prefix("-Z: ").unwrap_or(&error);
        // A file at fault is named in front.
        let files = [
            ("ssl_key", &front.tls.key),
            ("ssl_ca_cert", &front.tls.ca_cert),
            ("ssl_chain_cert", &front.tls.chain_cert),
        ];
        let is_named = |path: &PathBuf| {
            let absolute = std::path::absolute(path);
            absolute.is_ok_and(|path| error.starts_with(&format!("{}: ", path.display())))
        };
        let named = files
            .into_iter()
            .find(|(_, path)| path.as_ref().is_some_and(is_named));
        let key = named.map_or("ssl_ciphers", |(key, _)| key);
        let key = if section.has(key) { key } else { "enable_ssl" };
        reader.fail(section.place_of(key), error);
    }
}
