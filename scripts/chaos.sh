#!/usr/bin/env bash
# By WHAT=cluster, the default: a cluster whose processes are killed and stopped for CHAOS_SECONDS (default 600), half of them with atomic
# writes, while applications read and write hot keys through it, whose answers are judged, and others fill it to 70 %. EVENKEEL_SEED
# repeats the choices of a run. By WHAT=pools: pools that are warmed from a former one, of memcacheds, of a cluster, and led by a coordinator, a third of the
# time each. By WHAT=rings: eight memcacheds, three proxies and two coordinators on an etcd, while parts of a ring change hands. By WHAT=copies: the same with copies of items,
# which are switched on and off. By WHAT=racks: eight memcacheds in four racks, one of which holds each item, by notes and by a directory, each also with copies in the other racks, and switched from one to another, a fifth of the time each. By WHAT=scaling: three memcacheds, or
# three servers of a cluster, to which autoscaling adds up to three and from which it removes them, by a load that rises and falls. With OTHER=REV every second server, proxy and
# coordinator that is started, and started again, is of that revision: versions are mixed and follow each other in both directions. Arguments go to the test program.
. "$(dirname "$0")/lib.sh"

need_rust
build_release
cd "$ROOT"
export EVENKEEL_BIN=$TARGET/release/evenkeel CHAOS_SECONDS=${CHAOS_SECONDS:-600}
if [ -n "${OTHER:-}" ]; then
  OTHER_EVENKEEL=$(scripts/other-version.sh "$OTHER")
  export OTHER_EVENKEEL
fi
case ${WHAT:-cluster} in
cluster) tests="chaos_under chaos_with" ;;
pools) tests=chaos_of_pools ;;
rings) tests=chaos_of_rings ;;
copies) tests=chaos_of_copies ;;
racks) tests=chaos_of_racks ;;
scaling) tests=chaos_of_scaling ;;
*) fail "WHAT is cluster, pools, rings, copies, racks or scaling" ;;
esac
# Words of a list.
# shellcheck disable=SC2086
cargo test --release --locked -p evenkeel-conformance --test consistency -- --nocapture --include-ignored $tests "$@"
