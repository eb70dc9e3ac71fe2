"""A structure states its facts, and nobody asks its class: a registry of its family names it."""

import ast
import importlib
import types
from functools import cache
from textwrap import dedent

import parsed
import pytest
from parsed import sources, tree_of

from pmldesign.strategies import BesideStrategy, RegularStrategy, Strategy, StructuredStrategy
from pmldesign.streams import Endless, OnLine
from pmldesign.workloads import DenseWorkload, SparseWorkload, Workload

ROOT = parsed.ROOT / "pmldesign"
ROOMS = ("workloads", "strategies")
"""Where structures are defined; a facade may hand on their names."""
REGISTRIES = {
    "files/verification.py": "how a workload of regions is stated for verification",
    "designs/dispatch.py": "ROUTES: which solver takes which workload",
    "files/structures.py": "FORMS: how a strategy is written",
    "releases/lattices.py": "_lattice: in which whole numbers a strategy is measured",
}
MAKERS = {
    "designs/beside.py": "a row of ROUTES",
    "designs/nested.py": "a row of ROUTES",
    "designs/structured.py": "rows of ROUTES",
    "designs/tables.py": "rows of ROUTES",
    "designs/participation/bounds.py": "running sums close to other queries",
    "designs/participation/largest.py": "a part of it",
    "designs/participation/course.py": "the solver for several participations",
    "designs/laplace/course.py": "the search for Laplace noise",
    "designs/laplace/candidates.py": "where it begins",
    "designs/laplace/tables.py": "a candidate of it",
    "streams/on_line.py": "the running sums that a strategy says it is made for",
    "releases/people/factors.py": "what these ask of one attribute",
    "releases/people/queries.py": "workloads by names of attributes",
    "releases/people/regions.py": "workloads by names of levels",
}
"""They make what they have found, or read, and ask nobody what it is."""
MATRICES = {Workload, DenseWorkload, SparseWorkload}
MATRICES |= {Strategy, StructuredStrategy, RegularStrategy, BesideStrategy}
"""Without a structure of their own."""


@cache
def structures():
    """The names of all classes with structure, and of unions of them."""
    names = set()
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            parts = path.relative_to(ROOT.parent).with_suffix("").parts
            module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
            for name, value in vars(module).items():
                members = value.__args__ if isinstance(value, types.UnionType) else (value,)
                if all(isinstance(kind, type) for kind in members):
                    kinds = [k for k in members if issubclass(k, Workload | Strategy)]
                    if kinds and not MATRICES.issuperset(kinds):
                        names.add(name)
    return names


def modules():
    for path in sources("pmldesign"):
        name = path.relative_to(ROOT).as_posix()
        if name.split("/")[0] not in ROOMS:
            yield name


def running(tree):
    """All nodes but those for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"):
            yield node
            yield from running(node)


def imported(tree):
    froms = [node for node in running(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in froms for alias in node.names}


def asked(tree):
    """What the module asks whether something is of: isinstance, issubclass, type(x) is, match."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if getattr(node.func, "id", "") in ("isinstance", "issubclass", "_is"):
                yield from names(node.args[-1])
        elif isinstance(node, ast.Compare):
            yield from (name for part in node.comparators for name in names(part))
        elif isinstance(node, ast.MatchClass):
            yield from names(node.cls)


def names(node):
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name | ast.Attribute):
            yield inner.id if isinstance(inner, ast.Name) else inner.attr


def test_the_structures_are_those_that_everybody_knows():
    few = {"RangeWorkload", "TermsWorkload", "ProductStrategy", "BlockStrategy"}
    assert few | {"NestedWorkload", "StreamStrategy", "IdentityAndRows"} <= structures()
    assert not structures() & {kind.__name__ for kind in MATRICES}


@pytest.mark.parametrize("name", [*modules()])
def test_no_consumer_names_a_structure(name):
    tree = tree_of(ROOT / name)
    if name not in REGISTRIES:
        assert not structures() & set(asked(tree)), "ask for a fact instead"
        if name not in MAKERS and name != "__init__.py":
            assert not structures() & imported(tree), "state a fact, or add a row to a registry"


def test_nobody_asks_what_goes_on_line():
    """Streams take what `OnLine` states, with an end or without."""
    kinds = {"EndlessStrategy", *(kind.__name__ for kind in OnLine.__subclasses__())}
    assert {"Designed", Endless.__name__} <= kinds
    for name in modules():
        assert not kinds & set(asked(tree_of(ROOT / name))), name


def test_registries_and_makers_are_all_there():
    for name in REGISTRIES | MAKERS:
        tree = tree_of(ROOT / name)
        assert structures() & imported(tree), f"{name} names none: take it off the list"


def test_the_walk_sees_what_it_should():
    text = """
        if TYPE_CHECKING:
            from a import A
        def f(x):
            from b import B
            isinstance(x, C | d.D)
            type(x) is E
            match x:
                case F():
                    pass
    """
    tree = ast.parse(dedent(text))
    assert imported(tree) == {"B"}
    assert {"C", "D", "E", "F"} <= set(asked(tree))
