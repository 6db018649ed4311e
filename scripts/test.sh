#!/usr/bin/env bash
# Everything that must hold before a change is accepted. Arguments go to `cargo test`.
. "$(dirname "$0")/lib.sh"

need_rust_lints
"$ROOT/scripts/test-deps.sh"
"$ROOT/scripts/lint.sh"
build_release
export EVENKEEL_BIN=$TARGET/release/evenkeel
say "tests"
cd "$ROOT"
cargo test --workspace --locked "$@"
printf '\nAll checks and tests passed.\n'
