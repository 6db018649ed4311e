#!/usr/bin/env bash
# Builds target/release/evenkeel.
. "$(dirname "$0")/lib.sh"

need_rust
build_release
