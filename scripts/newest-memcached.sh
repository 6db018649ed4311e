#!/usr/bin/env bash
# Builds the newest memcached that Debian has the source of (its distribution `sid`), with TLS where
# OpenSSL's headers are there, and prints the path of the binary. It is kept as
# target/memcached-VERSION/memcached and found there the next time, without a network.
#
# The source comes through apt, which checks it against the signed index, from the mirror that this machine's own
# packages come from; apt gets lists of its own for it, so that the machine's stay as they are.
# Where none of that can be had, the installed memcached is printed, and a line on stderr says why.
#
# With --proxy it is built with memcached's own proxy, into target/memcached-VERSION-proxy, and nothing else will do.
. "$(dirname "$0")/lib.sh"

suffix=
[ "${1:-}" != --proxy ] || suffix=-proxy

# installed REASON : settles for the memcached of the machine's packages.
installed() {
  [ -z "$suffix" ] || fail "memcached with its proxy could not be built: $1"
  need_program memcached memcached
  say "using the installed memcached $(memcached -V | cut -d ' ' -f 2): $1"
  command -v memcached
  exit
}

kept=$(find "$TARGET" -maxdepth 2 -regex ".*/memcached-[0-9.]*$suffix/memcached" -type f 2>/dev/null | sort -V | tail -n 1 || true)
if [ -n "$kept" ]; then
  echo "$kept"
  exit
fi

have apt-get || installed "without apt there is no source to build from"
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Created-By: Packages' 2>/dev/null \
  | grep -v -m 1 -e security -e backports || true)
[ -n "$mirror" ] || installed "this machine's packages come from no Debian mirror"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || installed "$keyring is missing"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
cat >"$work/source.sources" <<SOURCES
Types: deb-src
URIs: $mirror
Suites: sid
Components: main
Signed-By: $keyring
SOURCES
# As this user alone: neither the lists nor the locks of the machine are touched.
own_apt() {
  apt-get -q -o Dir::Etc::SourceList="$work/source.sources" -o Dir::Etc::SourceParts=- \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

# build : fetches and compiles in $work/memcached-VERSION. Chained: `set -e` does not hold here.
build() {
  cd "$work" \
    && own_apt update \
    && own_apt source --download-only --tar-only memcached \
    && mkdir source && tar -xf memcached_*.orig.tar.* --strip-components 1 -C source \
    && cd source \
    && ./configure --enable-tls="$tls" ${suffix:+--enable-proxy} --disable-docs --disable-coverage \
    && if [ -n "$suffix" ]; then make -C vendor/lua/src linux; fi \
    && make -j "$(nproc)" memcached
}

say "building the newest memcached that Debian has the source of"
need_c_compiler
have make || install_packages "make is missing" make
have pkg-config || install_packages "pkg-config is missing" pkg-config
[ -e /usr/include/event2/event.h ] || [ -e /usr/include/event.h ] \
  || (install_packages "libevent's headers are missing" libevent-dev) \
  || installed "libevent's headers could not be installed"
tls=yes
[ -e /usr/include/openssl/ssl.h ] || tls=no
log=$work/build.log
(build) >"$log" 2>&1 || { tail -n 5 "$log" >&2; installed "the newest could not be built"; }

version=$("$work/source/memcached" -V | cut -d ' ' -f 2)
kept=$TARGET/memcached-$version$suffix/memcached
mkdir -p "${kept%/*}"
cp "$work/source/memcached" "$kept.new"
mv "$kept.new" "$kept"
say "built memcached $version (TLS: $tls${suffix:+, with its proxy})"
echo "$kept"
