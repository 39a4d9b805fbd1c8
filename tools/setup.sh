#!/usr/bin/env bash
# Installs from the distribution what is missing, without asking questions, as root or through sudo:
#
#   tools/setup.sh build    what it takes to build and run Sluice
#   tools/setup.sh release  that, and what it takes to compile it with a profile
#   tools/setup.sh deb      that, and what it takes to make a Debian package
#   tools/setup.sh test     what it takes to build it, and what its tests and checks need
#
# It looks before it acts: where nothing is missing it changes nothing and needs no network. Rust is not its business.
set -euo pipefail
cd "$(dirname "$0")/.."

DPDK_OLDEST=22.11
GO_OLDEST=1.21 # it gets the Go that tests/interop/smf/go.mod names, which pfcpsim wants, as a module
CARGO_DENY=0.20.2
REQUIREMENTS=tests/interop/requirements.txt

missing=()

main() {
    case "${1:-}" in
        build | release | deb | test) ;;
        *) fail "usage: tools/setup.sh build|release|deb|test" ;;
    esac
    need_build
    [ "$1" != release ] || need_release
    [ "$1" != deb ] || { need_release && need_deb; }
    [ "$1" != test ] || need_test
    install_packages
    [ "$1" != test ] || complete_tests
}

need_build() {
    have cargo || fail "cargo was not found: install Rust, for example from https://rustup.rs"
    have cc || missing+=(build-essential)
    have pkg-config || missing+=(pkg-config)
    # Its dependencies bring the libraries and all drivers.
    pkg-config --atleast-version="$DPDK_OLDEST" libdpdk 2>/dev/null || missing+=(libdpdk-dev)
    have bindgen || missing+=(bindgen)
    # What bindgen loads, and the headers beside it: libclang-cpp alone, or libclang1, will not do.
    compgen -G "/usr/lib/llvm-*/lib/libclang.so" >/dev/null || missing+=(libclang-dev)
}

# What merges profiles, unless the compiler brings it.
need_release() {
    compgen -G "$(rustc --print sysroot)/lib/rustlib/*/bin/llvm-profdata" >/dev/null || have llvm-profdata-19 || missing+=(llvm-19)
}

need_deb() {
    have dh || missing+=(debhelper)
    have dpkg-buildpackage || missing+=(dpkg-dev)
}

need_test() {
    need_deb
    have lintian || missing+=(lintian)
    have systemd-sysusers || missing+=(systemd-standalone-sysusers)
    have ip || missing+=(iproute2)
    have ethtool || missing+=(ethtool)
    have iperf3 || missing+=(iperf3)
    have promtool || missing+=(prometheus)
    have ping || missing+=(iputils-ping)
    have tcpdump || missing+=(tcpdump)
    have nft || missing+=(nftables)
    have dnsmasq || missing+=(dnsmasq-base)
    have nginx || missing+=(nginx-light)
    have dig || missing+=(bind9-dnsutils)
    have turnutils_natdiscovery || missing+=(coturn)
    have traceroute || missing+=(traceroute)
    compgen -G "/usr/lib/*/libndpi.so.4.2" >/dev/null || missing+=(libndpi4.2)
    have ndpiReader || missing+=(libndpi-bin)
    have tshark || missing+=(tshark)
    have valgrind || missing+=(valgrind)
    have chromium || missing+=(chromium)
    python3 -c "import ensurepip, venv" 2>/dev/null || missing+=(python3-venv)
    new_enough_go || missing+=(golang-go)
}

# What does not come from the distribution.
complete_tests() {
    make_venv
    # Without optimization: it looks at a few hundred licences, and takes three times as long to compile with it. It is
    # not debugged, either.
    have cargo-deny || CARGO_PROFILE_DEV_DEBUG=false cargo install -q --locked --debug "cargo-deny@$CARGO_DENY"
}

have() {
    command -v "$1" >/dev/null
}

fail() {
    echo "tools/setup.sh: $1" >&2
    exit 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        fail "not root, and there is no sudo to run: $*"
    fi
}

# Whether version $1 is at least $2.
at_least() {
    [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

new_enough_go() {
    have go && at_least "$(go env GOVERSION | sed 's/^go//')" "$GO_OLDEST"
}

install_packages() {
    [ ${#missing[@]} -gt 0 ] || return 0
    have apt-get || fail "install these, or what your distribution calls them: ${missing[*]}"
    as_root apt-get -q update
    [[ " ${missing[*]} " != *" golang-go "* ]] || add_backports
    echo "installing ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "${missing[@]}"
}

# Debian 12 has Go 1.19, its backports have newer ones: Go is taken from there, and nothing else.
add_backports() {
    local candidate codename mirror
    candidate=$(apt-cache policy golang-go | sed -n 's/^ *Candidate: \([0-9]*:\)\?\([0-9.]*\).*/\2/p')
    ! at_least "${candidate:-0}" "$GO_OLDEST" || return 0
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    # shellcheck disable=SC2016 # for apt-get to expand
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $codename" 'Created-By: Packages' | head -n 1)
    echo "deb $mirror $codename-backports main" | as_root tee /etc/apt/sources.list.d/sluice-backports.list
    as_root apt-get -q update
    missing=("${missing[@]/%golang-go/golang-go/$codename-backports}" "golang-src/$codename-backports")
}

# Scapy, pytest and its xdist, jsonschema, Playwright and schemathesis, in .venv: made anew when the list has changed, or Python has.
make_venv() {
    if cmp -s "$REQUIREMENTS" .venv/requirements.txt && .venv/bin/python -c "import jsonschema, playwright, pytest, scapy, schemathesis, xdist, yaml" 2>/dev/null; then
        return 0
    fi
    python3 -m venv --clear .venv
    .venv/bin/pip install -q --disable-pip-version-check --no-deps -r "$REQUIREMENTS"
    cp "$REQUIREMENTS" .venv/
}

main "$@"
