#!/usr/bin/env bash
# Measures the storage library in one process: a store for each thread beside shared caches under locks.
# Prints a table and writes JSON. Arguments go to the example, see its beginning.
. "$(dirname "$0")/lib.sh"

need_rust
cd "$ROOT"
json=$TARGET/bench-storage.json
cargo run --locked --release -q -p evenkeel-storage --example threads -- --json "$json" "$@"
say "written to $json"
