#!/usr/bin/env bash
# A cluster whose processes are killed and stopped for CHAOS_SECONDS (default 600), half of them with atomic
# writes, while applications read and write hot keys through it; what they were told is judged. EVENKEEL_SEED
# repeats the choices of a run. Arguments go to the test program.
. "$(dirname "$0")/lib.sh"

need_rust
build_release
cd "$ROOT"
export EVENKEEL_BIN=$TARGET/release/evenkeel CHAOS_SECONDS=${CHAOS_SECONDS:-600}
cargo test --release --locked -p evenkeel-conformance --test consistency -- --nocapture --include-ignored chaos "$@"
