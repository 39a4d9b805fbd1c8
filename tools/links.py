#!/usr/bin/env python3
"""Fails when a document, a comment or a configuration names a file of the repository that does not exist.

In Markdown it checks relative links with their anchors, tests that are linked by name ([`FILE::TEST`](path)), and every
path that begins with a folder of the root; in sources, paths of documents.
"""
import pathlib
import re
import subprocess
import sys

TOP = r"(?:crates|docs|examples|fuzz|tests|tools|\.ci)"
LINK = re.compile(r"\[[^][]*\]\(([^)\s]+)\)")
TEST = re.compile(r"\[`\w+::(\w+)`\]\(([^)\s#]+)\)")
PATH = re.compile(rf"(?<![\w./-]){TOP}/[\w./-]*\w")
DOCUMENT = re.compile(r"(?<![\w./-])docs/[\w/-]+(?:\.(?:md|json)\b)?")
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.M)
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
SOURCES = {".md", ".rs", ".py", ".sh", ".yaml", ".toml", ".go", ".c", ".h", ""}


def tracked():
    # With what is new and not ignored: the check is of the tree as it would be committed.
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    paths = subprocess.check_output(listing, text=True).split("\0")
    return sorted({pathlib.Path(path) for path in paths if path and pathlib.Path(path).is_file()})


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    found = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchor = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        number = sum(1 for known in found if re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", known))
        found.add(f"{anchor}-{number}" if number else anchor)
    return found


def exists(path):
    # docs/adr/0005 names a decision by its number.
    return path.exists() or (path.suffix == "" and any(path.parent.glob(f"{path.name}-*")))


def dead(path, text):
    if path.suffix == ".md":
        for target in LINK.findall(FENCE.sub("", text)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            page = path.parent / name if name else path
            if not page.exists():
                yield target
            elif anchor and page.suffix == ".md" and anchor not in anchors(page.read_text()):
                yield target
        for test, target in TEST.findall(text):
            page = path.parent / target
            if not page.exists() or not re.search(rf"\b(?:fn|def) {test}\b", page.read_text()):
                yield f"{target}: {test}"
    for target in (PATH if path.suffix == ".md" else DOCUMENT).findall(text):
        if not exists(pathlib.Path(target)):
            yield target


def main():
    found = []
    pages = 0
    for path in tracked():
        if path.suffix not in SOURCES or path.match("tests/golden/*/*"):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        pages += path.suffix == ".md"
        found += [f"{path}: {target}" for target in sorted(set(dead(path, text)))]
    for fault in found:
        print(f"link: {fault}", file=sys.stderr)
    if not found:
        print(f"links: {pages} documents, every file that they name exists")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
