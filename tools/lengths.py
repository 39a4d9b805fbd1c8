#!/usr/bin/env python3
"""Fails when a source file of the repository has more than 800 lines, or a comment of Rust more than 120 columns, which
rustfmt leaves as they are. Functions have their own limit, in clippy."""
import pathlib
import subprocess
import sys

MOST = 800
COLUMNS = 120
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
    wide = [place for path in lengths if path.suffix == ".rs" for place in wide_comments(path)]
    for place in wide:
        print(f"length: {place}: a comment of more than {COLUMNS} columns", file=sys.stderr)
    if not long and not wide:
        print(f"lengths: {len(lengths)} source files, none over {MOST} lines, no comment over {COLUMNS} columns")
    return 1 if long or wide else 0


def wide_comments(path):
    """Places of comment lines that are too long."""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("//") and len(line) > COLUMNS:
            yield f"{path}:{number}"


if __name__ == "__main__":
    sys.exit(main())
