#!/usr/bin/env python3
"""Counts the instructions per packet of each stage of the worker, and compares them with the record.

    tools/instructions.py            fails when a stage has grown by more than 5%
    tools/instructions.py --record   writes the record anew

The run is `crates/worker/examples/instructions.rs` under callgrind: always the same packets. A count includes what the
stage calls. `qer+urr` is what `lookup` and `apply_rules` execute more for a packet that passes the meter of a QER and counts in
a URR than for one that does neither; `ipv6` is what `apply_rules` executes more for a tunnel over IPv6 than for one over IPv4, with
a payload of 64 octets. Counts depend on the compiler: an update of the compiler needs an update of the record.
"""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile

STAGES = {
    "parse": "worker::ingress::parse::parse",
    "lookup": "worker::lookup::lookup",
    "apply_rules": "worker::apply_rules::apply",
    "tx": "::TxQueues::transmit",
}
POLICY = "qer+urr"
OVER_IPV6 = "ipv6"
RECORD = "crates/worker/instructions.json"
GROWTH = 1.05


def main():
    os.chdir(os.path.join(os.path.dirname(__file__), ".."))
    counts = measure()
    if "--record" in sys.argv:
        with open(RECORD, "w") as file:
            json.dump(counts, file, indent=2)
            file.write("\n")
        return print(*table(counts, counts), sep="\n")
    with open(RECORD) as file:
        record = json.load(file)
    print(*table(counts, record), sep="\n")
    grown = [stage for stage in counts if counts[stage] > record[stage] * GROWTH]
    if grown:
        sys.exit(f"instructions: {', '.join(grown)} grew by more than 5%: make it faster again, or record why not "
                 "with tools/instructions.py --record")


def table(counts, record):
    yield f"{'stage':12} {'instructions a packet':>22} {'recorded':>9}"
    for stage in counts:
        yield f"{stage:12} {counts[stage]:22.1f} {record[stage]:9.1f}"


def measure():
    target = ["-p", "worker", "--example", "instructions"]
    build = subprocess.run(["cargo", "build", "--release", "--locked", "--message-format=json", *target],
                           check=True, stdout=subprocess.PIPE, text=True).stdout
    programs = (json.loads(line).get("executable") for line in build.splitlines())
    program = [program for program in programs if program][-1]
    counts = run(program)
    full, bare = run(program, "full"), run(program, "bare")
    counts[POLICY] = round(sum(full[stage] - bare[stage] for stage in ["lookup", "apply_rules"]), 1)
    # Every other packet goes down.
    counts[OVER_IPV6] = round(2 * (run(program, "v6")["apply_rules"] - counts["apply_rules"]), 1)
    return counts


def without_types(function):
    """A function's name without what its types and itself are generic over."""
    while (shorter := re.sub(r"(::)?<[^<>]*>", "", function)) != function:
        function = shorter
    return function


def run(program, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program, *arguments]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        packets = sum(int(line.split()[0]) for line in run.stdout.splitlines())
        costs = inclusive(out)
    counts = {}
    for stage, name in STAGES.items():
        found = [cost for function, cost in costs.items() if without_types(function).endswith(name)]
        if not found:
            sys.exit(f"instructions: callgrind saw no function {name}: is it inlined?")
        counts[stage] = round(sum(found) / packets, 1)
    return counts


def inclusive(path):
    """The cost of each function with all that it calls, from callgrind's format."""
    names, costs, function = {}, collections.Counter(), None
    with open(path) as file:
        for line in file:
            named = re.match(r"(c?fn)=\((\d+)\)(?: (.*))?", line)
            if named:
                kind, number, name = named.groups()
                if name:
                    names[number] = name
                if kind == "fn":
                    function = names[number]
            elif re.match(r"[+\-*\d]", line) and function:
                costs[function] += int(line.split()[-1])
    return costs


if __name__ == "__main__":
    main()
