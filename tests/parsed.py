"""Syntax trees of the sources, each file parsed once for all tests that read them."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


@cache
def tree_of(path):
    return ast.parse(path.read_text())


@cache
def sources(folder):
    """The modules below a folder of the project."""
    return sorted((ROOT / folder).rglob("*.py"))
