#!/usr/bin/env python3
"""Fails when a source file of the repository has more than 800 lines. Functions have their own limit, in clippy."""
import pathlib
import subprocess
import sys

MOST = 800
SOURCES = {".c", ".go", ".h", ".py", ".rs", ".sh"}
# Files that may be longer, each with the reason.
EXCEPTIONS = {}


def main():
    tracked = subprocess.check_output(["git", "ls-files", "-z"], text=True).split("\0")
    sources = [pathlib.Path(path) for path in tracked if pathlib.Path(path).suffix in SOURCES]
    lengths = {path: len(path.read_bytes().splitlines()) for path in sources if path.is_file()}
    long = {path: lines for path, lines in lengths.items() if lines > MOST and str(path) not in EXCEPTIONS}
    for path, lines in sorted(long.items()):
        print(f"length: {path}: {lines} lines, at most {MOST} are allowed", file=sys.stderr)
    if not long:
        print(f"lengths: {len(lengths)} source files, none over {MOST} lines")
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
