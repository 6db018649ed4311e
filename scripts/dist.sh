#!/usr/bin/env bash
# Builds what is shipped and measured: target/dist/evenkeel, optimized across crates, and beside it
# target/dist/evenkeel.debug with its symbols and debug information, which gdb and perf find by themselves.
. "$(dirname "$0")/lib.sh"

need_rust
build_dist
