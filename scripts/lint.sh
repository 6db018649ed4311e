#!/usr/bin/env bash
# Formatting, lints, documentation and the shape of the workspace. Part of scripts/test.sh.
. "$(dirname "$0")/lib.sh"

need_rust_lints
cd "$ROOT"
say "formatting"
cargo fmt --all --check
say "clippy"
cargo clippy --workspace --all-targets --locked -q -- -D warnings
say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked -q
say "architecture"
cargo test --locked -q -p evenkeel-conformance --test architecture
say "shell scripts"
for script in scripts/*.sh .ci/run; do
  bash -n "$script"
done
