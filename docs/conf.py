"""How Sphinx makes the site: `make docs`. No network is needed, nor by who reads the pages.

Formulas become MathML, which browsers show without scripts.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

HERE = Path(__file__).parent

project = "pmldesign"
author = "The pmldesign developers"
copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns: list[str] = []
html_theme = "sphinx_book_theme"
html_title = "pmldesign"
html_theme_options = {"use_download_button": False, "show_toc_level": 2}
html_math_renderer = "mathml"
html_copy_source = html_show_sphinx = False
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say it in words
napoleon_use_ivar = True
nitpicky = False

PICTURE = HERE / "pictures" / "errors.svg"
"""On the front page; made at every build."""


def draw(_app: Any) -> None:
    """The errors of strategies over the number of cells, and what no mechanism can reach."""
    from pmldesign import ApproxDP, compare_all
    from pmldesign.plots import plot_comparisons

    shown = compare_all(
        [f"prefix:{cells}" for cells in (16, 32, 64, 128, 256)],
        ["least-norm", "square-root", "tree", "identity"],
        guarantees=[ApproxDP(1.0, 1e-6)],
        noise="gaussian",
    )
    PICTURE.parent.mkdir(exist_ok=True)
    plot_comparisons(shown, PICTURE)


def as_text(_app: Any, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Docstrings are plain text: stars and bars are those of formulas, indented lines formulas."""
    before = ""
    section = False
    shown = []
    if what == "property" and lines:  # or what stands before a colon is taken for a type
        lines[0] = lines[0].replace(":", " --", 1)
    for line in lines:
        section = section and (not line or line.startswith(" "))
        section = section or bool(re.fullmatch(r"[A-Z]\w+:", line))
        if line.startswith("    ") and not before.strip() and not section:
            shown += ["", "::", ""]
        literal = line.startswith("    ") and not section
        shown.append(line if literal else re.sub(r"([*|])|(?<=\w)(_)(?=\W|$)", r"\\\1\2", line))
        before = line if line.strip() or not literal else before
    lines[:] = shown


def inline(self: Any, node: Any) -> None:
    """A formula in a line."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(self: Any, node: Any) -> None:
    """A formula by itself."""
    formula = convert(node.astext(), display="block")
    self.body.append(f'<div style="overflow-x: auto; margin: 1em 0">{formula}</div>')
    raise nodes.SkipNode


def own_files(_app: Any, _docname: str, source: list[str]) -> None:
    """Links to files of the project that are no pages are shown as their names."""
    source[0] = re.sub(
        r"(?<!!)\[([^\]]+)\]\(\.\./([^)]+)\)",
        lambda match: f"{match[1]} (`{escape(match[2])}`)",
        source[0],
    )


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("builder-inited", draw)
    app.connect("autodoc-process-docstring", as_text, priority=400)
    app.connect("source-read", own_files)
