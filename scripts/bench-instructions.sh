#!/usr/bin/env bash
# Counts the user-space instructions that a request costs the real server, event loop included, under
# callgrind; or, called with `proxy`, what it costs the proxy before two servers; with `ring`, the same by a ketama, by the ring that such a
# pool begins as when its hash space is to follow the load, and by a ring of which all parts have moved; with `fill`, what a get costs it whose item it brings from a former pool of two servers to a new one of two (four requests to servers instead of one).
# Counts do not depend on how busy the machine is, so each has a limit; the script ends with 1 when one is exceeded. A table goes to
# standard output, the same as JSON to the file that INSTRUCTIONS_JSON names (default:
# target/instructions.json, or target/instructions-PART.json for another part). EVENKEEL_BIN names another binary, and PROFILES
# a folder that callgrind's files go to.
#
# A row is the difference between a long and a short run on one connection, divided by the difference
# in requests: what connecting and idling cost cancels out.
. "$(dirname "$0")/lib.sh"

need_rust
need_program valgrind valgrind
if [ -n "${EVENKEEL_BIN:-}" ]; then
  EVENKEEL=$EVENKEEL_BIN
else
  build_dist
  EVENKEEL=$TARGET/dist/evenkeel
fi
part=${1:-server}

# name | limit per unit | keys a request | requests of the short run | of the long run | load
ROWS='get, unpipelined|900|1|2000|22000|--get-share 1 --pipeline 1
get, pipeline 16|600|1|2000|22000|--get-share 1 --pipeline 16
multi-get of 100, per key|300|100|200|2200|--get-share 1 --pipeline 1 --multiget 100
set, unpipelined|-|1|2000|22000|--get-share 0 --pipeline 1
set, pipeline 16|900|1|2000|22000|--get-share 0 --pipeline 16'
JSON=${INSTRUCTIONS_JSON:-$TARGET/instructions-$part.json}
[ "$part" != server ] || JSON=${INSTRUCTIONS_JSON:-$TARGET/instructions.json}
if [ "$part" = proxy ]; then
  ROWS='get, unpipelined|3000|1|2000|12000|--get-share 1 --pipeline 1
get, pipeline 16|1500|1|2000|12000|--get-share 1 --pipeline 16
multi-get of 100, per key|700|100|100|600|--get-share 1 --pipeline 1 --multiget 100
set, unpipelined|-|1|2000|12000|--get-share 0 --pipeline 1
set, pipeline 16|-|1|2000|12000|--get-share 0 --pipeline 16'
fi
# How much more than by the ketama, in per cent, in place of a limit. At pipeline 16 it matters which answers come together: some per cent.
RING_ROWS='get, unpipelined|6|1|2000|12000|--get-share 1 --pipeline 1
get, pipeline 16|12|1|2000|12000|--get-share 1 --pipeline 16
multi-get of 20, per key|12|20|100|600|--get-share 1 --pipeline 1 --multiget 20
set, unpipelined|-|1|2000|12000|--get-share 0 --pipeline 1'
if [ "$part" = fill ]; then
  # What the short run brings the long one finds.
  ROWS='get that brings its item|12000|1|20|10020|--get-share 1 --pipeline 1'
fi
KEYS='--keys 100000 --key-size 32 --value-size 100 --popularity uniform'

work=$(mktemp -d)
started=()
cleanup() {
  [ ${#started[@]} = 0 ] || kill "${started[@]}" 2>/dev/null || true
  [ ${#started[@]} = 0 ] || wait "${started[@]}" 2>/dev/null || true
  [ -z "${PROFILES:-}" ] || cp "$work"/counts* "$PROFILES"
  rm -rf "$work"
}
trap cleanup EXIT

# start NAME COMMAND... : starts a part of Evenkeel and sets `address` to where it listens and `pid`.
start() {
  local name=$1
  shift
  : >"$work/$name.out"
  "$@" >"$work/$name.out" 2>"$work/$name.log" &
  pid=$!
  started+=("$pid")
  for _ in $(seq 600); do
    grep -q 'listening on' "$work/$name.out" && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  address=$(sed -n 's/^evenkeel [a-z]* listening on \([^ ]*\).*/\1/p' "$work/$name.out" | head -n 1)
  [ -n "$address" ] || { cat "$work/$name.log" >&2; fail "the $name did not start"; }
}

counting=(valgrind --tool=callgrind --compress-strings=no --separate-threads=yes --callgrind-out-file="$work/counts.%p")
server=("$EVENKEEL" server -u "$(id -un)" -l 127.0.0.1 -p 0 -t 1 -m 256)
pids=()
addresses=()
case $part in
  server) start server "${counting[@]}" "${server[@]}" ;;
  proxy)
    start one "${server[@]}"
    servers=$address
    start other "${server[@]}"
    servers+=,$address
    start proxy "${counting[@]}" "$EVENKEEL" proxy -l 127.0.0.1:0 -t 1 \
      --distribution twemproxy_ketama -s "$servers"
    ;;
  fill)
    for name in old1 old2 new1 new2; do
      start "$name" "${server[@]}"
      printf -v "$name" '"%s"' "$address"
    done
    # shellcheck disable=SC2154 # by printf
    printf '[pools.old]\nservers = [%s, %s]\n' "$old1" "$old2" >"$work/old.toml"
    # shellcheck disable=SC2154 # by printf
    {
      cat "$work/old.toml"
      printf '[pools.new]\nservers = [%s, %s]\nwarm_from = "old"\n' "$new1" "$new2"
      printf '[[routes]]\npool = "new"\n'
    } >"$work/new.toml"
    start former "$EVENKEEL" proxy -l 127.0.0.1:0 -t 1 --config "$work/old.toml"
    say "setting the keys at the former pool"
    # shellcheck disable=SC2086
    "$EVENKEEL" bench run --target "$address" --threads 1 --connections 1 --warm-up 0s --rounds 1 \
      --timeout 60s $KEYS --requests 1 >/dev/null
    start proxy "${counting[@]}" "$EVENKEEL" proxy -l 127.0.0.1:0 -t 1 --config "$work/new.toml"
    ;;
  ring)
    need_program curl curl
    start one "${server[@]}"
    servers=$address
    list=\"$address\"
    start other "${server[@]}"
    servers+=,$address
    list+=", \"$address\""
    start coordinator "$EVENKEEL" coordinator --listen 127.0.0.1:0
    coordinator=http://$address
    for name in twemproxy_ketama even; do
      {
        printf '[pools.%s]\nservers = [%s]\ndistribution = "adaptive"\nstart = "%s"\nhash = "fnv1a_64"\n' "$name" "$list" "$name"
        printf 'pool_coordinator = "%s"\n[[routes]]\npool = "%s"\n' "$coordinator" "$name"
      } >"$work/$name.toml"
      start "$name" "${counting[@]}" "$EVENKEEL" proxy -l 127.0.0.1:0 -t 1 --name "$name" --config "$work/$name.toml"
      pids+=("$pid")
      addresses+=("$address")
    done
    start proxy "${counting[@]}" "$EVENKEEL" proxy -l 127.0.0.1:0 -t 1 \
      --distribution twemproxy_ketama -s "$servers"
    ;;
  *) fail "what to count: server, proxy, ring or fill, not $part" ;;
esac

# counted COMMAND... : runs it and sets `count` to the instructions since the last dump, of the thread that had the most to do: what
# others do, such as sending heartbeats, takes its time and not a request's.
counted() {
  "$@" >"$work/load" 2>&1 || { cat "$work/load" >&2; fail "the load generator failed"; }
  callgrind_control --dump "$pid" >/dev/null 2>&1 || fail "callgrind_control could not reach it"
  local dumps
  dumps=$(find "$work" -name "counts.$pid.*-01" | wc -l)
  count=$(sed -n 's/^totals: *//p' "$work/counts.$pid.$dumps"-* | sort -n | tail -n 1)
  [ -n "$count" ] || fail "callgrind wrote no counts"
}
# load REQUESTS ARGS... : one connection, closed loop.
load() {
  local requests=$1
  shift
  # shellcheck disable=SC2086 # KEYS is several words
  "$EVENKEEL" bench run --target "$address" --threads 1 --connections 1 --warm-up 0s --rounds 1 \
    --timeout 60s --no-preload $KEYS --requests "$requests" "$@"
}

set_keys() {
  say "setting the keys"
  # shellcheck disable=SC2086
  counted "$EVENKEEL" bench run --target "$address" --threads 1 --connections 1 --warm-up 0s --rounds 1 \
    --timeout 60s $KEYS --requests 100
}

exceeded=0
rows=
# count_rows NAME : counts ROWS. What each costs goes to `counts`, in their order.
count_rows() {
  local of=$1 name limit keys short long args few each verdict
  counts=()
  while IFS='|' read -r name limit keys short long args; do
    # shellcheck disable=SC2086
    counted load "$short" $args
    few=$count
    # shellcheck disable=SC2086
    counted load "$long" $args
    each=$(((count - few) / ((long - short) * keys)))
    counts+=("$each")
    verdict=
    if [ "$limit" != - ] && [ "$each" -gt "$limit" ]; then
      exceeded=1
      verdict=exceeded
    fi
    printf '%-42s %12s %8s %s\n' "$of$name" "$each" "$limit" "$verdict"
    rows+="${rows:+,}
    {\"request\": \"$of$name\", \"instructions\": $each, \"limit\": ${limit/#-/null}}"
  done <<<"$ROWS"
}
# limit_rows : ROWS becomes RING_ROWS whose limits are this much more than what was counted last; without any if nothing was.
limit_rows() {
  local name more rest at=0
  ROWS=
  while IFS='|' read -r name more rest; do
    if [ "$more" != - ]; then
      more=$((${counts[$at]:-0} * (100 + more) / 100))
      [ "$more" != 0 ] || more=-
    fi
    ROWS+="${ROWS:+$'\n'}$name|$more|$rest"
    at=$((at + 1))
  done <<<"$RING_ROWS"
}
# move_ring : all of the ring that began with even shares changes hands.
move_ring() {
  say "moving the ring"
  "$EVENKEEL" ring settings even --mode off --warming-ms 0 --coordinator "$coordinator" >/dev/null
  local one=${servers%,*} other=${servers#*,} moves
  moves=$(printf '{"from":"%s","to":"%s","grains":4096}' "$one" "$other" "$other" "$one")
  curl --silent --show-error --fail --header 'content-type: application/json' \
    --data "{\"grains\":[${moves/\}\{/\},\{}],\"proxies\":1}" "$coordinator/api/v1/rings/even/moves" >/dev/null
  for _ in $(seq 300); do
    "$EVENKEEL" ring show --coordinator "$coordinator" | grep '^pool even: done' >/dev/null && return
    sleep 0.1
  done
  fail "the ring did not move"
}

[ "$part" != fill ] || counted load 1 --get-share 1
[ "$part" = fill ] || set_keys
counts=()
[ "$part" != ring ] || limit_rows
printf '%-42s %12s %8s\n' 'request' 'instructions' 'limit'
if [ "$part" != ring ]; then
  count_rows ''
else
  count_rows 'ketama: '
  limit_rows
  move_ring
  for at in 0 1; do
    pid=${pids[$at]}
    address=${addresses[$at]}
    set_keys
    [ "$at" = 0 ] && count_rows 'ring: ' || count_rows 'moved: '
  done
fi
printf '{\n  "version": "%s",\n  "rows": [%s\n  ]\n}\n' "$("$EVENKEEL" --version | head -n 1)" "$rows" >"$JSON"
say "written to $JSON"
exit "$exceeded"
