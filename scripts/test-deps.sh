#!/usr/bin/env bash
# Installs what the tests compare with: memcached, libmemcached's tools, twemproxy, Redis, etcd, clients in Python and Go,
# and a MediaWiki; Prometheus' tool; and what makes the web page and looks at it: Node.js and Chromium.
# With --all also the clients in JavaScript, Ruby, PHP and Java, which `make conformance` runs.
. "$(dirname "$0")/lib.sh"

CLIENTS=$ROOT/crates/conformance/clients

need_program memcached memcached
need_program memccapable libmemcached-tools
# A daemon: perhaps not on a user's PATH, and started by its package where services are.
[ -x /usr/sbin/nutcracker ] || have nutcracker || install_packages "nutcracker is missing" nutcracker
need_program redis-server redis-server
need_program etcd etcd-server
need_program go golang-go
need_program openssl openssl
need_program promtool prometheus
need_program unshare util-linux
# As root it may not be on the PATH of users.
[ -x /usr/sbin/ip ] || need_program ip iproute2
python3 -c 'import venv, ensurepip' >/dev/null 2>&1 \
  || install_packages "Python 3 with venv is missing" python3 python3-venv

# Python clients, pinned, in a virtual environment of this checkout. The copy of the requirements file
# inside it says what it was made from.
requirements=$CLIENTS/python/requirements.txt
if ! cmp -s "$requirements" "$VENV/made-from.txt"; then
  say "installing the Python clients into .venv"
  rm -rf "$VENV"
  python3 -m venv "$VENV" || fail "python3 could not make the virtual environment .venv"
  "$VENV/bin/python" -m pip install -q --disable-pip-version-check -r "$requirements" \
    || fail "pip could not install the Python clients of ${requirements#"$ROOT"/}"
  cp "$requirements" "$VENV/made-from.txt"
fi

# Go's module cache; go.sum pins what may enter it. Without a network it must be warm already.
(cd "$CLIENTS/go" && GOFLAGS=-mod=readonly go mod download) \
  || fail "go could not fetch the modules of crates/conformance/clients/go"

# newer_than MADE SOURCE... : what was made is there, and no source is newer.
newer_than() {
  local made=$1 source
  shift
  [ -e "$made" ] || return 1
  for source in "$@"; do
    [ -z "$(find "$source" -newer "$made" -print -quit)" ] || return 1
  done
}

# package-lock.json pins what npm installs, by hash. The packages need none of their scripts.
install_from_npm() {
  newer_than "$1/node_modules/.package-lock.json" "$1/package-lock.json" && return
  say "installing the packages of ${1#"$ROOT"/}"
  (cd "$1" && npm ci --silent --ignore-scripts --no-audit --no-fund) >&2 \
    || fail "npm could not install the packages of ${1#"$ROOT"/}"
}

need_program node nodejs npm
need_program npm npm
need_program chromium chromium
install_from_npm "$ROOT/web"

"$ROOT/scripts/mediawiki.sh" >/dev/null

[ "${1:-}" = --all ] || exit 0

# A package whose program has another name than it, or none.
need_package() {
  dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed' \
    || install_packages "the package $1 is missing" "$1"
}

need_program php php-cli
need_package php-memcached
need_package php-apcu
need_program ruby ruby
need_package ruby-dalli
need_program saslpasswd2 sasl2-bin
need_package libsasl2-modules
need_program javac default-jdk-headless
need_program mvn maven

install_from_npm "$CLIENTS/node"

java_made=$CLIENTS/java/target/made
if ! newer_than "$java_made" "$CLIENTS/java/pom.xml" "$CLIENTS/java/src"; then
  say "building the checks of the Java clients"
  (cd "$CLIENTS/java" && mvn -q -B clean compile dependency:copy-dependencies && touch "$java_made") >&2 \
    || fail "Maven could not build crates/conformance/clients/java"
fi
