//! `evenkeel locality check`: where keys stand, and what is wrong with that.

use crate::ask::{self, Format};
use anyhow::ensure;
use evenkeel_proxy::{KeyCheckArgs, KeyReport, PlaceSeen, look_at_keys};

/// Looks, and prints what was found.
///
/// # Errors
/// When the file, the pool or a key cannot be used, a key has a fault, or a server cannot be asked.
pub fn run(of: &KeyCheckArgs, format: Format) -> anyhow::Result<()> {
    let standings = look_at_keys(of)?;
    format.print(&standings, |standings| text(standings))?;
    let faulty = standings.iter().filter(|it| !it.faults.is_empty()).count();
    let partial = standings.iter().filter(|it| it.unasked().next().is_some());
    let partial = partial.count();
    let all = standings.len();
    ensure!(faulty == 0, "{faulty} of {all} keys have faults");
    ensure!(
        partial == 0,
        "servers cannot be asked: what is said of {partial} of {all} keys is incomplete"
    );
    Ok(())
}

/// A paragraph for each key.
fn text(standings: &[KeyReport]) -> String {
    let all: Vec<_> = standings.iter().map(details).collect();
    // Keys, and what servers say, are shown without what a terminal would take for a command.
    let is_odd = |c: char| c.is_control() && c != '\n';
    let mut out = String::new();
    for c in all.join("\n\n").chars() {
        match is_odd(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

fn details(report: &KeyReport) -> String {
    let rows = report
        .places
        .iter()
        .map(|place| [name(place), place.server.clone(), place.stands.to_string()]);
    let table = ask::plain_table(["place", "server", "stands there"], rows);
    format!("{}: {}\n{table}", report.key, verdict(report))
}

fn name(place: &PlaceSeen) -> String {
    match &place.rack {
        Some(rack) => format!("rack {rack}"),
        None => "directory".to_owned(),
    }
}

fn verdict(report: &KeyReport) -> String {
    let mut words: Vec<String> = report.faults.iter().map(ToString::to_string).collect();
    if report.is_moving {
        words.push("it moves while it is looked at".to_owned());
    }
    let unasked: Vec<String> = report.unasked().map(name).collect();
    if !unasked.is_empty() {
        words.push(format!("incomplete, without {}", unasked.join(", ")));
    }
    match words.is_empty() {
        true => "fine".to_owned(),
        false => words.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_proxy::Stands;

    fn place(rack: Option<&str>, stands: Stands) -> PlaceSeen {
        PlaceSeen {
            rack: rack.map(str::to_owned),
            server: "main/h:1".to_owned(),
            address: "h:1".to_owned(),
            name: "k".to_owned(),
            stands,
        }
    }

    fn item() -> Stands {
        Stands::Item {
            value_bytes: 5,
            flags: 7,
            ttl_s: Some(60),
        }
    }

    fn shown(places: Vec<PlaceSeen>) -> String {
        let mut report = KeyReport::new("k\u{85}".to_owned());
        report.look(places);
        text(&[report])
    }

    #[test]
    fn what_stands_where_is_shown_behind_the_verdict() {
        let note = Stands::Note {
            leads_to: Some("a".to_owned()),
        };
        let told = shown(vec![
            place(Some("a"), item()),
            place(Some("b"), Stands::Nothing),
            place(None, note),
        ]);
        assert!(told.starts_with("k\\u{85}: fine\n"), "{told}");
        for words in [
            "rack a",
            "an item: 5 bytes, client flags 7, 60 s left",
            "nothing",
            "directory",
            "a note to rack a",
        ] {
            assert!(told.contains(words), "{words} in\n{told}");
        }
    }

    #[test]
    fn what_is_wrong_and_what_is_not_known_stand_in_the_first_line() {
        let why = "refused\u{1b}[2J".to_owned();
        let told = shown(vec![
            place(Some("a"), item()),
            place(Some("b"), item()),
            place(Some("c"), Stands::Unasked { why }),
        ]);
        let expected = "k\\u{85}: two racks hold it: a, b; incomplete, without rack c\n";
        assert!(told.starts_with(expected), "{told}");
        assert!(
            told.contains("cannot be asked: refused\\u{1b}[2J"),
            "{told}"
        );
    }
}
