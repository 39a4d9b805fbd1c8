#!/usr/bin/env bash
# Runs the tests of crates without DPDK that hold unsafe code, and of the worker, which lives on it, under AddressSanitizer
# and its search for leaks, and those of the flow tables under valgrind as well. All others but those of
# DPDK (`dpdk`, `dpdk-sys`) forbid unsafe code: there is nothing in them for a sanitizer to find, and the fuzz targets
# (`make fuzz`) have it anyway. The stable toolchain has the
# sanitizer's runtime; only the switch is not stable, hence RUSTC_BOOTSTRAP.
set -euo pipefail
cd "$(dirname "$0")/.."

# Fewer cases where a test does not say how many: the plain run has the many.
export PROPTEST_CASES="${PROPTEST_CASES:-64}"

# The flags fit no other build, so it has a folder of its own: under a gigabyte, as it holds no more than what names the
# line of a finding.
host=$(rustc -vV | sed -n 's/^host: //p')
folder="${CARGO_TARGET_DIR:-target}/sanitize"

# Some tests ask for more memory than there is. The codec takes minutes to optimize and is fast enough as it is.
under_asan() {
    ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=1" \
        RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" CARGO_INCREMENTAL=0 \
        CARGO_PROFILE_DEV_DEBUG=line-tables-only CARGO_PROFILE_DEV_OPT_LEVEL=1 \
        cargo test --locked --target "$host" --target-dir "$folder" --config profile.dev.package.pfcp.opt-level=0 \
        --lib --tests "$@"
}

under_valgrind() {
    local program
    # With the features of the whole workspace, as `make unit` has made it: alone, it would be made anew with others.
    program=$(cargo test --locked --workspace --lib --no-run --message-format=json | python3 -c '
import json, sys
made = [json.loads(line) for line in sys.stdin]
print(next(one["executable"] for one in made if one.get("executable") and one["target"]["name"] == sys.argv[1]))' "$1")
    PROPTEST_CASES=4 valgrind -q --leak-check=full --show-leak-kinds=definite \
        --errors-for-leak-kinds=definite --error-exitcode=1 "$program" --test-threads=1
}

under_asan -p flow -p ndpi -p worker
under_valgrind flow
