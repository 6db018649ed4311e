//! `evenkeel settings`: what holds for all servers of a cluster, seen and changed.

use crate::ask::{self, CoordinatorArgs, Format};
use clap::Subcommand;
use evenkeel_coordinator_core::{SETTINGS, Settings};
use serde_json::{Map, Value};

/// What brings a default back.
const DEFAULT: &str = "default";

/// Shows and changes the settings of a cluster, by which all its servers replicate hot keys.
///
/// Servers learn a change with their next heartbeat, within half a second, and work by it at once. The coordinator keeps
/// the settings over restarts.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The coordinator to ask
    #[command(flatten)]
    pub coordinator: CoordinatorArgs,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table, global = true)]
    pub format: Format,

    /// What to do; without it, show all
    #[command(subcommand)]
    pub command: Option<What>,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Changes settings, all of those that are named or none
    Set {
        /// What is to hold, such as hot_keys=off; `default` brings a default back
        #[arg(value_name = "NAME=VALUE", required = true, value_parser = parse_choice)]
        choices: Vec<(String, Value)>,
    },
}

/// Reads `NAME=VALUE`. What may be chosen the coordinator knows.
fn parse_choice(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| "it should be NAME=VALUE, such as hot_keys=off".to_owned())?;
    let word = || Value::String(value.to_owned());
    let value = match value {
        DEFAULT => Value::Null,
        _ => serde_json::from_str(value).unwrap_or_else(|_| word()),
    };
    Ok((name.to_owned(), value))
}

/// Asks, or says what is wanted, and prints what holds then.
///
/// # Errors
/// When the address is none, or the coordinator refuses or does not answer.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let client = args.coordinator.client()?;
    let settings = match &args.command {
        None => client.settings()?,
        Some(What::Set { choices }) => {
            let change: Map<String, Value> = choices.iter().cloned().collect();
            client.change_settings(&Value::Object(change))?
        }
    };
    args.format.print(&settings, table)
}

fn table(settings: &Settings) -> String {
    let settings = serde_json::to_value(settings).unwrap_or_default();
    let rows = SETTINGS.iter().map(|(name, allowed)| {
        let value = match &settings[name] {
            Value::Null => DEFAULT.to_owned(),
            Value::String(word) => word.clone(),
            number => number.to_string(),
        };
        [(*name).to_owned(), value, (*allowed).to_owned()]
    });
    ask::table("setting|is|may be", rows).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn choices_are_words_numbers_and_the_default() {
        for (text, value) in [
            ("a=off", json!("off")),
            ("a=400", json!(400)),
            ("a=2.5", json!(2.5)),
            ("a=default", Value::Null),
            ("a=", json!("")),
            ("a=b=c", json!("b=c")),
        ] {
            assert_eq!(parse_choice(text), Ok(("a".to_owned(), value)), "{text}");
        }
        assert!(parse_choice("off").is_err());
    }

    #[test]
    fn the_table_has_a_row_for_each() {
        let text = table(&Settings::default());
        for (name, allowed) in SETTINGS {
            let row = text.lines().find(|line| line.contains(name));
            assert!(row.is_some_and(|row| row.contains(allowed)), "{text}");
        }
        assert!(text.contains(DEFAULT), "{text}");
    }
}
