#!/usr/bin/env bash
# Installs what the tests compare with: memcached, libmemcached's tools, and clients in Python and Go.
. "$(dirname "$0")/lib.sh"

need_program memcached memcached
need_program memccapable libmemcached-tools
need_program go golang-go
python3 -c 'import venv, ensurepip' >/dev/null 2>&1 \
  || install_packages "Python 3 with venv is missing" python3 python3-venv

# Python clients, pinned, in a virtual environment of this checkout. The copy of the requirements file
# inside it says what it was made from.
requirements=$ROOT/crates/conformance/clients/python/requirements.txt
if ! cmp -s "$requirements" "$VENV/made-from.txt"; then
  say "installing the Python clients into .venv"
  rm -rf "$VENV"
  python3 -m venv "$VENV" || fail "python3 could not make the virtual environment .venv"
  "$VENV/bin/python" -m pip install -q --disable-pip-version-check -r "$requirements" \
    || fail "pip could not install the Python clients of ${requirements#"$ROOT"/}"
  cp "$requirements" "$VENV/made-from.txt"
fi

# Go's module cache; go.sum pins what may enter it. Without a network it must be warm already.
(cd "$ROOT/crates/conformance/clients/go" && GOFLAGS=-mod=readonly go mod download) \
  || fail "go could not fetch the modules of crates/conformance/clients/go"
