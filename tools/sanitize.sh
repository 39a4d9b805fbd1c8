#!/usr/bin/env bash
# Runs the tests of the crates without FFI that hold unsafe code, or read what comes from a network, under
# AddressSanitizer. The stable toolchain has its runtime; only the switch is not stable, hence RUSTC_BOOTSTRAP.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address"
# Fewer cases: the plain run has the many.
export PROPTEST_CASES="${PROPTEST_CASES:-64}"
exec cargo test --locked --target x86_64-unknown-linux-gnu --target-dir target/sanitize --lib --tests \
    -p packet -p pfcp -p flow -p worker
