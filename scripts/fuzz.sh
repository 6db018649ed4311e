#!/usr/bin/env bash
# Runs each fuzz target for FUZZ_SECONDS seconds (default 60). Arguments name the targets; default all.
# FUZZ_LEN: longest input (default 400 bytes). FUZZ_SANITIZER: for the store (default address; none is faster).
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
  # The parsers contain no `unsafe`: without AddressSanitizer they run a hundred times as often.
  sanitizer=none
  if [ "$target" = storage ]; then sanitizer=${FUZZ_SANITIZER:-address}; fi
  # Longer than the longest key; what is longer still has tests of its own.
  cargo +nightly fuzz run -s "$sanitizer" "$target" -- \
    -max_total_time="$seconds" -max_len="${FUZZ_LEN:-400}" -timeout=10
done
printf '\nNo crash found.\n'
