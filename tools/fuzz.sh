#!/usr/bin/env bash
# Runs every fuzz target for a number of seconds (default 60). Needs a nightly toolchain and cargo-fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
targets=$(cargo +nightly fuzz list)
for target in $targets; do
  printf '== %s\n' "$target"
  cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=2048
done
