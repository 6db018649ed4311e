# Shared by the scripts beside it: words for the user, and installing what is missing.
# Sourced, never run. Every function either does its work, or ends the script with one line that says
# what to install. Nothing here asks a question, and nothing is done when nothing is missing.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TARGET=${CARGO_TARGET_DIR:-$ROOT/target}
VENV=$ROOT/.venv
# The Rust that a machine without any gets, and the newest whose warnings fail the lints: later
# versions warn about things that were right when they were written.
RUST_DEVELOPED_WITH=1.95.0
export DEBIAN_FRONTEND=noninteractive

# rustup installs here; a shell opened before the installation does not know it yet.
CARGO_BIN=${CARGO_HOME:-$HOME/.cargo}/bin
case ":$PATH:" in
  *":$CARGO_BIN:"*) ;;
  *) PATH=$CARGO_BIN:$PATH ;;
esac
export PATH

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Runs apt-get as root, or through sudo where that asks for no password.
apt() {
  if [ "$(id -u)" = 0 ]; then
    apt-get "$@"
  elif have sudo && sudo -n true 2>/dev/null; then
    sudo -n env DEBIAN_FRONTEND=noninteractive apt-get "$@"
  else
    return 1
  fi
}

# install_packages WHY PACKAGE... : installs Debian packages. Called only when something is missing.
install_packages() {
  local why=$1
  shift
  local hint="$why: install the package(s) $* and run this again"
  have apt-get || fail "$hint"
  say "installing $*"
  local log
  log=$(mktemp)
  # The package lists may be there and fresh; they are fetched only when the first attempt fails.
  if ! apt install -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 "$@" >"$log" 2>&1; then
    if ! { apt update -q && apt install -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 "$@"; } >"$log" 2>&1; then
      local reason
      reason=$(grep -m 1 -E '^(E|Err)[: ]' "$log" || echo "needs root, or sudo without a password")
      rm -f "$log"
      fail "$hint ($reason)"
    fi
  fi
  rm -f "$log"
}

# need_program PROGRAM PACKAGE... : PROGRAM is on PATH afterwards.
need_program() {
  local program=$1
  shift
  have "$program" && return
  install_packages "$program is missing" "$@"
  have "$program" || fail "$program is missing although $* is installed"
}

need_c_compiler() {
  have cc || have gcc || have clang || install_packages "no C compiler" gcc libc6-dev
}

rust_version_wanted() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml" | head -n 1; }
rust_version() { (cd "$ROOT" && cargo --version 2>/dev/null) | cut -d ' ' -f 2; }

# not_older A B : version A is B or later.
not_older() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

rust_is_new_enough() {
  local version
  version=$(rust_version)
  [ -n "$version" ] && not_older "$version" "$(rust_version_wanted)"
}

# The name under which Rust publishes its tools for this machine.
rust_host() {
  local libc=gnu
  case "$(ldd --version 2>&1 || true)" in *musl*) libc=musl ;; esac
  echo "$(uname -m)-unknown-linux-$libc"
}

# Fetches rustup's installer, checks it against its published hash, and runs it.
install_rustup() {
  local from work
  from=${RUSTUP_UPDATE_ROOT:-https://static.rust-lang.org/rustup}/dist/$(rust_host)/rustup-init
  work=$(mktemp -d)
  # Chained: `set -e` does not hold in a function whose failure the caller handles.
  (
    trap 'rm -rf "$work"' EXIT
    cd "$work" \
      && curl --proto '=https' --tlsv1.2 -sSf --retry 2 -O "$from" -O "$from.sha256" \
      && echo "$(cut -c -64 rustup-init.sha256)  rustup-init" | sha256sum --check --status \
      && chmod +x rustup-init \
      && ./rustup-init -y -q --no-modify-path --profile minimal --default-toolchain "$RUST_DEVELOPED_WITH"
  ) >&2
}

# A Rust toolchain that is new enough, by rustup where it is missing and the network allows.
need_rust() {
  need_c_compiler
  rust_is_new_enough && return
  local wanted hint
  wanted=$(rust_version_wanted)
  hint="Rust $wanted or newer is needed: install it from https://rustup.rs and run this again"
  if have rustup; then
    say "installing Rust $RUST_DEVELOPED_WITH"
    rustup toolchain install "$RUST_DEVELOPED_WITH" --profile minimal >&2 \
      || fail "$hint (rustup could not fetch it)"
    export RUSTUP_TOOLCHAIN=$RUST_DEVELOPED_WITH
  else
    have curl || install_packages "curl is missing, which would fetch Rust" curl ca-certificates
    say "installing Rust $RUST_DEVELOPED_WITH with rustup into ${CARGO_HOME:-$HOME/.cargo}"
    install_rustup || fail "$hint (it could not be fetched from here)"
    hash -r
  fi
  rust_is_new_enough || fail "$hint"
}

# rustfmt and clippy, for the lints.
need_rust_lints() {
  need_rust
  local component
  for component in fmt clippy; do
    cargo "$component" --version >/dev/null 2>&1 && continue
    have rustup || fail "cargo $component is missing: install it beside your Rust and run this again"
    rustup component add rustfmt clippy >&2 || fail "rustup could not add rustfmt and clippy"
    return
  done
}

# A nightly toolchain, for sanitizers and fuzzing.
need_nightly() {
  need_rust
  cargo +nightly --version >/dev/null 2>&1 && return
  have rustup || fail "a nightly Rust is needed: install rustup from https://rustup.rs and run this again"
  say "installing a nightly Rust toolchain"
  rustup toolchain install nightly --profile minimal --component rust-src >&2 \
    || fail "rustup could not fetch the nightly toolchain"
}

# build_release : the everyday binary, target/release/evenkeel.
build_release() {
  say "building evenkeel (release)"
  (cd "$ROOT" && cargo build --release --locked -p evenkeel-cli --bin evenkeel)
}

# build_dist : the binary that is shipped and measured, target/dist/evenkeel, its symbols and debug information in a file
# beside it.
build_dist() {
  local binary=$TARGET/dist/evenkeel
  need_program objcopy binutils
  say "building evenkeel (dist)"
  (cd "$ROOT" && cargo build --profile dist --locked -p evenkeel-cli --bin evenkeel)
  # What cargo did not build anew has been taken apart already.
  if [[ $(readelf --sections --wide "$binary") == *.debug_line* ]]; then
    objcopy --only-keep-debug "$binary" "$binary.debug"
    objcopy --strip-all --remove-section .gnu_debuglink --add-gnu-debuglink="$binary.debug" "$binary"
  fi
}
