"""A document as one HTML file that opens without a network, and can be printed.

Everything is in the file: the style, the pictures as SVG, no scripts. A number in a table is a
<data> element, whose value has all digits. The end of every page says how to repeat it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from platform import platform, python_version

import click

from pmldesign._version import version
from pmldesign.cli.documents.document import Cell, Picture, Rounded, Section, Table, text_of
from pmldesign.files import atomic_write
from pmldesign.plots.pictures import svg_text

VERSIONS = ("pmldesign", "numpy", "scipy", "matplotlib")

CSS = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid #ccc; }
th.text, td.text { text-align: left; } thead th { border-bottom: 2px solid #333; }
td.short { white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
pre { background: #f4f4f4; padding: .6rem; white-space: pre-wrap; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } figcaption { font-size: .9rem; color: #444; }
svg { max-width: 100%; height: auto; }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; } }
@page broad { size: landscape; }
@media print { html { font-size: 75%; } body { margin: 0; max-width: none; font-size: 1rem; }
  figure, tr { break-inside: avoid; } h2 { break-after: avoid; } .wide { overflow: visible; }
  .broad { page: broad; } .broad table { font-size: .6rem; }
  .broad th, .broad td { padding: .15rem .3rem; } }
"""
BROAD = 9
"""Columns that a page has room for upright; wider tables are printed across, in small letters."""
SHORT = 24
"""Letters of a text that is not broken into lines."""


def command_words() -> list[str]:
    """The command line as it was given."""
    context = click.get_current_context()
    words = ["pmldesign", context.info_name or ""]
    options: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        values = [*map(str, value)] if isinstance(value, tuple) else [str(value)]
        if isinstance(parameter, click.Argument):
            words += values
        elif value is True:
            options.append(parameter.opts[-1])
        else:
            options += [word for text in values for word in (parameter.opts[-1], text)]
    return words + options


def write_page(path: Path, title: str, sections: Iterable[Section]) -> None:
    """Write a page.

    Args:
        path: .html; an existing file is replaced at the end.
        title: of the page.
        sections: from above to below; then follows how to repeat it.

    Raises:
        FileError: the file cannot be written.
    """
    versions = [(name, version(name)) for name in VERSIONS]
    repeat = Section(
        "To repeat it",
        facts=[*versions, ("Python", f"{python_version()} on {platform(terse=True)}")],
    )
    bodies = [_section(section, number) for number, section in enumerate(sections)]
    line = f"<pre><code>{escape(shlex.join(command_words()))}</code></pre>"
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{''.join(bodies)}{_section(repeat, len(bodies), line)}"
        "</body>\n</html>\n"
    )
    with atomic_write(path, "w") as handle:
        handle.write(page)


def _section(section: Section, number: int, more: str = "") -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(sentence)}</p>" for sentence in section.sentences]
    if section.facts:
        pairs = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in section.facts)
        parts.append(f"<dl>{''.join(pairs)}</dl>")
    parts += [_grid(table) for table in section.tables]
    for place, picture in enumerate(section.pictures):
        parts.append(_figure(picture, f"s{number}p{place}-"))
    broad = any(len(table.header) > BROAD for table in section.tables)
    start = '<section class="broad">\n' if broad else "<section>\n"
    return start + "\n".join([*parts, more]) + "\n</section>\n"


def _grid(table: Table) -> str:
    columns = zip(*table.rows, strict=True) if table.rows else [()] * len(table.header)
    heads = "".join(map(_head, table.header, columns))
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in table.rows)
    return (
        f'<div class="wide"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n'
        "</table></div>"
    )


def _head(name: str, column: Sequence[Cell]) -> str:
    """The head of a column stands as its cells do."""
    kind = ' class="text"' if any(isinstance(value, str) for value in column) else ""
    return f'<th scope="col"{kind}>{escape(name.replace("_", " "))}</th>'


def _cell(value: Cell) -> str:
    text = escape(text_of(value))
    if value is None:
        return f"<td>{text}</td>"
    if isinstance(value, str):
        kind = "text short" if len(value) <= SHORT else "text"
        return f'<td class="{kind}">{text}</td>'
    number = value.value if isinstance(value, Rounded) else value
    return f'<td><data value="{number!r}">{text}</data></td>'


def _figure(picture: Picture, prefix: str) -> str:
    """The picture as an element: names of its own, no header, nothing from elsewhere."""
    figure, caption = picture.draw(), escape(picture.caption)
    if figure is None:
        return ""
    text = re.sub(r'\bid="', f'id="{prefix}', svg_text(figure))
    text = re.sub(r'(href="|url\()#', rf"\1#{prefix}", text)
    text = text.replace("<svg", f'<svg role="img" aria-label="{caption}"', 1).strip()
    return f"<figure>{text}<figcaption>{caption}</figcaption></figure>"
