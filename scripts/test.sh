#!/usr/bin/env bash
# What must hold, in three tiers; the first argument names one:
#   check    the inner loop: formatting, clippy, unit tests without processes
#   test     what a change must pass: also documentation, all tests over real processes, doc tests
#   nightly  what takes longer: all of it with the binary that is shipped, one program at a time, all seeds, every
#            client, io_uring everywhere, the exhaustive model, sanitizers
# The other arguments go to scripts/run-tests.py, which runs the tests. A part that fails does not hide the rest. Ends
# with a table of how long each part took.
. "$(dirname "$0")/lib.sh"

tier=${1:?which tier: check, test or nightly}
shift
cd "$ROOT"

minutes=()
failed=()
# part NAME COMMAND... : runs the command and notes how long it took and whether it failed.
part() {
  local name=$1 begun=$SECONDS verdict=ok
  shift
  say "$name"
  "$@" || { verdict=FAILED; failed+=("$name"); }
  minutes+=("$(printf '%6d s  %-6s  %s' $((SECONDS - begun)) "$verdict" "$name")")
}

formatting() { cargo fmt --all --check; }
clippy() { cargo clippy --workspace --all-targets --locked -q -- "${deny[@]}"; }
documentation() { RUSTDOCFLAGS="${deny[*]}" cargo doc --workspace --no-deps --locked -q; }
doc_tests() { cargo test --workspace --locked -q --doc; }
scripts() {
  local script
  for script in scripts/*.sh .ci/run; do
    bash -n "$script" || return
  done
  python3 -m doctest scripts/house.py
}

# What is fetched comes while something is compiled.
begin_test_deps() {
  deps_log=$(mktemp)
  trap 'rm -f "$deps_log"' EXIT
  scripts/test-deps.sh "$@" >"$deps_log" 2>&1 &
  deps=$!
}
end_test_deps() {
  local status=0
  wait "$deps" || status=$?
  cat "$deps_log" >&2
  return "$status"
}

need_rust_lints
need_program python3 python3
deny=(-D warnings)
if ! not_older "$RUST_DEVELOPED_WITH" "$(rust_version)"; then
  say "Rust $(rust_version) is newer than $RUST_DEVELOPED_WITH: its warnings are shown and fail nothing"
  deny=()
fi
case $tier in
  check)
    part "formatting" formatting
    part "clippy" clippy
    part "compiling unit tests" scripts/run-tests.py --lib --no-run
    part "unit tests" scripts/run-tests.py --lib "$@"
    ;;
  test)
    # Where the simulator's seeds begin: each commit tries others.
    commit=$(git rev-parse --short=6 HEAD 2>/dev/null) || commit=0
    export EVENKEEL_SEEDS_FROM=${EVENKEEL_SEEDS_FROM:-$((16#$commit))}
    say "the simulator's seeds begin with EVENKEEL_SEEDS_FROM=$EVENKEEL_SEEDS_FROM"
    begin_test_deps
    part "formatting" formatting
    part "scripts" scripts
    part "clippy" clippy
    part "what tests compare with" end_test_deps
    part "documentation" documentation
    part "sizes, imports and words" scripts/house.py
    part "doc tests" doc_tests
    part "compiling tests" scripts/run-tests.py --no-run
    # The tests come last, so that what failed stands at the end of the log.
    part "tests" scripts/run-tests.py "$@"
    ;;
  nightly)
    export EVENKEEL_NIGHTLY=1
    begin_test_deps --all
    part "dist build" scripts/dist.sh
    part "what tests compare with" end_test_deps
    export EVENKEEL_BIN=$TARGET/dist/evenkeel
    part "compiling tests" scripts/run-tests.py --no-run
    part "tests" scripts/run-tests.py --jobs 1 --io-uring "conformance/.*" "$@" -- --include-ignored --skip larger_story
    part "fuzz targets compile" cargo check --manifest-path fuzz/Cargo.toml --target-dir "$TARGET" --locked -q
    part "exhaustive model" scripts/model.sh
    part "AddressSanitizer" scripts/asan.sh
    part "ThreadSanitizer" scripts/tsan.sh
    ;;
  *) fail "no tier $tier: check, test or nightly" ;;
esac

printf '\nMinutes of this run (make %s):\n' "$tier"
printf '  %s\n' "${minutes[@]}"
printf '  %6d s          together\n' "$SECONDS"
if [ ${#failed[@]} != 0 ]; then
  fail "failed: $(IFS=,; echo "${failed[*]}")"
fi
printf 'All checks and tests passed.\n'
