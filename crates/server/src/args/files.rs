//! Flags that stand in files: `--config`, and memcached's own configuration by
//! `--from-memcached-conf`.
//!
//! What a file says is brought into the form of a command line, so that there is one place that
//! knows the flags. A flag of the real command line, or one whose environment variable is set, wins
//! over a file's; `--config` wins over `--from-memcached-conf`. Only the lists of `-o` add up.
//!
//! ```text
//!  /etc/memcached.conf (Debian)      /etc/sysconfig/memcached (RHEL)      evenkeel.toml
//!  -m 64                             PORT="11211"                         port = 11211
//!  -l 127.0.0.1                      CACHESIZE="64"                       listen = ["127.0.0.1"]
//!  # -o modern                       OPTIONS="-l 127.0.0.1"               extended = ["track_sizes"]
//! ```

use super::Args;
use super::nearest::did_you_mean;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use evenkeel_runtime::UsageError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Largest configuration file, in bytes: what is larger is something else.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Flags as words of a command line, and the line of the file they stand in.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    number: usize,
    words: Vec<String>,
}

/// A file's lines, and what to warn about.
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    lines: Vec<Line>,
    warnings: Vec<String>,
}

/// The flags of the files that a parsed command line names, for insertion before its own flags; and
/// the warnings to print. Flags that the command line or the environment gives are left out.
///
/// # Errors
/// Names the file, the line and what is wrong there.
pub fn file_arguments(given: &ArgMatches) -> Result<(Vec<OsString>, Vec<String>), UsageError> {
    let command = bare_command();
    let mut arguments: Vec<OsString> = Vec::new();
    let mut warnings = Vec::new();
    let mut taken: Vec<String> = Vec::new();
    for (id, read) in [
        ("config", read_toml as fn(&str) -> Result<Content, Problem>),
        ("from_memcached_conf", read_memcached),
    ] {
        let Some(path) = given.get_one::<PathBuf>(id) else {
            continue;
        };
        let text = read_text(path)?;
        let at =
            |line: usize, what: String| UsageError(format!("{}:{line}: {what}", path.display()));
        let content = read(&text).map_err(|problem| at(problem.line, problem.what))?;
        warnings.extend(
            content
                .warnings
                .iter()
                .map(|warning| format!("{}:{warning}", path.display())),
        );
        let mut words = vec!["server".to_owned()];
        for line in content.lines {
            let alone = std::iter::once("server".to_owned()).chain(line.words.clone());
            command
                .clone()
                .try_get_matches_from(alone)
                .map_err(|error| at(line.number, first_line(&error)))?;
            words.extend(line.words);
        }
        let found = command
            .clone()
            .args_override_self(true)
            .try_get_matches_from(words)
            .map_err(|error| UsageError(format!("{}: {}", path.display(), first_line(&error))))?;
        // What stands later wins, and the file that is looked at first is the one that should.
        let mut before = Vec::new();
        for arg in command.get_arguments() {
            let id = arg.get_id().as_str();
            let adds_up = id == "extended";
            let decided = taken.iter().any(|taken| taken == id)
                || matches!(
                    given.value_source(id),
                    Some(ValueSource::CommandLine | ValueSource::EnvVariable)
                );
            if found.value_source(id) == Some(ValueSource::CommandLine) && (adds_up || !decided) {
                before.extend(as_words(arg, &found));
                taken.push(id.to_owned());
            }
        }
        before.append(&mut arguments);
        arguments = before;
    }
    Ok((arguments, warnings))
}

/// The flags of `evenkeel server`, without what the environment says.
fn bare_command() -> Command {
    let command = <Args as clap::Args>::augment_args(Command::new("server"));
    command
        .disable_help_flag(true)
        .mut_args(|arg| arg.env(None::<&str>))
}

/// A flag that was found, as words.
fn as_words(arg: &Arg, found: &ArgMatches) -> Vec<OsString> {
    let id = arg.get_id().as_str();
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => return Vec::new(),
    };
    match arg.get_action() {
        ArgAction::SetTrue => vec![name.into()],
        ArgAction::Count => vec![name.into(); usize::from(found.get_count(id))],
        _ => found
            .get_raw(id)
            .into_iter()
            .flatten()
            .flat_map(|value| [OsString::from(&name), value.to_owned()])
            .collect(),
    }
}

/// What is wrong in a file.
#[derive(Debug)]
struct Problem {
    line: usize,
    what: String,
}

#[allow(clippy::disallowed_methods, reason = "at the start")]
fn read_text(path: &Path) -> Result<String, UsageError> {
    let fail = |what: String| UsageError(format!("{}: {what}", path.display()));
    let length = std::fs::metadata(path)
        .map_err(|error| fail(error.to_string()))?
        .len();
    if length > FILE_BYTES_MAX {
        return Err(fail("too large for a configuration file".into()));
    }
    std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))
}

/// What clap says, without its summary of the usage.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Reads either of the two forms that memcached's packages use.
fn read_memcached(text: &str) -> Result<Content, Problem> {
    let mut content = Content::default();
    for (index, raw) in text.lines().enumerate() {
        let number = index + 1;
        let line = without_comment(raw).trim();
        if line.is_empty() {
            continue;
        }
        let words = if line.starts_with('-') {
            split_words(line)
        } else if let Some((name, value)) = line.split_once('=') {
            let value = unquoted(value.trim()).to_owned();
            let flag = match name.trim() {
                "PORT" => "-p",
                "USER" => "-u",
                "MAXCONN" => "-c",
                "CACHESIZE" => "-m",
                "OPTIONS" => "",
                other => {
                    content.warnings.push(format!(
                        "{number}: {other} has no meaning here and is ignored"
                    ));
                    continue;
                }
            };
            match flag {
                "" => split_words(&value),
                flag => vec![flag.to_owned(), value],
            }
        } else if line.starts_with("logfile") {
            content.warnings.push(format!(
                "{number}: logfile is ignored: messages go to standard error"
            ));
            continue;
        } else {
            return Err(Problem {
                line: number,
                what: format!("`{line}` is neither a flag nor a setting"),
            });
        };
        let (background, words): (Vec<_>, Vec<_>) = words
            .into_iter()
            .partition(|word| word == "-d" || word == "--daemon");
        if !background.is_empty() {
            // Debian's own starter skips it too: the file is read by whatever supervises the server.
            content.warnings.push(format!(
                "{number}: -d is ignored in a file; give it on the command line"
            ));
        }
        if !words.is_empty() {
            content.lines.push(Line { number, words });
        }
    }
    Ok(content)
}

/// A line up to its comment: `#` at its beginning or behind a space, unless quoted.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == '#' && before.is_whitespace() => return &line[..at],
            None => {}
        }
        before = c;
    }
    line
}

/// Words between spaces; quotes hold a word together, as in a shell.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut quote, mut begun) = (None, false);
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.push(c),
            None if c == '"' || c == '\'' => (quote, begun) = (Some(c), true),
            None if c.is_whitespace() => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            None => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

fn unquoted(text: &str) -> &str {
    ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(text)
}

/// Reads TOML whose keys are the long names of flags, with `_` or `-`.
fn read_toml(text: &str) -> Result<Content, Problem> {
    let line_of = |offset: usize| 1 + text[..offset.min(text.len())].matches('\n').count();
    let table = DeTable::parse(text).map_err(|error| Problem {
        line: error.span().map_or(1, |span| line_of(span.start)),
        what: error.message().to_owned(),
    })?;
    let command = bare_command();
    let named = |arg: &Arg| arg.get_long().map(str::to_owned);
    let mut content = Content::default();
    for (key, value) in table.get_ref() {
        let number = line_of(key.span().start);
        let fail = |what: String| Err(Problem { line: number, what });
        let name = key.get_ref().replace('_', "-");
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(&name) && arg.get_id() != "config");
        let Some(arg) = arg else {
            let known: Vec<String> = command.get_arguments().filter_map(named).collect();
            let known: Vec<String> = known.iter().map(|name| name.replace('-', "_")).collect();
            let suggestion = did_you_mean(key.get_ref(), known.iter().map(String::as_str));
            return fail(format!("unknown setting {}{suggestion}", key.get_ref()));
        };
        let words = match toml_words(arg, value.get_ref()) {
            Some(words) => words,
            None => {
                return fail(format!(
                    "{}: a value of another kind is wanted",
                    key.get_ref()
                ));
            }
        };
        if !words.is_empty() {
            content.lines.push(Line { number, words });
        }
    }
    content.lines.sort_by_key(|line| line.number);
    Ok(content)
}

/// A setting as words; `None` when its value does not fit the flag.
fn toml_words(arg: &Arg, value: &DeValue<'_>) -> Option<Vec<String>> {
    let name = format!("--{}", arg.get_long()?);
    let text = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        _ => None,
    };
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, DeValue::Boolean(true)) => Some(vec![name]),
        (ArgAction::SetTrue, DeValue::Boolean(false)) => Some(Vec::new()),
        (ArgAction::SetTrue, _) => None,
        (ArgAction::Count, value) => {
            let count: u8 = text(value)?.parse().ok()?;
            Some(vec![name; usize::from(count)])
        }
        (ArgAction::Append, DeValue::Array(values)) => {
            let values = values.iter().map(|value| text(value.get_ref()));
            let values = values.collect::<Option<Vec<String>>>()?;
            Some(
                values
                    .into_iter()
                    .map(|value| format!("{name}={value}"))
                    .collect(),
            )
        }
        (_, value) => Some(vec![format!("{name}={}", text(value)?)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(content: &Content) -> Vec<String> {
        content
            .lines
            .iter()
            .map(|line| format!("{}: {}", line.number, line.words.join(" ")))
            .collect()
    }

    #[test]
    fn debians_file_is_one_flag_a_line() {
        let content = read_memcached(
            "# memcached default config file\n\n-d\nlogfile /var/log/memcached.log\n# -v\n-m 64\n\
             -p 11211 # the port\n-u memcache\n-l 127.0.0.1\n-o modern,idle_timeout=5\n-vv\n\
             -P /run/memcached/memcached.pid\n",
        )
        .expect("sound");
        assert_eq!(
            words(&content),
            [
                "6: -m 64",
                "7: -p 11211",
                "8: -u memcache",
                "9: -l 127.0.0.1",
                "10: -o modern,idle_timeout=5",
                "11: -vv",
                "12: -P /run/memcached/memcached.pid"
            ]
        );
        assert_eq!(content.warnings.len(), 2, "{:?}", content.warnings);
    }

    #[test]
    fn red_hats_file_is_a_list_of_variables() {
        let content = read_memcached(
            "PORT=\"11211\"\nUSER=\"memcached\"\nMAXCONN='2048'\nCACHESIZE=128\n\
             OPTIONS=\"-l 127.0.0.1,::1 -o idle_timeout=3 -D '#'\"\nOTHER=1\n",
        )
        .expect("sound");
        assert_eq!(
            words(&content),
            [
                "1: -p 11211",
                "2: -u memcached",
                "3: -c 2048",
                "4: -m 128",
                "5: -l 127.0.0.1,::1 -o idle_timeout=3 -D #"
            ]
        );
        assert_eq!(content.warnings.len(), 1);
    }

    #[test]
    fn what_is_neither_form_is_refused_with_its_line() {
        let problem = read_memcached("-m 64\nmemory 64\n").expect_err("no flag");
        assert_eq!(problem.line, 2);
        assert!(problem.what.contains("memory 64"));
    }

    #[test]
    fn toml_settings_are_flags() {
        let content = read_toml(
            "memory_limit = 100\nlisten = [\"127.0.0.1\", \"[::1]:5\"]\ndisable-cas = true\n\
             disable_flush_all = false\nverbose = 2\nextended = [\"idle_timeout=4\"]\n\
             drain_timeout = 25\n",
        )
        .expect("sound");
        assert_eq!(
            words(&content),
            [
                "1: --memory-limit=100",
                "2: --listen=127.0.0.1 --listen=[::1]:5",
                "3: --disable-cas",
                "5: --verbose --verbose",
                "6: --extended=idle_timeout=4",
                "7: --drain-timeout=25"
            ]
        );
    }

    #[test]
    fn toml_that_cannot_be_used_names_line_and_setting() {
        for (text, line, named) in [
            (
                "port = 1\nmemory_limt = 5\n",
                2,
                "did you mean memory_limit?",
            ),
            ("port = [1]\n", 1, "port"),
            ("disable_cas = 1\n", 1, "disable_cas"),
            ("port = 1\n[listen]\na = 1\n", 2, "listen"),
            ("\nport = = 1\n", 2, ""),
            ("config = \"other.toml\"\n", 1, "unknown setting config"),
        ] {
            let problem = read_toml(text).expect_err(text);
            assert_eq!(problem.line, line, "{text}: {}", problem.what);
            assert!(problem.what.contains(named), "{text}: {}", problem.what);
        }
    }

    /// What `evenkeel server` makes of a command line whose files hold `toml` and `conf`.
    fn merged(line: &str, toml: &str, conf: &str) -> Result<Vec<String>, UsageError> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (toml_path, conf_path) = (dir.path().join("e.toml"), dir.path().join("m.conf"));
        std::fs::write(&toml_path, toml).expect("written");
        std::fs::write(&conf_path, conf).expect("written");
        let line = line
            .replace("TOML", toml_path.to_str().expect("text"))
            .replace("CONF", conf_path.to_str().expect("text"));
        let words = std::iter::once("server").chain(line.split_whitespace());
        let given = bare_command().try_get_matches_from(words).expect("flags");
        let (arguments, _) = file_arguments(&given)?;
        Ok(arguments
            .into_iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect())
    }

    #[test]
    fn the_command_line_wins_over_files_and_lists_of_o_add_up() {
        let arguments = merged(
            "--config TOML --from-memcached-conf CONF -m 5 -o track_sizes",
            "memory_limit = 6\nthreads = 3\nextended = [\"idle_timeout=1\"]\n",
            "-m 7\n-t 8\n-c 9\n-o maxconns_fast\n-F\n",
        )
        .expect("sound");
        assert_eq!(
            arguments.join(" "),
            "--conn-limit 9 --disable-flush-all --extended maxconns_fast --threads 3 \
             --extended idle_timeout=1"
        );
    }

    #[test]
    fn a_bad_line_of_a_file_is_named_with_file_and_line() {
        let error =
            merged("--from-memcached-conf CONF", "", "-m 64\n-p seventy\n").expect_err("no number");
        assert!(error.0.contains("m.conf:2: "), "{error}");
        assert!(error.0.contains("seventy"), "{error}");
        let error = merged("--config TOML", "threads = \"x\"\n", "").expect_err("no number");
        assert!(error.0.contains("e.toml:1: "), "{error}");
    }
}
