#!/usr/bin/env python3
"""Fails when a comment, a document or a message has a word that docs/glossary.md says is not used.

It reads tracked sources, scripts and documents: of Rust and Go the comments and string literals, of other files all
text. It knows only words without another use; the glossary has the others.
"""
import pathlib
import re
import subprocess
import sys

# What is matched, and what to write instead.
WORDS = {
    r"(?:no|any|every|some)body(?:'s)?": "the peer, session, worker or sender; or the passive",
    r"whoever": "the peer, client or sender that",
    r"strangers?": "unknown source, unauthorised peer",
    r"impostors?": "unauthorised peer",
    r"so many(?! (?:that|as)\b)": "a number of, N",
    r"(?:is|are|was|were|be|been|being) told": "is notified, reported, sent, logged",
    r"(?:told|tells?) apart": "distinguished, distinguishes",
    r"tells (?:of|whether|that|how|which|what)": "reports, returns, shows",
    r"(?:hears|heard of)": "receives, received",
    r"go(?:es)? on(?! the\b)": "continues, is forwarded, is relayed",
    r"goes round": "recirculates",
    r"farewells?": "immediate action",
    r"knocks": "arrives after the quota is exhausted",
    r"purse": "write line",
    r"tunnels? of ours": "local F-TEID",
}
# The files that name the words, or quote others' texts.
EXEMPT = {"docs/glossary.md", "tools/words.py", "CHANGELOG.md"}
# Between two words there may be the end of a line and the start of the next comment line.
GAP = r"\s+(?:(?://[/!]?|#)\s+)?"
PATTERN = re.compile(rf"\b(?:{'|'.join(f'(?:{word})' for word in WORDS)})\b".replace(" ", GAP), re.I)
# Comments of consecutive lines, and string literals, of Rust and Go.
TEXT = re.compile(r"""(?://[^\n]*\n?[ \t]*)+|"(?:\\.|[^"\\\n])*"?""")
CODE = {".rs", ".go", ".c", ".h"}
PROSE = {".md", ".py", ".sh", ".yaml", ".toml", ""}


def tracked():
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    paths = subprocess.check_output(listing, text=True).split("\0")
    return sorted({pathlib.Path(path) for path in paths if path and pathlib.Path(path).is_file()})


def instead(found):
    words = " ".join(re.split(GAP, found))
    return words, next((term for word, term in WORDS.items() if re.match(word + "$", words, re.I)), "see the glossary")


def main():
    faults = 0
    for path in tracked():
        if str(path) in EXEMPT or path.suffix not in CODE | PROSE:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        spans = [match.span() for match in TEXT.finditer(text)] if path.suffix in CODE else [(0, len(text))]
        for begin, end in spans:
            for match in PATTERN.finditer(text, begin, end):
                faults += 1
                number = text.count("\n", 0, match.start()) + 1
                words, terms = instead(match[0])
                print(f"words: {path}:{number}: `{words}`: {terms}", file=sys.stderr)
    if not faults:
        print("words: no word that the glossary does not use")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
