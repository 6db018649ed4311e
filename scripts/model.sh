#!/usr/bin/env bash
# Every interleaving of the larger stories of hot keys (crates/hotkeys/src/exhaustive/scopes.rs).
# EVENKEEL_SCOPE names one scope alone. Arguments go to the test program.
. "$(dirname "$0")/lib.sh"

need_rust
cd "$ROOT"
cargo test --release --locked -p evenkeel-hotkeys --lib exhaustive -- --ignored --nocapture "$@"
