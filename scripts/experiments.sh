#!/usr/bin/env bash
# Runs all experiments at a scale (small, paper or beyond), by real servers and then simulated, and writes JSON and
# plots to target/experiments. Ends with a table of what took how long. Keep the machine quiet.
. "$(dirname "$0")/lib.sh"

scale=${1:-small}
need_rust
need_program memcached memcached
build_dist
# Graphs that are not there are generated; the report says so.
exec "$TARGET/dist/evenkeel" experiment run all --mode real,sim --scale "$scale" \
  --data "$ROOT/../shared/data" --out "$TARGET/experiments"
