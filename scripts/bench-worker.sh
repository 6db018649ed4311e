#!/usr/bin/env bash
# Measures one pinned worker of `evenkeel server` beside `memcached -t 1` in the same run, in turn on
# the same core, with the generator on another. Arguments say what load `evenkeel bench run` puts on
# them, instead of the one below.
. "$(dirname "$0")/lib.sh"

need_rust
need_program memcached memcached
need_program taskset util-linux
build_dist
EVENKEEL=$TARGET/dist/evenkeel

cores=$(nproc)
[ "$cores" -ge 2 ] || fail "two cores are needed: one for the servers in turn, one for the generator"
server_core=0
generator_core=1

work=$(mktemp -d)
pids=()
cleanup() {
  local pid
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap cleanup EXIT

# wait_for FILE PATTERN PID : until FILE has a line with PATTERN; ends when the process does.
wait_for() {
  local _
  for _ in $(seq 200); do
    grep -q "$2" "$1" 2>/dev/null && return
    kill -0 "$3" 2>/dev/null || break
    sleep 0.05
  done
  cat "$work"/*.log >&2
  fail "a server did not start"
}

# As root, memcached insists on being told whom to run as; port -1 takes a free one.
MEMCACHED_PORT_FILENAME=$work/memcached.port taskset -c "$server_core" \
  memcached -u root -l 127.0.0.1 -p -1 -U 0 -t 1 -m 1024 2>"$work/memcached.log" &
pids+=($!)
wait_for "$work/memcached.port" 'TCP INET' "${pids[0]}"
memcached=127.0.0.1:$(sed -n 's/.*TCP INET[^:]*: //p' "$work/memcached.port" | head -n 1)

"$EVENKEEL" server -u root -l 127.0.0.1 -p 0 -t 1 -m 1024 --pin "$server_core" \
  >"$work/evenkeel.out" 2>"$work/evenkeel.log" &
pids+=($!)
wait_for "$work/evenkeel.out" 'listening on' "${pids[1]}"
evenkeel=$(sed -n 's/^evenkeel server listening on \([^ ]*\).*/\1/p' "$work/evenkeel.out" | head -n 1)

say "memcached $(memcached -V | cut -d ' ' -f 2) -t 1 at $memcached, evenkeel -t 1 at $evenkeel"
if [ $# = 0 ]; then
  set -- --threads 1 --connections 16 --pipeline 16 --get-share 0.9 --value-size 100 \
    --duration 5s --warm-up 1s --rounds 5
fi
"$EVENKEEL" bench run --target "$memcached" --target "$evenkeel" --pin "$generator_core" "$@"
