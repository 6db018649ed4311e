#!/usr/bin/env bash
# The planners with HiGHS instead of the solver in pure Rust: their tests, and what plans cost with both.
. "$(dirname "$0")/lib.sh"

for program in cmake c++; do
  have "$program" || fail "$program is missing: HiGHS is built from C++ (apt install cmake g++ libclang-dev)"
done
cd "$ROOT"
say "Building HiGHS takes five minutes the first time"
# A folder of its own, or every other build would begin anew.
export CARGO_TARGET_DIR=$TARGET/highs
cargo test --locked -p evenkeel-policy --features solver-highs --lib migration "$@"
say "Plans with HiGHS"
cargo run -q --locked --release -p evenkeel-policy --features solver-highs --example plan_cost
say "Plans with microlp"
cargo run -q --locked --release -p evenkeel-policy --example plan_cost
