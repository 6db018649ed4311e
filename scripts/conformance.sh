#!/usr/bin/env bash
# The whole comparison with a real memcached and real clients: memccapable, transcripts, bad input, the
# differential fuzzer, and the clients of every language. Arguments go to scripts/run-tests.py.
. "$(dirname "$0")/lib.sh"

need_rust
"$ROOT/scripts/test-deps.sh" --all
exec "$ROOT/scripts/run-tests.py" --programs '^conformance/' "$@" -- --include-ignored
