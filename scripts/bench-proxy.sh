#!/usr/bin/env bash
# Measures `evenkeel proxy` beside memcached's own proxy and twemproxy, with two servers behind each; prints a
# table with the goals and writes target/bench-proxy.json. Arguments go to `evenkeel bench suite-proxy`;
# --quick shows in a minute that everything runs. Keep the machine quiet.
. "$(dirname "$0")/lib.sh"

need_rust
need_program nutcracker nutcracker
newest=$("$ROOT/scripts/newest-memcached.sh" --proxy)
build_dist
exec "$TARGET/dist/evenkeel" bench suite-proxy --memcached "$newest" \
  --twemproxy "$(command -v nutcracker)" --json "$TARGET/bench-proxy.json" "$@"
