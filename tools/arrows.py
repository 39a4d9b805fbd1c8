#!/usr/bin/env python3
"""Fails when an arrow between crates points up, or a crate shares memory between threads that is not to.

The order is that of the map in ARCHITECTURE.md: a crate may use only crates that stand below it, and the protocol
cores stay free of DPDK and of an async runtime. Normal, build and dev dependencies count; a dependency behind a
feature counts for the layering, and is allowed to reach DPDK only where OPTIONAL_DPDK says so.

Inside a crate no modules use each other in a circle (tools/modules.py finds circles, and prints them when it is called with
the names of crates).

Nothing on a packet's way is shared, so no model of a lock-free structure has to be checked: atomics and cells for
them are only where MAY_SHARE says so, for flags that stop threads and numbers that make names unique.
"""
import json
import pathlib
import re
import subprocess
import sys

import modules

ORDER = [
    "sluice", "bench", "oam", "runtime", "trace", "ports", "upf", "config",
    "sim", "n4", "session", "worker", "offload", "transport", "audit", "natlog", "store", "records", "disk", "usage", "rules", "nat", "tm", "flow", "ndpi", "dpi", "packet", "pfcp", "dpdk", "dpdk-sys",
]
PURE = {"disk", "store", "config", "upf", "trace", "sim", "n4", "session", "offload", "transport", "audit", "natlog", "records", "usage", "rules", "nat", "tm", "flow", "ndpi", "dpi", "packet", "pfcp"}
NEVER_IN_PURE = {"dpdk", "dpdk-sys", "tokio"}
APART = {("session", "worker"), ("session", "transport"), ("n4", "worker"), ("n4", "transport"), ("rules", "pfcp")}
OPTIONAL_DPDK = {"worker"}
MAY_SHARE = {"dpdk", "runtime", "trace", "oam", "bench", "sluice"}
# What only benchmarks and the demo need: no part of a daemon built without features.
NEVER_IN_DAEMON = {"hdrhistogram", "indicatif", "plotters", "ratatui", "sim"}
SHARING = re.compile(r"sync::atomic|\bAtomic[A-Z]\w+|\bUnsafeCell\b|\bstatic mut\b")


def faults(packages):
    rank = {name: place for place, name in enumerate(ORDER)}
    for package in packages:
        name = package["name"]
        if name not in rank:
            yield f"{name}: not in the map; add it to ORDER and to ARCHITECTURE.md"
            continue
        for dep in package["dependencies"]:
            to = dep["name"]
            kind = dep["kind"] or "normal"
            if to in rank and rank[to] <= rank[name] and not (to == name and kind == "dev"):
                yield f"{name} -> {to} ({kind}): points up"
            # Tests may bring two cores together; the product may not.
            if (name, to) in APART and kind != "dev":
                yield f"{name} -> {to} ({kind}): these two meet only in upf"
            if name in PURE and to in NEVER_IN_PURE:
                yield f"{name} -> {to} ({kind}): {name} knows nothing of DPDK or an async runtime"
            if name in OPTIONAL_DPDK and to in NEVER_IN_PURE and not dep["optional"]:
                yield f"{name} -> {to} ({kind}): only behind the feature `dpdk`"


def in_daemon(packages):
    """What `sluice` without its default features depends on that only optional parts may."""
    known = {package["name"]: package for package in packages}
    waiting, seen = ["sluice"], set()
    while waiting:
        name = waiting.pop()
        for dep in known[name]["dependencies"]:
            to = dep["name"]
            if dep["kind"] is not None or dep["optional"] or (name, to) in seen:
                continue
            seen.add((name, to))
            if to in NEVER_IN_DAEMON:
                yield f"{name} -> {to} (normal): the daemon without features does not link {to}"
            elif to in known:
                waiting.append(to)


def shared(packages):
    for package in packages:
        if package["name"] in MAY_SHARE:
            continue
        for source in sorted((pathlib.Path(package["manifest_path"]).parent / "src").rglob("*.rs")):
            for number, line in enumerate(source.read_text().splitlines(), 1):
                if SHARING.search(line):
                    yield f"{source}:{number}: {package['name']} shares no memory between threads: {line.strip()}"


def in_circles(packages):
    for package in packages:
        source = pathlib.Path(package["manifest_path"]).parent / "src"
        count = sum(len(ring) for ring in modules.circles(modules.uses(modules.load(modules.root_of(source)))))
        if count:
            yield f"{package['name']}: {count} modules use each other in circles: tools/modules.py {package['name']}"


def main():
    metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"]))
    found = sorted([*faults(metadata["packages"]), *shared(metadata["packages"]), *in_circles(metadata["packages"]), *in_daemon(metadata["packages"])])
    for fault in found:
        print(f"arrow: {fault}", file=sys.stderr)
    if not found:
        print(f"arrows: {len(metadata['packages'])} crates, none points up, none shares what it must not")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
