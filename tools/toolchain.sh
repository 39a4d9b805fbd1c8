#!/usr/bin/env bash
# Prints the name under which rustup has the toolchain of rust-toolchain.toml, where that is another than its version:
# `stable`, for example. So a machine that has it needs no network. Prints nothing where rustup finds it by its version, or
# is to install it, or is not there.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v rustup >/dev/null || exit 0
pinned=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
names=$(rustup toolchain list | cut -d' ' -f1)
if grep -q "^$pinned\b" <<<"$names"; then
    exit 0
fi
for name in $names; do
    if [ "$(rustup run "$name" rustc --version 2>/dev/null | cut -d' ' -f2)" = "$pinned" ]; then
        echo "$name"
        exit 0
    fi
done
