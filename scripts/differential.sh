#!/usr/bin/env bash
# The differential fuzzer alone, for DIFFERENTIAL_SECONDS: random sessions to a real memcached and to a
# server, and what they answer compared. EVENKEEL_SEED=n replays a run. DIFFERENTIAL_REFERENCE names
# another memcached than the one on PATH.
. "$(dirname "$0")/lib.sh"

need_rust
need_program memcached memcached
build_release
cd "$ROOT"
export DIFFERENTIAL_SECONDS=${DIFFERENTIAL_SECONDS:-600}
EVENKEEL_BIN=$TARGET/release/evenkeel cargo test --locked --release -p evenkeel-conformance --test differential "$@" -- --nocapture
