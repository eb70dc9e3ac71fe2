"""Who may import whom: the packages are layered, and heavy libraries load when used."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LATE = {"cvxpy", "distributed", "joblib", "matplotlib", "opendp", "polars", "ray", "rich"}
# upper layers first; a module imports its own room and those below
LAYERS = [
    {"cli"},
    {"api", "plots", "release"},
    {"comparison", "files"},
    {"designs"},
    {"bounds", "envelope", "mechanisms", "streams"},
    {"factorization"},
    {"strategies"},
    {"privacy"},
    {"workloads", "arguments", "verify"},
    {"errors"},
]
SOLVER_ROOMS = [
    {"participation"},
    {"search", "oracle", "unions", "tables", "streams", "groups"},
    {"norm"},
    {"certificate"},
    {"structure"},
    {"operators"},
]
MOST_MODULES = 14
"""In a room of the solvers: as many names as are still read at a glance."""

ROOMS = set().union(*LAYERS)
MANY_ARGUMENTS = {
    "mechanism",
    "release_tables",
    "release",
    "command",
    "compare_all",
}
"""The public functions and the commands, whose options are their arguments."""


@cache
def parsed(path):
    return ast.parse(path.read_text())


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
    tree = parsed(path)
    assert not [name for name in imported(tree) if name.split(".")[0] == "pmldesign"]


@pytest.mark.parametrize("path", sources("solvers"), ids=lambda path: "/".join(path.parts[-2:]))
def test_rooms_of_the_solvers_import_their_own_modules_and_lower_rooms(path):
    room, *inner = path.relative_to(ROOT / "solvers" / "pmldesign_solvers").parts
    if not inner:
        assert room == "__init__.py", "a module of the solvers belongs to a room"
        return
    depth = solver_layer(room)
    for name in imported(parsed(path)):
        package, *rest = name.split(".")
        if package == "pmldesign_solvers" and rest[0] != room:
            assert solver_layer(rest[0]) > depth, f"{path.name} imports {name}, not a lower room"


def solver_layer(room):
    layer = next((depth for depth, rooms in enumerate(SOLVER_ROOMS) if room in rooms), None)
    assert layer is not None, f"{room} has no layer: name it in SOLVER_ROOMS"
    return layer


@pytest.mark.parametrize("room", sorted(set().union(*SOLVER_ROOMS)))
def test_a_room_of_the_solvers_has_few_modules_and_no_circle_of_imports(room):
    folder = ROOT / "solvers" / "pmldesign_solvers" / room
    modules = {path.stem: path for path in folder.glob("*.py") if path.stem != "__init__"}
    assert len(modules) <= MOST_MODULES
    graph = {
        module: {
            name.split(".")[2]
            for name in imported(parsed(path))
            if name.startswith(f"pmldesign_solvers.{room}.")
        }
        for module, path in modules.items()
    }
    tuple(TopologicalSorter(graph).static_order())  # a CycleError names the circle


@pytest.mark.parametrize("path", sources("pmldesign"), ids=lambda path: "/".join(path.parts[-2:]))
def test_no_module_imports_a_layer_above_its_own(path):
    if component(path) in ("__init__", "__main__"):  # the package's front door sees everything
        return
    own = layer_of(component(path))
    assert own is not None, f"{path.name} has no layer: name it in LAYERS"
    for name in imported(parsed(path)):
        package, *rest = name.split(".")
        if package == "pmldesign" and rest:
            assert layer_of(rest[0]) is not None, f"{name} has no layer"
            assert layer_of(rest[0]) >= own, f"{path.name} imports {name} from a layer above"


@pytest.mark.parametrize(
    "path", sources("pmldesign") + sources("solvers"), ids=lambda path: "/".join(path.parts[-2:])
)
def test_heavy_libraries_are_imported_where_used(path):
    tree = parsed(path)
    assert not LATE & {name.split(".")[0] for name in imported(tree, now_only=True)}


@pytest.mark.parametrize("path", sources("pmldesign/verify"), ids=lambda path: path.stem)
def test_verification_shares_nothing_with_what_it_verifies(path):
    names = imported(parsed(path))
    allowed = ("pmldesign.verify.", "pmldesign.errors.")
    assert not [n for n in names if n.startswith("pmldesign") and not n.startswith(allowed)]


def test_rooms_are_few_and_their_arrows_form_no_circle():
    arrows = {}
    for path in sources("pmldesign"):
        room = component(path)
        if room in ("__init__", "__main__"):
            continue
        names = [name.split(".") for name in imported(parsed(path))]
        targets = {rest[0] for package, *rest in names if package == "pmldesign" and rest}
        arrows.setdefault(room, set()).update(targets & ROOMS - {room})
    assert set(arrows) == ROOMS
    assert len(ROOMS) <= 18
    while arrows:  # take away what imports nothing that is left
        free = [room for room, targets in arrows.items() if not targets & set(arrows)]
        assert free, f"these import each other: {arrows}"
        for room in free:
            del arrows[room]


def test_folders_are_small():
    for folder in {path.parent for path in sources("pmldesign")}:
        assert len([*folder.glob("*.py")]) <= 14, folder


def functions(*folders):
    for path in (path for folder in folders for path in sources(folder)):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
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


def test_the_walk_sees_what_it_should():
    tree = ast.parse("import a.b\ndef f():\n    from cvxpy import x\nif True:\n    import rich")
    assert set(imported(tree)) == {"a.b", "cvxpy.x", "rich"}
    assert set(imported(tree, now_only=True)) == {"a.b", "rich"}
