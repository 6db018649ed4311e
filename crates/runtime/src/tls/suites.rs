//! OpenSSL's names of cipher suites, which is what `-o ssl_ciphers` lists.

use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite as suite;

/// OpenSSL's name and the suite, strongest first.
const NAMES: &[(&str, SupportedCipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        suite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// The suites of a list, in its order of preference. As in OpenSSL, the list is about TLS 1.2: when
/// it names no suite of TLS 1.3, all of those stay.
///
/// # Errors
/// Names what is no suite here, such as OpenSSL's group names, whose meaning changes with its version.
pub(super) fn parse(list: &str) -> Result<Vec<SupportedCipherSuite>, String> {
    let mut suites = Vec::new();
    for name in list
        .split(':')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        let (_, suite) = found.ok_or_else(|| {
            let known: Vec<&str> = NAMES.iter().map(|(known, _)| *known).collect();
            format!("no cipher suite {name}; there are {}", known.join(", "))
        })?;
        suites.push(*suite);
    }
    if !suites.iter().any(is_tls13) {
        let all = NAMES.iter().map(|(_, suite)| *suite);
        suites.extend(all.filter(is_tls13));
    }
    Ok(suites)
}

fn is_tls13(suite: &SupportedCipherSuite) -> bool {
    suite.tls13().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_of_the_provider_has_a_name() {
        let all = rustls::crypto::ring::default_provider().cipher_suites;
        assert_eq!(all.len(), NAMES.len());
        assert!(
            all.iter()
                .all(|suite| NAMES.iter().any(|(_, named)| named == suite))
        );
    }

    #[test]
    fn a_list_is_about_tls_1_2_unless_it_names_tls_1_3() {
        let suites = parse("ECDHE-RSA-AES128-GCM-SHA256").expect("known");
        assert_eq!(suites.len(), 4);
        let suites = parse("TLS_AES_128_GCM_SHA256:ECDHE-RSA-AES128-GCM-SHA256").expect("known");
        assert_eq!(suites.len(), 2);
        assert!(parse("HIGH:!aNULL").expect_err("a group").contains("HIGH"));
    }
}
