"""The notebooks run from above to below, and every object that a cell ends with can be shown."""

import ast
import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def last_value(source, names):
    """What a notebook shows after a cell: the value of its last line, if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop().value if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last), "cell", "eval"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, unarranged):
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names = {}
    kinds = set()
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
        value = last_value("".join(cell["source"]), names)
        kinds.add(type(value).__name__)
        if hasattr(value, "_repr_svg_"):
            assert value._repr_svg_().startswith("<svg")
        elif hasattr(value, "_repr_html_"):
            assert "<table" in value._repr_html_()
    assert "Figure" in kinds
