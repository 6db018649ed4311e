//! What `-S`, `-Y` and `-B` come to together.
//!
//! Text and binary have an authentication each, so a server that asks for one speaks that protocol
//! alone. memcached takes the same combinations and refuses the same ones.

use super::Args;
use evenkeel_runtime::{ListenerProtocol, UsageError};
use evenkeel_server_core::{AuthMode, Protocols};
use std::path::Path;

impl Args {
    /// What clients must do before they are heard.
    pub fn auth_mode(&self) -> AuthMode {
        match (self.enable_sasl, &self.auth_file) {
            (true, _) => AuthMode::Sasl,
            (false, Some(_)) => AuthMode::Text,
            (false, None) => AuthMode::Open,
        }
    }

    /// The file that names those who may come in, where authentication is on.
    pub fn credentials_file(&self) -> Option<&Path> {
        match self.auth_mode() {
            AuthMode::Sasl => self.sasl_pwdb.as_deref(),
            AuthMode::Text => self.auth_file.as_deref(),
            AuthMode::Open => None,
        }
    }

    /// The protocol of listeners that name none: `-B`, or the one that the authentication leaves.
    pub fn default_protocol(&self) -> ListenerProtocol {
        self.protocol.unwrap_or(match self.auth_mode() {
            AuthMode::Open => ListenerProtocol::Negotiating,
            AuthMode::Text => ListenerProtocol::Ascii,
            AuthMode::Sasl => ListenerProtocol::Binary,
        })
    }

    /// Checks that authentication can be asked for on every listener, and that somebody can pass it.
    pub(super) fn check_auth(&self) -> Result<(), UsageError> {
        let fail = |message: &str| Err(UsageError(message.into()));
        let (flag, only) = match self.auth_mode() {
            AuthMode::Open => return Ok(()),
            AuthMode::Text => ("-Y", ListenerProtocol::Ascii),
            AuthMode::Sasl => ("-S", ListenerProtocol::Binary),
        };
        if self.enable_sasl && self.auth_file.is_some() {
            return fail("-S and -Y: use one of them, for they need different protocols");
        }
        if self.enable_sasl && self.sasl_pwdb.is_none() {
            return fail(
                "-S: name a file of user:password lines by --sasl-pwdb or MEMCACHED_SASL_PWDB",
            );
        }
        if !self.coordinator.is_empty() {
            return Err(UsageError(format!(
                "{flag}: servers of a cluster cannot authenticate to each other yet; \
                 refusing to start with --coordinator"
            )));
        }
        let mut protocols = vec![self.default_protocol()];
        protocols.extend(self.listeners()?.iter().filter_map(|spec| spec.protocol));
        if protocols.iter().any(|protocol| *protocol != only) {
            return Err(UsageError(format!(
                "{flag}: it works in the {} protocol alone; leave out -B and proto[…]",
                match only {
                    ListenerProtocol::Binary => "binary",
                    _ => "text",
                }
            )));
        }
        Ok(())
    }
}

/// What a listener that is held to a protocol lets its clients speak.
pub fn protocols_of(protocol: ListenerProtocol) -> Protocols {
    match protocol {
        ListenerProtocol::Negotiating => Protocols::Any,
        ListenerProtocol::Ascii => Protocols::Text,
        ListenerProtocol::Binary => Protocols::Binary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Args {
        Program::try_parse_from(line.split_whitespace())
            .map(|program| program.args)
            .unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    #[test]
    fn each_authentication_has_its_protocol() {
        for (line, mode, protocol) in [
            ("x", AuthMode::Open, ListenerProtocol::Negotiating),
            ("x -B binary", AuthMode::Open, ListenerProtocol::Binary),
            ("x -Y f", AuthMode::Text, ListenerProtocol::Ascii),
            ("x -Y f -B ascii", AuthMode::Text, ListenerProtocol::Ascii),
            (
                "x -S --sasl-pwdb f",
                AuthMode::Sasl,
                ListenerProtocol::Binary,
            ),
            (
                "x -S --sasl-pwdb f -B binary -l proto[binary]:127.0.0.1",
                AuthMode::Sasl,
                ListenerProtocol::Binary,
            ),
        ] {
            let args = parse(line);
            args.check()
                .unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(
                (args.auth_mode(), args.default_protocol()),
                (mode, protocol)
            );
            assert_eq!(args.credentials_file().is_some(), mode != AuthMode::Open);
        }
    }

    #[test]
    fn authentication_that_could_be_avoided_or_passed_by_nobody_is_refused() {
        for line in [
            "x -S",
            "x -S --sasl-pwdb f -Y f",
            "x -S --sasl-pwdb f -B ascii",
            "x -S --sasl-pwdb f -B auto",
            "x -S --sasl-pwdb f -l proto[ascii]:127.0.0.1",
            "x -S --sasl-pwdb f -l 127.0.0.1,proto[negotiating]:127.0.0.1:1",
            "x -S --sasl-pwdb f --coordinator http://127.0.0.1:1",
            "x -Y f -B binary",
            "x -Y f -B auto",
            "x -Y f -l proto[binary]:127.0.0.1",
            "x -Y f --coordinator http://127.0.0.1:1",
        ] {
            let error = parse(line).check().expect_err(line);
            assert!(
                error.0.starts_with("-S") || error.0.starts_with("-Y"),
                "{error}"
            );
        }
    }
}
