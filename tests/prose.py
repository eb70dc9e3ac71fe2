"""Check the prose of pages, docstrings, comments and messages against the style guide.

    python tests/prose.py            show every match in the pages, and fail if there is one
    python tests/prose.py --code     the same for docstrings, comments and messages
    python tests/prose.py --count    counts of each pattern in pages and in code

The patterns stand for these rules: lead with a noun, use "if" for conditions, modern connectives,
plain negation, ordinary verbs in remedies, no space before a percent sign, short sentences, table
cells, pages and lines of output. ALLOWED holds parts of sentences in which a match is right: add to
it whatever reads well.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / name
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
    if (ROOT / name).exists()
] + sorted((ROOT / "docs").rglob("*.md"))
CODE = [path for room in ("pmldesign", "solvers") for path in sorted((ROOT / room).rglob("*.py"))]
MATHEMATICS = "docs/background/"
"""Pages with proofs, whose sentences hold formulas and may be longer."""
MOST_WORDS, MOST_IN_CELL, MOST_IN_LINE, MOST_ON_PAGE = 30, 120, 90, 2500

PATTERNS = {
    "headless what": r"\bwhat (?:is|are|was|were|it|they|he|the|a|an|has|have|can|may|comes?|lies|"
    r"needs?|each|every|one|no|this|that|follows|remains|makes|takes|goes|others?)\b(?![^.\n]*\?)",
    "beside": r"\b[Bb]esides?\b",
    "is none, is no": r"\b(?:is|are|was|were) (?:none\b|no (?!longer\b|more than\b)[a-z]+\b)"
    r"|\bnone of\b",
    "nobody, whoever": r"\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever|[Ww]hichever|no one who)\b",
    "likewise, anew, but for": r"\b(?:[Ll]ikewise|[Aa]new|but for|[Hh]ardly|in place of"
    r"|of whom|on line)\b",
    "of which": r"\bof which\b",
    "where for if": r"\b[Ww]here (?:it|they|there|that|this|these|no|both|neither|given|needed"
    r"|possible|known)\b",
    "remedy verbs": r"(?:; |, or )(?:take|give|leave)\b",
    "tell, know, speak": r"\b(?:tells?|told|speaks? of|spoken of)\b",
    "95 %": r"\d %(?!\w)",
}
COMPILED = {name: re.compile(pattern) for name, pattern in PATTERNS.items()}
ALLOWED: tuple[str, ...] = ()
"""Parts of lines in which a match is right."""


class Match(NamedTuple):
    """A place that a reader may have to read twice."""

    path: Path
    line: int
    pattern: str
    text: str


def page_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The prose of a page: no code blocks, formulas or addresses."""
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, _plain(line)


def _plain(line: str) -> str:
    line = re.sub(r"`[^`]*`", "`code`", line)
    line = re.sub(r"\$[^$]*\$", "x", line)
    return re.sub(r"\]\([^)]*\)", "]", line)


def code_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Comments, docstrings and messages: every string with three words or more."""
    source = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for offset, line in enumerate(node.value.splitlines()):
                if len(line.split()) >= 3:
                    yield node.lineno + offset, line


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Paragraphs of a page, cut at full stops; tables, lists and headings apart."""
    block: list[str] = []
    start = 0
    for number, line in [*page_lines(path), (0, "")]:
        first = re.match(r"\s*(?:[-*] |\d+\. |#|\||>|$)", line)
        if first and block:
            for sentence in re.split(r"(?<=[.!?:])\s+", " ".join(block)):
                yield start, sentence
            block = []
        if line.strip() and not line.startswith(("|", "#")):
            start = start if block else number
            block.append(line.strip())


def matches(paths: Iterable[Path]) -> Iterator[Match]:
    """Every place in pages and code that breaks a rule."""
    for path in paths:
        lines = page_lines(path) if path.suffix == ".md" else code_lines(path)
        for number, line in lines:
            if any(part in line for part in ALLOWED):
                continue
            for name, pattern in COMPILED.items():
                for _ in pattern.findall(line):
                    yield Match(path, number, name, line.strip())
        if path.suffix == ".md":
            yield from _long(path)


def _long(path: Path) -> Iterator[Match]:
    if not path.relative_to(ROOT).as_posix().startswith(MATHEMATICS):
        for number, sentence in sentences(path):
            if len(sentence.split()) > MOST_WORDS:
                yield Match(path, number, "long sentence", sentence[:100])
        text = path.read_text(encoding="utf-8")
        if len(text.split()) > MOST_ON_PAGE:
            yield Match(path, 1, "long page", f"{len(text.split())} words")
        for block in re.finditer(r"^```(?:console|python|text)\n(.*?)^```$", text, re.M | re.S):
            for number, line in enumerate(
                block[1].splitlines(), text.count("\n", 0, block.start(1))
            ):
                if len(line) > MOST_IN_LINE:
                    yield Match(path, number + 1, "wide output", line[:100])
    for number, line in page_lines(path):
        if line.startswith("|") and max(map(len, line.split("|"))) > MOST_IN_CELL:
            yield Match(path, number, "long cell", line[:100])


def main() -> int:
    both, code = "--count" in sys.argv, "--code" in sys.argv
    found = list(matches([*PAGES, *CODE] if both else CODE if code else PAGES))
    if both:
        for name in [*PATTERNS, "long sentence", "long cell", "long page", "wide output"]:
            kinds = Counter(m.path.suffix for m in found if m.pattern == name)
            print(f"{name:26} pages {kinds['.md']:5}   code {kinds['.py']:5}")
        return 0
    for match in found:
        place = match.path.relative_to(ROOT).as_posix()
        print(f"{place}:{match.line}: {match.pattern}: {match.text}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
