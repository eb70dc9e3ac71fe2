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


def list_commands(_app: Any) -> None:
    """Write the reference of the commands."""
    runpy.run_path(str(HERE / "commands.py"))["write"](HERE / "reference" / "commands")


def draw(_app: Any) -> None:
    """Run the page of pictures, and draw the studies of the examples."""
    from pmldesign.cli import main

    PICTURES.mkdir(exist_ok=True)
    names: dict[str, Any] = {}
    with contextlib.chdir(PICTURES):
        for kind, body in EXAMPLES.findall((HERE / "guides" / "studies.md").read_text()):
            if kind == "python":
                exec(body, names)
            joined = re.sub(r"\\\n> *", " ", body)
            for line in re.findall(r"^\$ pmldesign (.*) > \S+$", joined, re.MULTILINE):
                result = CliRunner().invoke(main, shlex.split(line), prog_name="pmldesign")
                assert result.exit_code == 0, result.stderr
    for study in ("lp_error", "streams"):
        figures = runpy.run_path(str(HERE.parent / "examples" / study / "figures.py"))
        figures["main"](PICTURES)
    explore = runpy.run_path(str(HERE.parent / "examples" / "explore" / "page.py"))
    (PICTURES / "explore.html").write_text(explore["fragment"]())


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


RELATIONS = re.compile(r"(?:=|\\le|\\ge|<|>|\\leftarrow) ")
SUMS = re.compile(r"\+ ")
LONG = 60  # letters of a formula; a shorter one fits on a telephone


def pieces(text: str, signs: re.Pattern[str]) -> list[str]:
    """A long formula, cut before these signs, where a line may end."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if depth == 0 and len(text) > LONG and signs.match(text, place):
            parts.append(text[start:place])
            start = place
    return [part for part in [*parts, text[start:]] if part.strip()]


def as_mathml(text: str, **options: Any) -> str:
    """With a space between log and what follows, which browsers do not put, and none around inf."""
    formula = convert(text, **options).replace("<mo>&#x0221E;</mo>", "<mi>&#x0221E;</mi>")
    return re.sub(
        r"(<mi>(?:log|exp|sin|det)</mi>)(?=<m(?:i|n|sub|sup|subsup|row)>)",
        r'\1<mspace width="0.17em"></mspace>',
        formula,
    )


def inline(self: Any, node: Any) -> None:
    """A formula in a line, which does not end between it and a comma."""
    parts = [p for part in pieces(node.astext(), RELATIONS) for p in pieces(part, SUMS)]
    *first, last = map(as_mathml, parts)
    after = node.get("after", "")
    self.body.append(" ".join([*first, f'<span class="formula">{last}{after}</span>']))
    raise nodes.SkipNode


def keep_commas(_app: Any, tree: Any, _name: str) -> None:
    """Give every formula in a line the comma or full stop that follows it."""
    for formula in tree.findall(nodes.math):
        following = formula.next_node(siblings=True, descend=False)
        if isinstance(following, nodes.Text) and following[:1] in (".", ",", ";", ":", ")"):
            formula["after"] = following[:1]
            formula.parent.replace(following, nodes.Text(following[1:]))


def block(self: Any, node: Any) -> None:
    """A formula by itself."""
    text = node.astext().replace("{aligned}", "{align*}")  # the same, and the one that is known
    formula = as_mathml(text, display="block")
    self.body.append(f'<div style="overflow-x: auto; margin: 1em 0">{formula}</div>')
    raise nodes.SkipNode


def own_files(_app: Any, name: str, source: list[str]) -> None:
    """Links to files of the project that are no pages are shown as their names."""
    source[0] = re.sub(
        r"(?<!!)\[([^\]]+)\]\(%s([^)]+)\)" % (r"\.\./" * (1 + name.count("/"))),
        lambda match: f"{match[1]} (`{escape(match[2])}`)",
        source[0],
    )


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("builder-inited", list_commands)
    app.connect("builder-inited", draw)
    app.connect("autodoc-process-docstring", as_text, priority=400)
    app.connect("source-read", own_files)
    app.connect("doctree-resolved", keep_commas)
