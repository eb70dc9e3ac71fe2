"""Pictures as files: .png, .pdf or .svg, written whole or not at all."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pmldesign.errors import require_extra
from pmldesign.files import atomic_write, check_writable
from pmldesign.plots.style import one_look, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")


def check_plot_path(path: Path, noun: str = "picture", endings: Sequence[str] = FORMATS) -> None:
    """Refuse a picture, or a report, that cannot be drawn or written; called before long work.

    Raises:
        FileError: another extension, or not writable.
        InvalidInputError: matplotlib is not installed.
    """
    check_writable(path, f"a {noun}", *endings)
    require_extra(f"a {noun}", "matplotlib", "plot")


@styled
def save(figure: Figure, path: Path) -> None:
    """Write a figure; an existing file is replaced at the end.

    Raises:
        FileError: the file cannot be written.
    """
    with atomic_write(path, "wb") as handle:
        figure.savefig(handle, format=path.suffix.lower().lstrip("."), dpi=150)


def svg_text(figure: Figure) -> str:
    """The picture as an <svg> element."""
    buffer = io.StringIO()
    with one_look():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
