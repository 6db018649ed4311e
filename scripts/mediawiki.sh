#!/usr/bin/env bash
# Fetches Debian's MediaWiki and prints where its code is. The package is unpacked into target/mediawiki and
# not installed: it depends on a web server, which would begin to listen on the machine, and the tests use
# PHP's own. Extensions are left out, which are a third of it. A package that is installed already is used
# as it is. What MediaWiki needs of PHP is installed.
. "$(dirname "$0")/lib.sh"

need_program php php-cli
modules=$(php -m)
for module_and_package in pdo_sqlite:php-sqlite3 mbstring:php-mbstring xml:php-xml intl:php-intl; do
  grep -qix "${module_and_package%:*}" <<<"$modules" \
    || install_packages "PHP's module ${module_and_package%:*} is missing" "${module_and_package#*:}"
done

CODE=usr/share/mediawiki
for found in "/$CODE" "$TARGET/mediawiki/$CODE"; do
  if [ -e "$found/maintenance/install.php" ]; then
    echo "$found"
    exit
  fi
done

hint="Debian's MediaWiki is missing: install the package mediawiki and run this again"
have apt-get && have dpkg-deb || fail "$hint"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# As this user, and past the machine's cache of packages.
download() {
  (cd "$work" && apt-get -q -o APT::Sandbox::User="$(id -un)" download mediawiki mediawiki-classes) >"$work/log" 2>&1
}
say "fetching Debian's MediaWiki"
download || { apt update -q >/dev/null 2>&1 && download; } \
  || fail "$hint ($(grep -m 1 -E '^(E|Err)[: ]' "$work/log" || echo "it could not be fetched"))"
mkdir "$work/unpacked"
for package in "$work"/mediawiki*.deb; do
  dpkg-deb --fsys-tarfile "$package" \
    | tar -x -C "$work/unpacked" --exclude="./$CODE/extensions-core" "./$CODE"
done
mkdir -p "$TARGET"
rm -rf "$TARGET/mediawiki"
mv "$work/unpacked" "$TARGET/mediawiki"
echo "$TARGET/mediawiki/$CODE"
