//! The shape of the workspace: which crate may know which, what the pure crates must not know,
//! where `unsafe` may stand, and how long a file may be.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates, each with the crates it may use. Everything in a list stands above its user, so the
/// table cannot hold a cycle; a test checks that too.
const MAY_USE: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("protocol", &["types"]),
    ("placement", &["types"]),
    ("schemes", &["types", "protocol"]),
    ("profile", &["types", "schemes"]),
    ("balance", &["types", "placement"]),
    ("hotkeys", &["types", "placement", "schemes", "balance"]),
    ("storage", &["types"]),
    (
        "control",
        &[
            "types",
            "protocol",
            "placement",
            "schemes",
            "balance",
            "hotkeys",
        ],
    ),
    (
        "server-core",
        &[
            "types",
            "protocol",
            "placement",
            "schemes",
            "balance",
            "hotkeys",
            "storage",
            "control",
        ],
    ),
    (
        "proxy-core",
        &[
            "types",
            "protocol",
            "placement",
            "schemes",
            "profile",
            "hotkeys",
            "control",
        ],
    ),
    (
        "coordinator-core",
        &[
            "types",
            "placement",
            "schemes",
            "balance",
            "hotkeys",
            "control",
        ],
    ),
    ("runtime", &["types"]),
    ("workload", &["types"]),
    ("launch", &[]),
    ("scaler", &[]),
    (
        "member",
        &["types", "schemes", "control", "coordinator-core", "runtime"],
    ),
    (
        "coordinator",
        &[
            "types",
            "protocol",
            "schemes",
            "control",
            "coordinator-core",
            "runtime",
            "scaler",
            "member",
        ],
    ),
    (
        "server",
        &[
            "types",
            "protocol",
            "balance",
            "hotkeys",
            "storage",
            "control",
            "server-core",
            "runtime",
            "member",
        ],
    ),
    (
        "proxy",
        &[
            "types",
            "protocol",
            "placement",
            "schemes",
            "profile",
            "hotkeys",
            "control",
            "proxy-core",
            "runtime",
            "member",
        ],
    ),
    (
        "bench",
        &["types", "protocol", "runtime", "workload", "launch"],
    ),
    (
        "sim",
        &[
            "types",
            "protocol",
            "placement",
            "schemes",
            "balance",
            "hotkeys",
            "storage",
            "control",
            "server-core",
            "proxy-core",
            "coordinator-core",
            "workload",
        ],
    ),
    (
        "experiments",
        &[
            "types",
            "placement",
            "schemes",
            "balance",
            "hotkeys",
            "coordinator-core",
            "runtime",
            "workload",
            "member",
            "bench",
            "sim",
        ],
    ),
    (
        "cli",
        &[
            "types",
            "protocol",
            "schemes",
            "profile",
            "control",
            "coordinator-core",
            "runtime",
            "workload",
            "launch",
            "member",
            "coordinator",
            "server",
            "proxy",
            "bench",
            "sim",
            "experiments",
        ],
    ),
    ("testkit", &["launch"]),
    (
        "conformance",
        &["types", "coordinator-core", "bench", "testkit"],
    ),
];

/// What tests, benchmarks and examples may use besides.
const TESTS_MAY_USE: &[&str] = &[
    "placement",
    "testkit",
    "workload",
    "sim",
    "bench",
    "server-core",
    "storage",
    "coordinator-core",
];

/// Crates that open no sockets, read no clock, start no threads and own no global state.
const PURE: &[&str] = &[
    "types",
    "protocol",
    "placement",
    "schemes",
    "profile",
    "balance",
    "hotkeys",
    "storage",
    "control",
    "server-core",
    "proxy-core",
    "coordinator-core",
];

/// Libraries that would bring a clock, sockets or threads into a pure crate.
const IMPURE_LIBRARIES: &[&str] = &[
    "axum",
    "core_affinity",
    "crossterm",
    "hickory-resolver",
    "indicatif",
    "libc",
    "mio",
    "rtrb",
    "rustix",
    "signal-hook",
    "socket2",
    "tempfile",
    "tokio",
    "ureq",
];

/// Crates in which `unsafe` may stand.
const UNSAFE_ALLOWED: &[&str] = &["storage", "runtime"];

/// A file longer than this holds more than one idea.
const FILE_LINES_MAX: usize = 900;

/// A file longer than this is printed, so that somebody looks at it.
const FILE_LINES_WORTH_A_LOOK: usize = 600;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace is above this crate")
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(dir) else {
        return files;
    };
    for entry in entries {
        let path = entry.expect("a source folder can be listed").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One `[dependencies]` line of a crate of ours.
struct Dependency {
    of: String,
    name: String,
    only_in_tests: bool,
}

fn dependencies() -> Vec<Dependency> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(workspace())
        .output()
        .expect("cargo started this test, so it can be started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages = metadata["packages"]
        .as_array()
        .expect("metadata has packages");
    let mut dependencies = Vec::new();
    for package in packages {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            dependencies.push(Dependency {
                of: text(&package["name"]),
                name: text(&dependency["name"]),
                only_in_tests: dependency["kind"] == "dev",
            });
        }
    }
    assert!(
        dependencies.len() > MAY_USE.len(),
        "cargo metadata lists the dependencies"
    );
    dependencies
}

fn rules() -> BTreeMap<&'static str, &'static [&'static str]> {
    MAY_USE.iter().copied().collect()
}

#[test]
fn the_table_names_every_crate_and_points_one_way() {
    let mut seen: Vec<&str> = Vec::new();
    for (name, may_use) in MAY_USE {
        for below in *may_use {
            // `sim` is listed before `cli`, and so on: what a crate uses stands above it.
            assert!(
                seen.contains(below),
                "{name} may use {below}, which stands below it"
            );
        }
        seen.push(name);
    }
    let mut folders: Vec<String> = fs::read_dir(workspace().join("crates"))
        .expect("the workspace has crates")
        .map(|entry| {
            entry
                .expect("listed")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    folders.sort();
    seen.sort_unstable();
    assert_eq!(
        folders, seen,
        "crates/ and the table in this file name the same crates"
    );
}

#[test]
fn dependencies_point_the_allowed_way() {
    let rules = rules();
    let mut wrong = Vec::new();
    for Dependency {
        of,
        name,
        only_in_tests,
    } in dependencies()
    {
        let (Some(of), Some(name)) = (of.strip_prefix("evenkeel-"), name.strip_prefix("evenkeel-"))
        else {
            continue;
        };
        let allowed = rules[of].contains(&name)
            || only_in_tests && TESTS_MAY_USE.contains(&name)
            // A crate's tests may name the crate itself, as some benchmarks do.
            || only_in_tests && of == name;
        if !allowed {
            wrong.push(format!("{of} must not use {name}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_crates_use_no_library_with_sockets_clocks_or_threads() {
    let wrong: Vec<String> = dependencies()
        .into_iter()
        .filter(|dependency| !dependency.only_in_tests)
        .filter(|dependency| {
            PURE.contains(&dependency.of.trim_start_matches("evenkeel-"))
                && IMPURE_LIBRARIES.contains(&dependency.name.as_str())
        })
        .map(|dependency| format!("{} must not use {}", dependency.of, dependency.name))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Clippy finds clocks, sockets, threads and files by `clippy.toml`; what a static holds it does not know.
#[test]
fn pure_crates_deny_what_their_clippy_toml_lists_and_have_no_global_state() {
    let root = workspace();
    let mut wrong = Vec::new();
    for name in PURE {
        let dir = root.join("crates").join(name);
        let lists = ["methods", "types", "macros"];
        let (denied, listed) = (
            read(&dir.join("src/lib.rs")),
            read(&dir.join("clippy.toml")),
        );
        for list in lists {
            assert!(
                denied.contains(&format!("clippy::disallowed_{list}")),
                "{name}"
            );
            assert!(listed.contains(&format!("disallowed-{list} = [")), "{name}");
        }
        for file in rust_files(&dir.join("src")) {
            for (number, line) in read(&file).lines().enumerate() {
                if is_mutable_static(line) {
                    wrong.push(format!("{}:{}: {line}", file.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "global state:\n{}", wrong.join("\n"));
}

/// `static mut`, or a static of a type that changes behind a shared reference, in a line as rustfmt writes it.
fn is_mutable_static(line: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let Some(declared) = line.strip_prefix("static ") else {
        return false;
    };
    let cells = ["Atomic", "Mutex", "RwLock", "Cell<", "OnceLock", "LazyLock"];
    declared.starts_with("mut ") || cells.iter().any(|cell| declared.contains(cell))
}

#[test]
fn mutable_statics_are_known() {
    for line in [
        "static mut COUNT: u32 = 0;",
        "pub static COUNT: AtomicUsize = AtomicUsize::new(0);",
        "    static CELL: OnceLock<u8> = OnceLock::new();",
    ] {
        assert!(is_mutable_static(line), "{line}");
    }
    assert!(!is_mutable_static(
        "static NAMES: [&str; 2] = [\"a\", \"b\"];"
    ));
}

#[test]
fn unsafe_stands_in_two_crates_alone() {
    let root = workspace();
    let mut wrong = Vec::new();
    for (name, _) in MAY_USE
        .iter()
        .filter(|(name, _)| !UNSAFE_ALLOWED.contains(name))
    {
        let dir = root.join("crates").join(name);
        for file in rust_files(&dir) {
            for (number, line) in read(&file).lines().enumerate() {
                if says_unsafe(line) {
                    wrong.push(format!("{}:{}: {line}", file.display(), number + 1));
                }
            }
        }
        let roots = [dir.join("src/lib.rs"), dir.join("src/main.rs")];
        for root in roots.iter().filter(|root| root.exists()) {
            if !read(root)
                .lines()
                .any(|line| line == "#![forbid(unsafe_code)]")
            {
                wrong.push(format!("{} lacks #![forbid(unsafe_code)]", root.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a line says `unsafe` outside comments and texts.
fn says_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = code
        .split('"')
        .step_by(2)
        .flat_map(|part| part.split(|c| !is_word(c)));
    words.any(|word| word == ["un", "safe"].concat())
}

#[test]
fn unsafe_is_found_in_code_alone() {
    let word = ["un", "safe"].concat();
    assert!(says_unsafe(&format!("    let x = {word} {{ f(\"a\") }};")));
    assert!(!says_unsafe(&format!("// {word}")));
    assert!(!says_unsafe(&format!(
        "#![forbid({word}_code)] // no {word}"
    )));
    assert!(!says_unsafe(&format!("const S: &str = \"{word}\";")));
}

#[test]
fn files_hold_one_idea() {
    let mut too_long = Vec::new();
    for file in rust_files(&workspace().join("crates")) {
        let lines = read(&file).lines().count();
        if lines > FILE_LINES_WORTH_A_LOOK {
            println!("{lines} lines: {}", file.display());
        }
        if lines > FILE_LINES_MAX {
            too_long.push(format!("{}: {lines} lines", file.display()));
        }
    }
    assert!(
        too_long.is_empty(),
        "longer than {FILE_LINES_MAX} lines:\n{}",
        too_long.join("\n")
    );
}

/// Documents that name files of the code.
fn documents() -> Vec<PathBuf> {
    let root = workspace();
    let mut found: Vec<_> = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"]
        .map(|name| root.join(name))
        .into();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of documents can be listed") {
            let path = entry.expect("an entry of it").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// What stands between backticks, one after the other, with what stands before each.
fn code_spans(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<_> = text.split('`').collect();
    parts
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .collect()
}

/// A path from the root of the repository, as documents write it.
fn is_path(span: &str) -> bool {
    let is_ours = ["crates/", "docs/", "scripts/", "fuzz/"]
        .iter()
        .any(|start| span.starts_with(start));
    is_ours
        && span
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b))
}

#[test]
fn documents_name_files_that_are_there_and_functions_that_are_in_them() {
    let (root, mut wrong) = (workspace(), Vec::new());
    let (mut files, mut functions) = (0, 0);
    for document in documents() {
        let text = read(&document);
        let name = document
            .strip_prefix(&root)
            .expect("it is below")
            .display()
            .to_string();
        let mut file: Option<&str> = None;
        for (before, span) in code_spans(&text) {
            // "`crates/a/src/b.rs` `function`", one behind the other.
            if let Some(path) = file.take().filter(|_| before.trim().is_empty()) {
                functions += 1;
                if !read(&root.join(path)).contains(&format!("fn {span}")) {
                    wrong.push(format!("{name}: no function {span} in {path}"));
                }
            }
            if is_path(span) {
                files += 1;
                match root.join(span).exists() {
                    true if span.ends_with(".rs") => file = Some(span),
                    true => {}
                    false => wrong.push(format!("{name}: no file {span}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(
        files > 100 && functions > 40,
        "{files} files, {functions} functions were named"
    );
}

#[test]
fn each_requirement_names_what_proves_it() {
    let page = read(&workspace().join("docs/papers.md"));
    for (paper, count) in [('S', 11), ('M', 10), ('H', 7), ('R', 8), ('T', 7)] {
        for number in 1..=count {
            let start = format!("| {paper}{number} | ");
            let row = page.lines().find(|line| line.starts_with(&start));
            let row = row.unwrap_or_else(|| panic!("no row {start}"));
            let (_, proof) = row
                .trim_end_matches(" |")
                .rsplit_once(" | ")
                .expect("cells");
            if row.contains("| **not built** |") {
                continue;
            }
            // That these functions are there is another test's.
            let proofs = code_spans(proof)
                .iter()
                .filter(|(_, span)| span.ends_with(".rs"))
                .count();
            assert!(proofs > 0, "nothing proves {paper}{number}");
        }
    }
}
