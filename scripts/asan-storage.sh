#!/usr/bin/env bash
# Runs the storage crate's tests under AddressSanitizer (nightly Rust).
. "$(dirname "$0")/lib.sh"

need_nightly
cd "$ROOT"
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
# The sanitizer needs a target of its own, or build scripts would be instrumented too.
RUSTFLAGS="-Zsanitizer=address" \
  cargo +nightly test --target "$host" --target-dir "$TARGET/asan" \
  -p evenkeel-storage --lib --tests "$@"
