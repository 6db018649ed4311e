#!/usr/bin/env bash
# Runs the tests of what threads share under ThreadSanitizer (nightly Rust): the queues between workers
# and the memory budget.
. "$(dirname "$0")/lib.sh"

need_nightly
rustup +nightly component add rust-src >/dev/null 2>&1 || fail "rust-src for nightly Rust is missing"
cd "$ROOT"
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
# The standard library is built along, or its locks and atomics would look like races.
RUSTFLAGS="-Zsanitizer=thread" \
  cargo +nightly test --locked -Zbuild-std --target "$host" --target-dir "$TARGET/tsan" \
  -p evenkeel-runtime -p evenkeel-storage --lib "$@"
printf '\nNo data race found.\n'
