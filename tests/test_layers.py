"""Who may import whom: the packages are layered, and heavy libraries load when used."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter

import pytest
from parsed import ROOT, sources, tree_of

from pmldesign.cli import COMMANDS
from pmldesign.strategies import Strategy

LATE = {"cvxpy", "distributed", "duckdb", "joblib", "matplotlib", "opendp", "polars", "ray", "rich"}
LATE |= {"sqlalchemy", "sqlglot"}
# upper layers first; a module imports its own room and those below
LAYERS = [
    {"cli"},
    {"api", "plots", "releases"},
    {"comparison", "files"},
    {"designs"},
    {"envelope", "error_bounds", "mechanisms", "streams"},
    {"factorization"},
    {"strategies"},
    {"privacy"},
    {"verifier", "workloads"},
    {"arguments", "store"},
    {"errors"},
    {"_version"},
]
SOLVER_ROOMS = [
    {"intervals", "participation", "trees"},
    {"search", "oracle", "unions", "tables", "joint", "streams"},
    {"norm"},
    {"certificate"},
    {"structure"},
    {"operators"},
]
MOST_MODULES, MOST_LINES = 20, 600
"""In a folder: as many names as are still read at a glance. In a module: a longer one has two
ideas."""

MOST_MEMBERS = 20
"""Of a class that others derive from."""

OPEN_ROOMS = (["releases"],)
"""Rooms with circles inside."""

ROOMS = set().union(*LAYERS)
MANY_ARGUMENTS = {
    "mechanism",
    "release",
    "compare_all",
    "laplace_design",
}
"""The public functions, whose options are their arguments."""
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
"""Where statements hold others."""


@cache
def statements(path):
    """Every statement of a module, the inner ones too; with each whether it runs at import."""
    return tuple(walk(tree_of(path)))


def walk(tree):
    stack = [(tree, True)]
    while stack:
        node, now = stack.pop()
        yield node, now
        deferred = isinstance(node, FUNCTIONS) or is_type_checking(node)
        children = (child for block in BLOCKS for child in getattr(node, block, ()))
        stack.extend((child, now and not deferred) for child in children)


def imported(nodes, *, now_only=False):
    """Full names of the imported modules; with now_only those loaded at import time."""
    for node, now in nodes:
        if now_only and not now:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their package in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def imports(path):
    return tuple(imported(statements(path)))


def is_type_checking(node):
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def layer_of(component):
    return next((depth for depth, names in enumerate(LAYERS) if component in names), None)


def component(path):
    return path.relative_to(ROOT / "pmldesign").with_suffix("").parts[0]


def test_solvers_know_nothing_of_privacy():
    for path in sources("solvers"):
        assert not [name for name in imports(path) if name.split(".")[0] == "pmldesign"], path


def test_rooms_of_the_solvers_import_their_own_modules_and_lower_rooms():
    for path in sources("solvers"):
        room, *inner = path.relative_to(ROOT / "solvers" / "pmldesign_solvers").parts
        if not inner:
            assert room in ("__init__.py", "limits.py"), "a module of the solvers belongs to a room"
            continue
        depth = solver_layer(room)
        for name in imports(path):
            package, *rest = name.split(".")
            if package == "pmldesign_solvers" and rest[0] not in (room, "face", "limits"):
                assert solver_layer(rest[0]) > depth, f"{path} imports {name}, not a lower room"


def solver_layer(room):
    layer = next((depth for depth, rooms in enumerate(SOLVER_ROOMS) if room in rooms), None)
    assert layer is not None, f"{room} has no layer: name it in SOLVER_ROOMS"
    return layer


@pytest.mark.parametrize("room", sorted(set().union(*SOLVER_ROOMS)))
def test_a_room_of_the_solvers_has_no_circle_of_imports(room):
    folder = ROOT / "solvers" / "pmldesign_solvers" / room
    modules = {path.stem: path for path in folder.glob("*.py") if path.stem != "__init__"}
    graph = {
        module: {
            name.split(".")[2]
            for name in imports(path)
            if name.startswith(f"pmldesign_solvers.{room}.")
        }
        for module, path in modules.items()
    }
    tuple(TopologicalSorter(graph).static_order())  # a CycleError names the circle


def test_modules_import_each_other_in_no_circle():
    """Those inside functions, and for type checkers alone, count as well."""
    graph = {}
    for name, path in modules().items():
        arrows = {resolved(full) for full in imports(path) if full.startswith("pmldesign")} - {name}
        inside = {arrow for arrow in arrows if arrow.split(".")[:2] == name.split(".")[:2]}
        graph[name] = arrows - inside if name.split(".")[1:2] in OPEN_ROOMS else arrows
    tuple(TopologicalSorter(graph).static_order())  # a CycleError names the circle


@cache
def modules():
    """The file of every module by its full name; of a package its __init__."""
    paths = [(ROOT, path) for path in sources("pmldesign")]
    paths += [(ROOT / "solvers", path) for path in sources("solvers")]
    named = ((".".join(path.relative_to(base).with_suffix("").parts), path) for base, path in paths)
    return {name.removesuffix(".__init__"): path for name, path in named}


@cache
def homes(package):
    """For each name on the face of a package the module that it is from."""
    calls = [node for node in ast.walk(tree_of(modules()[package])) if isinstance(node, ast.Call)]
    faces = [call.args[1] for call in calls if getattr(call.func, "id", "") == "face"]
    entries = [
        (key.value, value.value) for d in faces for key, value in zip(d.keys, d.values, strict=True)
    ]
    return {name: f"{package}.{home}" for home, names in entries for name in names.split()}


def resolved(full):
    """The module that an imported name is in."""
    package = full.rpartition(".")[0]
    return full if full in modules() else homes(package).get(full.rpartition(".")[2], package)


def test_no_module_imports_a_layer_above_its_own():
    for path in sources("pmldesign"):
        if component(path) in ("__init__", "__main__"):  # the package's front door sees everything
            continue
        own = layer_of(component(path))
        assert own is not None, f"{path} has no layer: name it in LAYERS"
        for name in imports(path):
            package, *rest = name.split(".")
            if package == "pmldesign" and rest:
                assert layer_of(rest[0]) is not None, f"{name} has no layer"
                assert layer_of(rest[0]) >= own, f"{path} imports {name} from a layer above"


def test_heavy_libraries_are_imported_where_used():
    for path in sources("pmldesign") + sources("solvers"):
        names = imported(statements(path), now_only=True)
        assert not LATE & {name.split(".")[0] for name in names}, path


def test_parts_of_scipy_load_when_they_are_used():
    """`import scipy` alone: scipy.special and scipy.optimize take longer than most commands."""
    for path in sources("pmldesign") + sources("solvers"):
        assert not [name for name in imports(path) if name.startswith("scipy.")], path


def test_verification_shares_nothing_with_what_it_verifies():
    allowed = ("pmldesign.verifier.", "pmldesign.errors.", "pmldesign._version.")
    for path in sources("pmldesign/verifier"):
        names = [name for name in imports(path) if name.startswith("pmldesign")]
        assert not [name for name in names if not name.startswith(allowed)], path


def test_rooms_are_few_and_their_arrows_form_no_circle():
    arrows = {}
    for path in sources("pmldesign"):
        room = component(path)
        if room in ("__init__", "__main__"):
            continue
        names = [name.split(".") for name in imports(path)]
        targets = {rest[0] for package, *rest in names if package == "pmldesign" and rest}
        arrows.setdefault(room, set()).update(targets & ROOMS - {room})
    assert set(arrows) == ROOMS
    assert len(ROOMS) <= 20
    while arrows:  # take away what imports nothing that is left
        free = [room for room, targets in arrows.items() if not targets & set(arrows)]
        assert free, f"these import each other: {arrows}"
        for room in free:
            del arrows[room]


def test_folders_hold_several_modules_and_modules_one_idea():
    """A folder inside of a room that holds one module is that module."""
    paths = sources("pmldesign") + sources("solvers")
    for folder in {path.parent for path in paths}:
        commands = COMMANDS if folder.name == "cli" else ()
        written = [path for path in folder.glob("*.py") if len(tree_of(path).body) > 1]
        assert len({path.stem for path in written}.difference(commands)) <= MOST_MODULES, folder
        assert len(written) > 1 or folder.parent.name in ("solvers", "pmldesign_solvers"), folder
    for path in paths:
        assert len(path.read_text().splitlines()) <= MOST_LINES, path


def test_tests_import_the_faces_of_rooms():
    """And modules as a whole, where they exchange what is inside."""
    inside = re.compile(r"from pmldesign(_solvers)?\.\w+\.")
    for path in sources("tests"):
        for name in imports(path) if inside.search(path.read_text()) else []:
            package, *inner = name.split(".")
            if package in ("pmldesign", "pmldesign_solvers") and len(inner) > 2:
                room, private = f"{package}.{inner[0]}", inner[-1].startswith("_")
                where = f"{path} imports {name}: import it from {room}, whose __init__ lists it"
                assert private or find_module(name), where


def find_module(name):
    base = ROOT / "solvers" if name.startswith("pmldesign_solvers") else ROOT
    place = base.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").exists()


def test_quick_tests_touch_every_room():
    """`make quick` runs the files of the list."""
    listed = [ROOT / line for line in (ROOT / "tests" / "quick.txt").read_text().split()]
    assert len(listed) == len(set(listed))
    touched = {tuple(name.split(".")[:2]) for path in listed for name in imports(path)}
    rooms = {("pmldesign", room) for room in ROOMS if (ROOT / "pmldesign" / room).is_dir()}
    rooms |= {("pmldesign_solvers", room) for room in set().union(*SOLVER_ROOMS)}
    assert not rooms - touched


def functions(*folders):
    for path in (path for folder in folders for path in sources(folder)):
        for node, _ in statements(path):
            if isinstance(node, FUNCTIONS):
                yield path, node


def test_functions_are_short():
    for path, node in functions("pmldesign", "solvers"):
        body = node.body[1:] if ast.get_docstring(node) else node.body
        lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
        assert lines <= 60, f"{path.name}: {node.name}"


def test_functions_take_few_arguments():
    for path, node in functions("pmldesign", "solvers"):
        if node.name in MANY_ARGUMENTS:
            continue
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = len([argument for argument in arguments if argument.arg not in ("self", "cls")])
        assert count <= 8, f"{path.name}: {node.name}"


def test_a_strategy_has_few_members():
    """What only some callers ask is a function where it is asked."""
    assert len([name for name in vars(Strategy) if not name.startswith("_")]) <= MOST_MEMBERS


def test_the_walk_sees_what_it_should():
    tree = ast.parse("import a.b\ndef f():\n    from cvxpy import x\nif True:\n    import rich")
    nodes = tuple(walk(tree))
    assert set(imported(nodes)) == {"a.b", "cvxpy.x", "rich"}
    assert set(imported(nodes, now_only=True)) == {"a.b", "rich"}
