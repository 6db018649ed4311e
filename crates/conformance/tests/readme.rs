//! README.md by itself: the commands of its sections work as they stand, and it leads to every page of docs/.
//!
//! A section's commands are the lines of its `sh` blocks. What stands behind `  # ` is part of what the command prints. They
//! run one after the other in one bash, as somebody would type them, in a network of their own: the ports in README.md
//! are free there, and everything that was started ends with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use evenkeel_testkit::{Process, binary, require_program};

/// The sections with commands.
const SECTIONS: [&str; 3] = [
    "memcached alone",
    "twemproxy or mcrouter in front",
    "nothing yet",
];

/// Most commands of a section: somebody who tries something out types no more.
const COMMANDS_MAX: usize = 10;

/// Longest wait for the end of a section. It is reached only by a hang, which [`SHELL`] does not notice.
const DEADLINE: Duration = Duration::from_secs(180);

/// Runs commands. `$1` is a folder for what they print; then come commands, each with what it has to print.
///
/// One in the foreground is repeated until it succeeds and prints that, within a minute: nobody types as fast as this, so
/// what was started before may not listen yet. One in the background has to run until the section kills something.
const SHELL: &str = r#"
fail() {
  echo "$1: $command"; echo "it has to print: $expected"; echo 'the last file has what it prints:'
  tail -n +1 $(ls -v "$folder"/*.said)
  exit 1
}
prints() { [ -z "$expected" ] || tr -s ' ' < "$said" | grep -qF -- "$expected"; }
background_runs() {
  for process in "${started[@]}"; do
    kill -0 "$process" 2> /dev/null || fail 'something in the background has ended by itself'
  done
}
pause() {
  background_runs
  [ $SECONDS -lt $end ] || fail 'in vain for a minute'
  sleep 0.02
}
ip link set lo up || exit 1
set -m
folder=$1 started=() number=0
shift
while [ $# -gt 0 ]; do
  number=$((number + 1))
  command=$1 expected=$2 said=$folder/$number.said end=$((SECONDS + 60))
  shift 2
  [[ $command != kill* ]] || started=()
  if [[ $command = *'&' ]]; then
    eval "$command" > "$said" 2>&1 < /dev/null
    started+=($!)
    until prints; do pause; done
  else
    until eval "$command" > "$said" 2>&1 < /dev/null && prints; do pause; done
  fi
  background_runs
done
echo "all went well"
"#;

struct Command {
    words: String,
    /// Part of what it prints, with single spaces; empty if README.md does not say.
    prints: String,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The commands below a heading of the third level.
fn commands(heading: &str) -> Vec<Command> {
    let readme = read(&workspace().join("README.md"));
    let (_, section) = readme
        .split_once(&format!("\n### {heading}\n"))
        .unwrap_or_else(|| panic!("README.md has no section `{heading}`"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let section = section.split("\n### ").next().unwrap_or_default();
    section
        .split("\n```")
        .filter_map(|block| block.strip_prefix("sh\n"))
        .flat_map(str::lines)
        .map(|line| {
            let (words, prints) = line.split_once("  # ").unwrap_or((line, ""));
            Command {
                words: words.trim().to_owned(),
                prints: prints.split_whitespace().collect::<Vec<_>>().join(" "),
            }
        })
        .collect()
}

/// Runs a section of README.md.
fn run(heading: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).expect("the folder is ours");
    std::os::unix::fs::symlink(binary::evenkeel(), programs.join("evenkeel"))
        .expect("the folder is ours");
    for program in ["memcached", "memccp", "nutcracker"] {
        require_program(program);
    }
    let path = std::env::var("PATH").expect("there is a PATH");
    // Debian keeps nutcracker and ip where a user's PATH may not lead.
    let path = format!("{}:{path}:/usr/sbin", programs.display());
    // Root needs no users of its own, and others keep who they are.
    let users: &[&str] = match rustix::process::geteuid().is_root() {
        true => &[],
        false => &["--map-current-user", "--keep-caps"],
    };
    let commands = commands(heading);
    let words = commands
        .iter()
        .flat_map(|command| [&command.words, &command.prints]);
    let mut shell = Process::command(heading, "unshare")
        .args(users)
        .args(["--net", "--pid", "--fork", "--kill-child"])
        .args(["bash", "-c", SHELL, "bash"])
        .arg(folder.path())
        .args(words)
        .current_dir(workspace())
        .env("PATH", path)
        // Where `mktemp` of README.md puts what it makes.
        .env("TMPDIR", folder.path())
        .spawn();
    let status = shell.wait(DEADLINE);
    assert!(status.success(), "README.md, {heading}");
    assert!(shell.stdout_text().ends_with("all went well\n"));
}

#[test]
fn who_has_memcached_alone_gets_a_proxy_and_goes_back() {
    run(SECTIONS[0]);
}

#[test]
fn who_has_twemproxy_gets_a_proxy_and_goes_back() {
    run(SECTIONS[1]);
}

#[test]
fn who_has_nothing_yet_gets_a_cluster_that_bears_a_death() {
    run(SECTIONS[2]);
}

#[test]
fn sections_have_few_commands_and_say_what_they_print() {
    let readme = read(&workspace().join("README.md"));
    let blocks = readme.matches("\n```sh\n").count();
    assert_eq!(
        blocks,
        SECTIONS.len(),
        "other `sh` blocks are run by nobody"
    );
    for heading in SECTIONS {
        let commands = commands(heading);
        assert!(
            (1..=COMMANDS_MAX).contains(&commands.len()),
            "{heading}: {} commands",
            commands.len()
        );
        let told = commands.iter().filter(|command| !command.prints.is_empty());
        assert!(told.count() >= 3, "{heading}: what do its commands print?");
        for Command { words, prints } in &commands {
            let serves = words.starts_with("evenkeel ") && words.ends_with('&');
            assert!(!serves || prints.contains(" on "), "`{words}`: where?");
        }
    }
}

/// Pages that a page links to.
fn links(page: &Path) -> Vec<PathBuf> {
    let text = read(page);
    let folder = page.parent().expect("a file is in a folder");
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|target| target.ends_with(".md") && !target.contains(':'))
        .map(|target| {
            let file = folder.join(target).canonicalize();
            file.unwrap_or_else(|error| panic!("{}: {target}: {error}", page.display()))
        })
        .collect()
}

#[test]
fn every_page_of_docs_is_reached_from_readme() {
    let readme = workspace().join("README.md").canonicalize();
    let mut ahead = vec![readme.expect("README.md is there")];
    let mut reached = BTreeSet::new();
    while let Some(page) = ahead.pop() {
        if !reached.contains(&page) {
            ahead.extend(links(&page));
            reached.insert(page);
        }
    }
    let docs = workspace().join("docs").canonicalize();
    let entries = fs::read_dir(docs.expect("docs is there")).expect("docs can be listed");
    let pages: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry of it").path())
        .filter(|page| page.extension().is_some_and(|extension| extension == "md"))
        .collect();
    assert!(pages.len() > 20, "{pages:?}");
    let missing: Vec<_> = pages
        .iter()
        .filter(|page| !reached.contains(*page))
        .collect();
    assert!(missing.is_empty(), "no way leads to {missing:?}");
}
