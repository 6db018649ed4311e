//! The options of `-o` that are about TLS, and how any option's value is read.

use crate::UsageError;
use std::path::PathBuf;

/// The `ssl_*` options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Certificate chain, PEM.
    pub chain_cert: Option<PathBuf>,
    /// Private key, PEM; in the chain's file unless given.
    pub key: Option<PathBuf>,
    /// Authorities that clients' certificates may come from, PEM.
    pub ca_cert: Option<PathBuf>,
    /// What is asked of clients: 0 nothing, 1 a certificate if they have one, 2 and 3 a certificate.
    pub verify_mode: u8,
    /// Oldest version: 0 and 1 (TLS 1.0 and 1.1) are raised to 2 (TLS 1.2); 3 is TLS 1.3.
    pub min_version: Option<u8>,
    /// OpenSSL's names of cipher suites, separated by colons.
    pub ciphers: Option<String>,
    /// Let clients resume sessions.
    pub session_cache: bool,
}

impl TlsOptions {
    /// Their names.
    pub const NAMES: [&'static str; 8] = [
        "ssl_chain_cert",
        "ssl_key",
        "ssl_keyformat",
        "ssl_ca_cert",
        "ssl_verify_mode",
        "ssl_min_version",
        "ssl_ciphers",
        "ssl_session_cache",
    ];

    /// Takes in one option. False when it is not about TLS.
    ///
    /// # Errors
    /// Names the option that has no usable value.
    pub fn take(
        &mut self,
        option: &GivenOption<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<bool, UsageError> {
        match option.name {
            "ssl_chain_cert" => self.chain_cert = Some(option.text("a file")?.into()),
            "ssl_key" => self.key = Some(option.text("a file")?.into()),
            "ssl_ca_cert" => self.ca_cert = Some(option.text("a file")?.into()),
            "ssl_verify_mode" => self.verify_mode = option.number(0, 3)? as u8,
            "ssl_min_version" => {
                let version = option.number(0, 3)? as u8;
                if version < 2 {
                    warnings.push(format!(
                        "-o ssl_min_version={version}: TLS 1.0 and 1.1 are not spoken here; \
                         the oldest version is TLS 1.2"
                    ));
                }
                self.min_version = Some(version.max(2));
            }
            "ssl_ciphers" => self.ciphers = Some(option.text("names of cipher suites")?.to_owned()),
            "ssl_session_cache" => self.session_cache = true,
            "ssl_keyformat" => {
                let format = option.text("PEM")?;
                // OpenSSL's number for PEM is 1.
                if !format.eq_ignore_ascii_case("pem") && format != "1" {
                    return Err(UsageError(format!(
                        "-o ssl_keyformat={format}: keys are read in PEM only"
                    )));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// An option as it was written.
#[derive(Clone, Copy, Debug)]
pub struct GivenOption<'a> {
    /// Its name.
    pub name: &'a str,
    /// What stands behind `=`.
    pub value: Option<&'a str>,
}

impl<'a> GivenOption<'a> {
    /// A value that is wanted; `what` says what it is.
    ///
    /// # Errors
    /// When there is none.
    pub fn text(&self, what: &str) -> Result<&'a str, UsageError> {
        self.value
            .filter(|value| !value.is_empty())
            .ok_or_else(|| UsageError(format!("-o {}: give {what}", self.name)))
    }

    /// A number of a range.
    ///
    /// # Errors
    /// When it is none.
    pub fn number(&self, least: u64, most: u64) -> Result<u64, UsageError> {
        let text = self.text("a number")?;
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(UsageError(format!(
                "-o {}={text}: give a number from {least} to {most}",
                self.name
            ))),
        }
    }

    /// A limit in megabytes, as bytes.
    ///
    /// # Errors
    /// When it is none.
    pub fn megabytes(&self) -> Result<usize, UsageError> {
        Ok((self.number(0, u64::from(u32::MAX))? as usize) << 20)
    }

    /// A size in kilobytes, as bytes.
    ///
    /// # Errors
    /// When it is none.
    pub fn kilobytes(&self) -> Result<usize, UsageError> {
        Ok((self.number(1, 1 << 20)? as usize) << 10)
    }
}
