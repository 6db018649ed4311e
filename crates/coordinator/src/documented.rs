//! Holds what docs/operations.md says of who gets in against the code.

use clap::{Args, Command};
use evenkeel_control::access::{Denial, TOKEN_LEN_MAX, TOKEN_LEN_MIN, TOKENS_MAX};

use crate::GuardArgs;
use crate::metrics;
use crate::shared_core::Tally;
use evenkeel_member::access::AccessArgs;

const PAGE: &str = include_str!("../../../docs/operations.md");

#[test]
fn each_flag_and_its_variable_stand_there() {
    let guard = GuardArgs::augment_args(Command::new("coordinator"));
    let access = AccessArgs::augment_args(Command::new("member"));
    let mut flags = 0;
    for argument in guard.get_arguments().chain(access.get_arguments()) {
        let flag = argument.get_long().expect("flags have long names");
        let rows = PAGE.lines().filter(|line| line.starts_with("| `--"));
        let named = format!("`--{flag} FILE`");
        let row = rows.into_iter().find(|line| line.contains(&named));
        let row = row.unwrap_or_else(|| panic!("no row of --{flag}"));
        let variable = argument
            .get_env()
            .expect("each has one")
            .to_str()
            .expect("UTF-8");
        let (_, last) = variable.rsplit_once('_').expect("several words");
        assert!(
            row.contains(&format!("`{variable}`")) || row.contains(&format!("`…_{last}`")),
            "{variable} is not in the row of --{flag}"
        );
        flags += 1;
    }
    assert_eq!(flags, 9);
}

#[test]
fn each_reason_metric_and_limit_stands_there() {
    for denial in Denial::ALL {
        let row = format!("| `{}`, ", denial.as_str());
        assert!(PAGE.contains(&row), "{row}");
    }
    let text = metrics::render_doors(&Tally::default());
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<&str> = names.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names.len(), 3);
    for name in names {
        assert!(PAGE.contains(&format!("`{name}")), "{name}");
    }
    let limits = format!("at most {TOKENS_MAX} tokens of {TOKEN_LEN_MIN} to {TOKEN_LEN_MAX} ");
    assert!(PAGE.contains(&limits), "{limits}");
}
