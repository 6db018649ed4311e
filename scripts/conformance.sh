#!/usr/bin/env bash
# The whole comparison with a real memcached and real clients: memccapable, transcripts, bad input, the
# differential fuzzer, and the clients of every language. Arguments go to `cargo test`.
. "$(dirname "$0")/lib.sh"

need_rust
"$ROOT/scripts/test-deps.sh" --all
build_release
cd "$ROOT"
EVENKEEL_BIN=$TARGET/release/evenkeel cargo test --locked -p evenkeel-conformance "$@" -- --include-ignored
