#!/usr/bin/env bash
# Compares hit ratios with memcached's at equal memory on the recorded traces. Prints a table and writes
# JSON. Arguments go to the example, see its beginning.
. "$(dirname "$0")/lib.sh"

need_rust
need_program memcached memcached
cd "$ROOT"
[ -d ../shared/data ] || fail "the traces are expected in ../shared/data"
json=$TARGET/bench-hit-ratio.json
cargo run --locked --release -q -p evenkeel-storage --example hit_ratio -- --json "$json" "$@"
say "written to $json"
