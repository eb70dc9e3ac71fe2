"""Private mechanisms for linear queries by optimization, with certified bounds.

    import pmldesign as pml

    queries = pml.workload("prefix:64")
    best = pml.factorize(queries, p=4)                  # least norm, both bounds certified
    noisy = pml.optimize(queries, pml.ApproxDP(1, 1e-6)).best           # and its noise

Every function takes a workload as a name, a matrix, a data frame or a Workload, and a strategy as a
name, a matrix, a factorization or a Strategy. docs/guides/python.md is the manual.

Names are loaded when they are first used, so that `import pmldesign` imports nothing; the stub
next to this file lists them with their homes.
"""

_home: dict[str, str] = {}


def _homes() -> dict[str, str]:
    """The module of every name, as the stub has it."""
    if not _home:
        import ast
        from pathlib import Path

        stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
        for statement in stub.body:
            if isinstance(statement, ast.ImportFrom):
                _home.update({alias.name: statement.module or "" for alias in statement.names})
    return _home


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("pmldesign")
    if name == "__all__":
        return ["__version__", *_homes()]
    if name in _homes():
        from importlib import import_module

        home = _homes()[name]
        submodule = home == "pmldesign"
        value: object = (
            import_module(f"{home}.{name}") if submodule else getattr(import_module(home), name)
        )
        globals()[name] = value  # the next use finds it at once
        return value
    raise AttributeError(f"module 'pmldesign' has no attribute {name!r}; see dir(pmldesign)")


def __dir__() -> list[str]:
    return ["__version__", *_homes()]
