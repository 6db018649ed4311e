#!/usr/bin/env bash
# Measures `evenkeel server` beside the newest memcached, Debian's, and an echo server; prints a table
# with the goals and writes target/bench-server.json. Arguments go to `evenkeel bench suite`; --quick
# shows in three minutes that everything runs. The whole takes about ten; keep the machine quiet.
. "$(dirname "$0")/lib.sh"

need_rust
need_program memcached memcached
newest=$("$ROOT/scripts/newest-memcached.sh")
build_dist
exec "$TARGET/dist/evenkeel" bench suite --memcached "$newest" --memcached "$(command -v memcached)" \
  --json "$TARGET/bench-server.json" "$@"
