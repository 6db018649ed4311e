#!/usr/bin/env bash
# Formatting, lints, documentation and the shape of the workspace. Part of scripts/test.sh.
. "$(dirname "$0")/lib.sh"

need_rust_lints
cd "$ROOT"
deny=(-D warnings)
if ! not_older "$RUST_DEVELOPED_WITH" "$(rust_version)"; then
  say "Rust $(rust_version) is newer than $RUST_DEVELOPED_WITH: its warnings are shown and fail nothing"
  deny=()
fi
say "formatting"
cargo fmt --all --check
say "clippy"
cargo clippy --workspace --all-targets --locked -q -- "${deny[@]}"
say "documentation"
RUSTDOCFLAGS="${deny[*]}" cargo doc --workspace --no-deps --locked -q
say "architecture"
cargo test --locked -q -p evenkeel-conformance --test architecture
say "shell scripts"
for script in scripts/*.sh .ci/run; do
  bash -n "$script"
done
