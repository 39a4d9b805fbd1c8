#!/usr/bin/env bash
# Makes a Debian package of a program that is built: tools/deb.sh PROGRAM [DIRECTORY], by default into target/deb.
#
# The program decides what it needs: with the features `bundle`, `demo`, `manual` and `sim` at least.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath "$1")
out=$(realpath -m "${2:-target/deb}")
tree=$out/tree

rm -rf "$tree"
mkdir -p "$tree"
cp -a README.md docs examples debian "$tree/"
# Names and licences of the libraries in the program.
cargo tree --locked --offline -q -p sluice -e normal --prefix none --format '{p} {l}' |
    grep -v '(/' | sed 's/ (proc-macro)//; s/ (\*)//' | sort -u > "$tree/debian/libraries.txt"

version=$(dpkg-parsechangelog -l debian/changelog -S Version)
[ "$("$program" --version)" = "sluice $version" ] || {
    echo "tools/deb.sh: debian/changelog says $version, $program: $("$program" --version)" >&2
    exit 1
}
cd "$tree"
# No check of build dependencies: the program is built.
SLUICE=$program dpkg-buildpackage -d -b -us -uc >"$out/build.log" 2>&1 || {
    tail -n 30 "$out/build.log" >&2
    exit 1
}
cd "$out"
rm -rf "$tree"
ls "$PWD"/sluice_"$version"_*.deb
