#!/usr/bin/env bash
# Makes target/release/sluice as it is deployed: compiled once to count what it executes, run through a quick look at its
# own benchmarks, and compiled again for what they executed most (profile-guided optimization). Takes a quarter of an hour
# on two cores, a third of it for each of two compilations and the rest for the benchmarks.
set -euo pipefail
cd "$(dirname "$0")/.."

read -ra cargo <<<"${CARGO:-cargo}"
target=${CARGO_TARGET_DIR:-target}
triple=$(rustc -vV | sed -n 's/^host: //p')
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT

main() {
    local tool part
    tool=$(profdata)
    compile "-Cprofile-generate=$profile/raw"
    for part in throughput qos setup overload pfcp nat inspection egress offload; do
        echo "profile: sluice bench $part --quick"
        "$target/profiled/$triple/release/sluice" bench "$part" --quick >"$profile/log" 2>&1 || fail "$(cat "$profile/log")"
    done
    "$tool" merge -o "$profile/merged" "$profile/raw" ||
        fail "$tool does not read this compiler's profiles: rustup component add llvm-tools"
    compile "-Cprofile-use=$profile/merged"
    # A file of its own: what lies there shares its octets with cargo's.
    install -D -m 755 "$target/profiled/$triple/release/sluice" "$target/release/sluice"
}

# The compiler's own, or Debian's.
profdata() {
    local tool
    for tool in "$(rustc --print sysroot)/lib/rustlib/$triple/bin/llvm-profdata" llvm-profdata-19; do
        ! command -v "$tool" || return 0
    done
    fail "llvm-profdata is missing: tools/setup.sh release"
}

# With the target named, flags are not those of build scripts.
compile() {
    RUSTFLAGS="${RUSTFLAGS:-} $1" "${cargo[@]}" build --release --locked -p sluice --target "$triple" --target-dir "$target/profiled"
}

fail() {
    echo "tools/profiled_release.sh: $1" >&2
    exit 1
}

main
