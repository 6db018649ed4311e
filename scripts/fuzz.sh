#!/usr/bin/env bash
# Runs each fuzz target for FUZZ_SECONDS seconds (default 60). Arguments name the targets; default all.
. "$(dirname "$0")/lib.sh"

need_nightly
cargo fuzz --version >/dev/null 2>&1 \
  || cargo install --locked cargo-fuzz >&2 || fail "cargo could not install cargo-fuzz"
cd "$ROOT"
seconds=${FUZZ_SECONDS:-60}
if [ $# = 0 ]; then
  mapfile -t targets < <(cargo +nightly fuzz list)
  set -- "${targets[@]}"
fi
for target in "$@"; do
  say "fuzzing $target for $seconds s"
  cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -timeout=10
done
printf '\nNo crash found.\n'
