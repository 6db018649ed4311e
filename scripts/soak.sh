#!/usr/bin/env bash
# Random and hostile clients against `evenkeel server` for SOAK_SECONDS (default 600). EVENKEEL_SEED
# replays what a run has printed. Arguments go to the test program.
. "$(dirname "$0")/lib.sh"

need_rust
build_release
cd "$ROOT"
export EVENKEEL_BIN=$TARGET/release/evenkeel SOAK_SECONDS=${SOAK_SECONDS:-600}
cargo test --release --locked -p evenkeel-conformance --test soak -- --nocapture "$@"
