#!/usr/bin/env bash
# Runs the tests of crates without FFI that hold unsafe code, or read what comes from a network, under AddressSanitizer,
# and those of the flow tables under valgrind as well. The stable toolchain has the sanitizer's runtime; only the
# switch is not stable, hence RUSTC_BOOTSTRAP.
set -euo pipefail
cd "$(dirname "$0")/.."

# Fewer cases: the plain run has the many.
export PROPTEST_CASES="${PROPTEST_CASES:-64}"

under_asan() {
    # Some tests ask for more memory than there is, others leak their samples; valgrind looks for leaks.
    ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0 RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" cargo test --locked --target x86_64-unknown-linux-gnu \
        --target-dir target/sanitize --lib --tests "$@"
}

under_valgrind() {
    local program
    program=$(cargo test --locked -p "$1" --lib --no-run --message-format=json |
        python3 -c 'import json, sys; print([p for p in (json.loads(line).get("executable") for line in sys.stdin) if p][-1])')
    PROPTEST_CASES=4 valgrind -q --leak-check=full --show-leak-kinds=definite \
        --errors-for-leak-kinds=definite --error-exitcode=1 "$program" --test-threads=1
}

under_asan -p packet -p pfcp -p flow -p worker
under_valgrind flow
