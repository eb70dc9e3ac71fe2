"""How Sphinx makes the site: `make docs`. No network is needed, nor by who reads the pages.

Formulas become MathML, which browsers show without scripts.
"""

from __future__ import annotations

import contextlib
import re
import runpy
import shlex
from html import escape
from pathlib import Path
from typing import Any

from click.testing import CliRunner
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
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "use_download_button": False,
    "show_toc_level": 2,
    "navbar_persistent": [],  # the search field is in the side bar
}
html_math_renderer = "mathml"
html_copy_source = html_show_sphinx = False
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say it in words
napoleon_use_ivar = True
nitpicky = False

PICTURES = HERE / "pictures"
"""Made at every build by the examples of the gallery; the front page has one of them."""
EXAMPLES = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def draw(_app: Any) -> None:
    """Run what the gallery says, and draw the studies of the examples."""
    from pmldesign.cli import main

    PICTURES.mkdir(exist_ok=True)
    names: dict[str, Any] = {}
    with contextlib.chdir(PICTURES):
        for kind, body in EXAMPLES.findall((HERE / "gallery.md").read_text()):
            if kind == "python":
                exec(body, names)
            for line in re.findall(r"^\$ pmldesign (.*) > \S+$", body, re.MULTILINE):
                result = CliRunner().invoke(main, shlex.split(line), prog_name="pmldesign")
                assert result.exit_code == 0, result.stderr
    for study in ("lp_error", "streams"):
        figures = runpy.run_path(str(HERE.parent / "examples" / study / "figures.py"))
        figures["main"](PICTURES)


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
    text = node.astext().replace("{aligned}", "{align*}")  # the same, and the one that is known
    formula = convert(text, display="block")
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
