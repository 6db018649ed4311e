#!/usr/bin/env bash
# Runs all experiments at a scale (small, paper or beyond) and writes JSON and plots to target/experiments. Keep
# the machine quiet.
. "$(dirname "$0")/lib.sh"

scale=${1:-small}
need_rust
need_program memcached memcached
build_release
exec "$TARGET/release/evenkeel" experiment run all --scale "$scale" --out "$TARGET/experiments"
