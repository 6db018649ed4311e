#!/usr/bin/env bash
# Runs all experiments at a scale (small, paper or beyond) and writes JSON and plots to target/experiments. Keep
# the machine quiet.
. "$(dirname "$0")/lib.sh"

scale=${1:-small}
need_rust
need_program memcached memcached
build_release
# Graphs that are not there are generated; the report says so.
exec "$TARGET/release/evenkeel" experiment run all --scale "$scale" \
  --data "$ROOT/../shared/data" --out "$TARGET/experiments"
