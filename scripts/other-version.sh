#!/usr/bin/env bash
# Builds evenkeel as it was at a revision of this repository, REV, and prints the path of the binary. It is kept as
# target/version-COMMIT/evenkeel and found there the next time.
. "$(dirname "$0")/lib.sh"

commit=$(git -C "$ROOT" rev-parse --verify --quiet --short=8 "${1:?which revision}^{commit}") || fail "there is no revision $1"
kept=$TARGET/version-$commit/evenkeel
if [ ! -e "$kept" ]; then
  need_rust >&2
  say "building evenkeel of $commit: as long as a build from scratch takes"
  # Not below $TARGET, whose folders cargo takes for workspaces around it.
  work=$(mktemp -d)
  trap 'git -C "$ROOT" worktree remove --force "$work/source"; rm -rf "$work"' EXIT
  git -C "$ROOT" worktree add -q --detach "$work/source" "$commit" >&2
  (cd "$work/source" && cargo build --release --locked -p evenkeel-cli --bin evenkeel --target-dir "$TARGET/version-$commit/target") >&2
  mv "$TARGET/version-$commit/target/release/evenkeel" "$kept"
  rm -rf "$TARGET/version-$commit/target"
fi
echo "$kept"
