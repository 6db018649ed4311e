//! An explanation in words.

use evenkeel_proxy_core::{
    CopiesSeen, Destination, Explanation, HotSeen, KeyWay, Placing, ServerSeen, Together,
};
use evenkeel_schemes::stage::Stage;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Width of the names before what is said.
const NAME_WIDTH: usize = 10;

/// The explanation of one key, some lines.
pub fn text(explanation: &Explanation) -> String {
    let mut out = String::new();
    line(&mut out, format_args!("{}", explanation.key));
    for way in &explanation.ways {
        line(&mut out, format_args!("  {}", way.commands.join(", ")));
        way_words(&mut out, way, explanation.running);
    }
    out
}

/// The servers of a multi-get, a line each.
pub fn together(together: &Together) -> String {
    let mut out = String::new();
    let (keys, asked, plain) = (
        together.keys.len(),
        together.transactions,
        together.transactions_plain,
    );
    let Together { pool, copies, .. } = together;
    line(
        &mut out,
        format_args!(
            "{keys} keys of pool {pool}, copies {copies}: {asked} servers, {plain} without copies"
        ),
    );
    let mut by_server: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for key in &together.keys {
        let name = match key.copy {
            true => format!("{} (copy)", key.key),
            false => key.key.clone(),
        };
        by_server.entry(&key.server).or_default().push(name);
    }
    for (server, keys) in by_server {
        line(&mut out, format_args!("  {server}: {}", keys.join(", ")));
    }
    out
}

fn way_words(out: &mut String, way: &KeyWay, running: bool) {
    let route = &way.route;
    let prefix = match route.prefix.as_str() {
        "" => "without a prefix".to_owned(),
        prefix => format!("of prefix \"{prefix}\""),
    };
    row(
        out,
        "route",
        &format!("{}, {prefix}: {}", route.number, route.why),
    );
    if let Some(refused) = &way.refused {
        row(out, "answered", refused);
    }
    if let Some(to) = &way.to {
        destination_words(out, to, running);
    }
}

fn destination_words(out: &mut String, to: &Destination, running: bool) {
    row(out, "pool", &format!("{}, of {} servers", to.pool, to.kind));
    row(out, "scheme", &to.scheme);
    row(out, "key", &to.key_sent);
    if let Some(times) = &to.exptimes {
        let mut bounds = Vec::new();
        if times.min_s > 0 {
            bounds.push(format!("at least {} s", times.min_s));
        }
        if times.max_s > 0 {
            bounds.push(format!("at most {} s", times.max_s));
        }
        if times.jitter_permille > 0 {
            bounds.push(format!("up to {} ‰ less at random", times.jitter_permille));
        }
        row(out, "exptime", &bounds.join(", "));
    }
    // A name of a ring's generation ends in the key.
    let named = to.key_sent.strip_prefix("\\x01");
    let own = named.and_then(|name| Some(name.split_once(':')?.1));
    let own = own.unwrap_or(&to.key_sent);
    let part = |hashed: &str| match hashed == own {
        true => String::new(),
        false => format!(" of \"{hashed}\" alone"),
    };
    let (place, others) = match &to.placing {
        Placing::List {
            distribution,
            hash,
            hashed,
            hash_value,
        } => {
            let part = part(hashed);
            let place = format!("{distribution}, {hash}{part}: {hash_value}");
            (place, "if not")
        }
        Placing::Ring {
            plan,
            generation,
            hash,
            hashed,
            hash_value,
        } => {
            let part = part(hashed);
            let slice = format!("a slice of generation {generation} by plan {plan} of the ring");
            (format!("{hash}{part}: {hash_value}, in {slice}"), "if not")
        }
        Placing::Map {
            epoch,
            hash_value,
            virtual_node,
            cachelet,
        } => {
            let place = format!(
                "hash {hash_value}, virtual node {virtual_node}, cachelet {cachelet}, by the map of epoch {epoch}"
            );
            (place, "if hot")
        }
        Placing::NoMap => ("unknown".to_owned(), "if hot"),
    };
    row(out, "place", &place);
    if let Some(home) = &to.home {
        row(out, "home", &server_words(home));
    }
    for (at, other) in to.others.iter().enumerate() {
        let name = if at == 0 { others } else { "" };
        row(out, name, &server_words(other));
    }
    if to.others_unlisted > 0 {
        row(out, "", &format!("and {} more", to.others_unlisted));
    }
    if let Some(former) = &to.former {
        let what = match former.stage {
            Stage::Former => "asked instead; the pool's own servers are not asked yet",
            Stage::Quiesced => "nobody is asked for a moment",
            Stage::Warming => {
                "what is not here is brought from there, and writes delete there first"
            }
            Stage::Closing => "writes delete there first",
            Stage::Done => "not asked any more",
        };
        let home = former.home.as_ref().map(server_words);
        let place = home.unwrap_or_else(|| former.pool.clone());
        row(out, "former", &format!("{place}: {what}"));
    }
    if let Some(hot) = &to.hot {
        row(out, "hot", &hot_words(hot));
    }
    if let Some(copies) = &to.copies {
        row(out, "copies", &copies_words(copies));
    }
    if let Some(racks) = &to.racks {
        for (at, other) in racks.others.iter().enumerate() {
            let name = if at == 0 { "or held" } else { "" };
            row(out, name, &server_words(other));
        }
        if let (Some(directory), Some(note)) = (&racks.directory, &racks.note) {
            row(
                out,
                "note",
                &format!("{} ({note})", server_words(directory)),
            );
        }
    }
    let nobody = if running { "nobody" } else { "unknown" };
    let asked = to.asked.as_deref().unwrap_or(nobody);
    row(out, "asked", &format!("{asked}: {}", to.why));
}

fn copies_words(copies: &CopiesSeen) -> String {
    let servers = copies.servers.iter().map(|server| server.name.as_str());
    let servers: Vec<_> = servers.collect();
    let mut words = match servers.is_empty() {
        true => "none: its name would be too long".to_owned(),
        false => format!("{}: {}", copies.switch, servers.join(", ")),
    };
    if let Some(name) = copies.name.as_ref().filter(|_| !servers.is_empty()) {
        let _ = write!(words, " ({name})");
    }
    words
}

fn hot_words(hot: &HotSeen) -> String {
    let mut words = String::new();
    if hot.leased_us == 0 || hot.replicas == 0 {
        words.push_str("reads go to its home, which grants no lease now");
    } else {
        let (left_ms, places) = (hot.leased_us.div_ceil(1000), hot.servers.join(", "));
        let _ = write!(
            words,
            "reads go to its home and {} replicas ({places}",
            hot.replicas
        );
        let unlisted = usize::from(hot.replicas).saturating_sub(hot.servers.len());
        if unlisted > 0 {
            let _ = write!(words, " and {unlisted} more");
        }
        let _ = write!(
            words,
            ") until the lease ends in {left_ms} ms, if it is not renewed"
        );
    }
    if let Some(bytes) = hot.kept_bytes {
        let _ = write!(words, "; the newest answer is kept ({bytes} bytes)");
    }
    words
}

fn server_words(server: &ServerSeen) -> String {
    let mut words = server.name.clone();
    // In the pool of a command line servers go by their addresses.
    if server.name != server.address {
        let _ = write!(words, " at {}", server.address);
    }
    if let Some(rack) = &server.rack {
        let _ = write!(words, " in rack {rack}");
    }
    if let Some(us) = server.distance_us {
        let _ = write!(words, ", {us} µs away");
    }
    if let Some(health) = &server.health {
        let _ = write!(
            words,
            ", {}, connection {}",
            health.standing, health.connection
        );
        if health.failures > 0 {
            let _ = write!(words, ", {} failures in a row", health.failures);
            if let Some(cause) = &health.cause {
                let _ = write!(words, " ({cause})");
            }
        }
        if health.queued_requests > 0 {
            let _ = write!(words, ", {} requests waiting", health.queued_requests);
        }
    }
    words
}

fn row(out: &mut String, name: &str, words: &str) {
    line(out, format_args!("    {name:NAME_WIDTH$}{words}"));
}

/// Adds a line without what a terminal would take for a command.
fn line(out: &mut String, words: std::fmt::Arguments<'_>) {
    for c in words.to_string().chars() {
        match c.is_control() {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hot_key_says_where_it_is_read_and_for_how_long() {
        let hot = HotSeen {
            replicas: 3,
            servers: vec!["s1/0".into(), "s2/0".into()],
            leased_us: 84_001,
            kept_bytes: Some(5),
        };
        assert_eq!(
            hot_words(&hot),
            "reads go to its home and 3 replicas (s1/0, s2/0 and 1 more) until the lease ends in 85 ms, if it is not renewed; \
             the newest answer is kept (5 bytes)"
        );
        let over = HotSeen {
            leased_us: 0,
            kept_bytes: None,
            ..hot
        };
        assert_eq!(
            hot_words(&over),
            "reads go to its home, which grants no lease now"
        );
    }
}
