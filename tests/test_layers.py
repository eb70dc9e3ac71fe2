"""Who may import whom: the packages are layered, and heavy libraries load when used."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LATE = {"cvxpy", "joblib", "matplotlib", "opendp", "rich", "torch"}
# upper layers first; a module imports its own layer and those below
LAYERS = [
    {"cli"},
    {"comparison", "grid", "rows", "parallel", "files", "plots"},
    {"optimization"},
    {"laplace_design", "gaussian_design"},
    {"searched_design"},
    {"design", "solving", "limits", "product_replace", "answering", "mechanism", "bounds"},
    {
        *("calibration", "leakage", "noise", "strategies", "workloads", "guarantees", "neighbours"),
        *("gaussian_leakage", "gaussian_profile", "extreme_outputs", "private_end", "_arguments"),
        *("priors", "envelope", "quick"),
    },
    {"errors"},
]


def sources(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def imported(tree, *, now_only=False):
    """Full names of the imported modules; with now_only those loaded at import time."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their package in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if not (now_only and (deferred or is_type_checking(node))):
            stack.extend(ast.iter_child_nodes(node))


def is_type_checking(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def layer_of(component):
    return next((depth for depth, names in enumerate(LAYERS) if component in names), None)


def component(path):
    return path.relative_to(ROOT / "pmldesign").with_suffix("").parts[0]


@pytest.mark.parametrize("path", sources("solvers"), ids=lambda path: path.stem)
def test_solvers_know_nothing_of_privacy(path):
    tree = ast.parse(path.read_text())
    assert not [name for name in imported(tree) if name.split(".")[0] == "pmldesign"]


@pytest.mark.parametrize("path", sources("pmldesign"), ids=lambda path: "/".join(path.parts[-2:]))
def test_no_module_imports_a_layer_above_its_own(path):
    if component(path) in ("__init__", "__main__"):  # the package's front door sees everything
        return
    own = layer_of(component(path))
    assert own is not None, f"{path.name} has no layer: name it in LAYERS"
    for name in imported(ast.parse(path.read_text())):
        package, *rest = name.split(".")
        if package == "pmldesign" and rest:
            assert layer_of(rest[0]) is not None, f"{name} has no layer"
            assert layer_of(rest[0]) >= own, f"{path.name} imports {name} from a layer above"


@pytest.mark.parametrize(
    "path", sources("pmldesign") + sources("solvers"), ids=lambda path: "/".join(path.parts[-2:])
)
def test_heavy_libraries_are_imported_where_used(path):
    tree = ast.parse(path.read_text())
    assert not LATE & {name.split(".")[0] for name in imported(tree, now_only=True)}


def test_the_walk_sees_what_it_should():
    tree = ast.parse("import a.b\ndef f():\n    from cvxpy import x\nif True:\n    import rich")
    assert set(imported(tree)) == {"a.b", "cvxpy.x", "rich"}
    assert set(imported(tree, now_only=True)) == {"a.b", "rich"}
