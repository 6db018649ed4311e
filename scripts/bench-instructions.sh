#!/usr/bin/env bash
# Counts the user-space instructions that a request costs the real server, event loop included, under
# callgrind; or, called with `proxy`, what it costs the proxy before two servers; with `fill`, what a get costs it whose item it brings
# from a former pool of two servers to a new one of two (four requests to servers instead of one). Counts do not depend on
# how busy the machine is, so each has a limit; the script ends with 1 when one is exceeded. A table goes to
# standard output, the same as JSON to the file that INSTRUCTIONS_JSON names (default:
# target/instructions.json, target/instructions-proxy.json, target/instructions-fill.json). EVENKEEL_BIN names another binary, and PROFILES
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
JSON=${INSTRUCTIONS_JSON:-$TARGET/instructions.json}
if [ "$part" = proxy ]; then
  ROWS='get, unpipelined|3000|1|2000|12000|--get-share 1 --pipeline 1
get, pipeline 16|1500|1|2000|12000|--get-share 1 --pipeline 16
multi-get of 100, per key|700|100|100|600|--get-share 1 --pipeline 1 --multiget 100
set, unpipelined|-|1|2000|12000|--get-share 0 --pipeline 1
set, pipeline 16|-|1|2000|12000|--get-share 0 --pipeline 16'
  JSON=${INSTRUCTIONS_JSON:-$TARGET/instructions-proxy.json}
fi
if [ "$part" = fill ]; then
  # What the short run brings the long one finds.
  ROWS='get that brings its item|12000|1|20|10020|--get-share 1 --pipeline 1'
  JSON=${INSTRUCTIONS_JSON:-$TARGET/instructions-fill.json}
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

counting=(valgrind --tool=callgrind --compress-strings=no --callgrind-out-file="$work/counts")
server=("$EVENKEEL" server -u "$(id -un)" -l 127.0.0.1 -p 0 -t 1 -m 256)
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
  *) fail "what to count: server, proxy or fill, not $part" ;;
esac

dumps=0
# counted COMMAND... : runs it and sets `count` to the instructions since the last dump.
counted() {
  "$@" >"$work/load" 2>&1 || { cat "$work/load" >&2; fail "the load generator failed"; }
  callgrind_control --dump "$pid" >/dev/null 2>&1 || fail "callgrind_control could not reach it"
  dumps=$((dumps + 1))
  count=$(sed -n 's/^totals: *//p' "$work/counts.$dumps")
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

say "setting the keys"
if [ "$part" = fill ]; then
  counted load 1 --get-share 1
else
  # shellcheck disable=SC2086
  counted "$EVENKEEL" bench run --target "$address" --threads 1 --connections 1 --warm-up 0s --rounds 1 \
    --timeout 60s $KEYS --requests 100
fi

exceeded=0
rows=
printf '%-28s %12s %8s\n' 'request' 'instructions' 'limit'
while IFS='|' read -r name limit keys short long args; do
  # shellcheck disable=SC2086
  counted load "$short" $args
  few=$count
  # shellcheck disable=SC2086
  counted load "$long" $args
  each=$(((count - few) / ((long - short) * keys)))
  verdict=
  if [ "$limit" != - ] && [ "$each" -gt "$limit" ]; then
    exceeded=1
    verdict=exceeded
  fi
  printf '%-28s %12s %8s %s\n' "$name" "$each" "$limit" "$verdict"
  rows+="${rows:+,}
    {\"request\": \"$name\", \"instructions\": $each, \"limit\": ${limit/#-/null}}"
done <<<"$ROWS"
printf '{\n  "version": "%s",\n  "rows": [%s\n  ]\n}\n' "$("$EVENKEEL" --version | head -n 1)" "$rows" >"$JSON"
say "written to $JSON"
exit "$exceeded"
