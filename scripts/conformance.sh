#!/usr/bin/env bash
# The comparison with a real memcached and the real clients, alone. Arguments go to `cargo test`.
. "$(dirname "$0")/lib.sh"

need_rust
"$ROOT/scripts/test-deps.sh"
build_release
cd "$ROOT"
EVENKEEL_BIN=$TARGET/release/evenkeel cargo test --locked -p evenkeel-conformance "$@"
