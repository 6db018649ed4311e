#!/usr/bin/env bash
# Everything that must hold before a change is accepted. Arguments go to `cargo test`.
. "$(dirname "$0")/lib.sh"

need_rust_lints
"$ROOT/scripts/test-deps.sh"
"$ROOT/scripts/lint.sh"
build_release
export EVENKEEL_BIN=$TARGET/release/evenkeel
say "tests"
cd "$ROOT"
cargo test --workspace --locked "$@"
say "tests by io_uring"
# Refused with exit code 2; a server that runs has to be stopped.
refusal=$(timeout 3 "$EVENKEEL_BIN" server -u root -p 0 -t 1 --io uring 2>&1 >/dev/null) && status=0 || status=$?
if [ "$status" = 2 ]; then
  echo "not run here: $refusal"
else
  EVENKEEL_IO=uring cargo test --locked -p evenkeel-conformance \
    --test transcripts --test bad_input --test stats --test consistency "$@"
fi
printf '\nAll checks and tests passed.\n'
