#!/usr/bin/env bash
# Installs what the demo needs, builds evenkeel in release mode and runs `evenkeel up --demo`.
# Arguments go to `evenkeel up --demo`.
. "$(dirname "$0")/lib.sh"

need_rust
build_release
exec "$TARGET/release/evenkeel" up --demo "$@"
