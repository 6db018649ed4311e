//! Stories as text: what applications send, what servers are asked and answer, what applications receive.
//!
//! A file in `scripts/` holds cases. Each begins in a world of its own, at the time 0 with every server well, and says one thing a line:
//!
//! ```text
//! # A comment.
//! case a key that has moved is asked of its new owner
//! servers 2                        The world, see `script/setup.rs`: `memcached 2` for a pool of any memcached servers.
//! a sends     get {k1}             An application, named by any word, sends lines; `{k1}` is a key of server 1.
//! s1 is asked mg {k1} v f c A Y1
//! s1 replies  MOVED 2 2 0          Server 1 is at port 101, 2 at 102, and so on.
//! s2 is asked mg ... => VA 1 f0 c1 | x
//! a receives  VALUE {k1} 0 1 | x   What is indented goes on with the step before.
//!             | END
//! ```
//!
//! In texts ` | ` ends a line, and so does the end of the step; `...` stands for anything, and what is behind ` => ` is the answer.
//!
//! The other steps are in `script/stage.rs`. What servers were asked and what applications received must be the text exactly, and at
//! the end of a case nothing may be left of either that no step has looked at. `nothing` is no text, `something` any but none,
//! `whatever` any.
//!
//! `as in NAME` stands for the steps of a case before, without its world if there is one already. With lines `row ONE => TWO => …` a
//! case is told once for each, with `{1}`, `{2}`, … for what stands there. `{k1b}`, `{k1c}` are more keys of server 1, `{k1*9}` nine of
//! them, `{c1}` the cachelet of the first, `{k1:base64}` its other form. Escapes are `\r`, `\n`, `\0`, and `\(TEXT*N)` for repetition;
//! counts may be `4..10`, with both ends.
//!
//! `EVENKEEL_CASE="part of a name" cargo test -p evenkeel-proxy-core --lib script` tells the cases with such names alone.

mod keys;
mod packets;
mod setup;
mod stage;

use self::setup::Setup;
use self::stage::Stage;
use std::fmt::Write as _;
use std::{env, fs};

/// One test for each file, and one that no file is forgotten.
macro_rules! scripts {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            tell(stringify!($name));
        })*

        #[test]
        fn every_script_is_told() {
            let folder = fs::read_dir(folder()).expect("it is there");
            let mut files: Vec<_> = folder.map(|file| file.expect("it is there").file_name()).collect();
            files.sort();
            assert_eq!(files, [$(concat!(stringify!($name), ".txt")),*]);
        }
    };
}

scripts! { auth binary collapse copies failover failures flushes hot_keys limits local_copies login moves racks reload rings routing sdr stages switch warm words }

fn folder() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/scripts").to_owned()
}

struct Case<'a> {
    name: &'a str,
    /// Steps and their lines in the file, from 1.
    steps: Vec<(usize, String)>,
    rows: Vec<(usize, String)>,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    let lines = text.lines().map(str::trim_end).zip(1..);
    for (line, at) in lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("case ") {
            assert!(
                cases.iter().all(|case| case.name != name),
                "{at}: the second {name:?}"
            );
            let (steps, rows) = (Vec::new(), Vec::new());
            cases.push(Case { name, steps, rows });
            continue;
        }
        if let Some(other) = line.strip_prefix("as in ") {
            let mut others = cases.iter();
            let begun = others
                .find(|case| case.name == other)
                .expect("a case before");
            let begun = begun.steps.clone();
            let steps = &mut cases.last_mut().expect("a case begins").steps;
            // What has a world of its own needs none.
            let has_world = usize::from(!steps.is_empty());
            steps.extend(begun.into_iter().skip(has_world));
            continue;
        }
        let case = cases.last_mut().expect("a case begins before its steps");
        if let Some(row) = line.strip_prefix("row ") {
            case.rows.push((at, row.to_owned()));
        } else if line.starts_with(' ') {
            let lines = if case.rows.is_empty() {
                &mut case.steps
            } else {
                &mut case.rows
            };
            let (_, step) = lines.last_mut().expect("a step to go on with");
            let _ = write!(step, " {}", line.trim_start());
        } else {
            case.steps.push((at, line.to_owned()));
        }
    }
    cases
}

/// Tells where a panic has come from.
struct Place(String);

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in {}", self.0);
        }
    }
}

fn tell(file: &str) {
    let text = fs::read_to_string(format!("{}/{file}.txt", folder())).expect("it can be read");
    let only = env::var("EVENKEEL_CASE").unwrap_or_default();
    let mut failures = String::new();
    for case in cases(&text) {
        if !case.name.contains(&only) {
            continue;
        }
        let once = [(0, String::new())];
        let rows = if case.rows.is_empty() {
            &once[..]
        } else {
            &case.rows
        };
        for (at, row) in rows {
            let columns: Vec<&str> = row.split(" => ").map(str::trim).collect();
            if let Err((line, why)) = play(file, &case, &columns) {
                let row = if *at == 0 {
                    String::new()
                } else {
                    format!(" (row at {at})")
                };
                let _ = writeln!(
                    failures,
                    "{file}.txt:{line}{row}: case {}\n{why}",
                    case.name
                );
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

/// Tells a case, up to the first step that fails.
fn play(file: &str, case: &Case<'_>, columns: &[&str]) -> Result<(), (usize, String)> {
    let mut setup = Some(Setup::default());
    let mut stage = None;
    for (line, step) in &case.steps {
        let _place = Place(format!("{file}.txt:{line}: case {}: {step}", case.name));
        let fail = |why| (*line, format!("  {step}\n{why}"));
        let mut step = step.clone();
        for (column, number) in columns.iter().zip(1..) {
            step = step.replace(&format!("{{{number}}}"), column);
        }
        let is_set_up = match &mut setup {
            Some(setup) => setup.takes(&step).map_err(fail)?,
            None => false,
        };
        if !is_set_up {
            let stage = stage
                .get_or_insert_with(|| Stage::new(setup.take().expect("there is no stage yet")));
            stage.step(&step).map_err(fail)?;
        }
    }
    let last = case.steps.last().map_or(0, |(line, _)| *line);
    let mut stage = stage.ok_or_else(|| (last, "  no step".to_owned()))?;
    stage
        .end()
        .map_err(|why| (last, format!("  at the end of the case\n{why}")))
}
