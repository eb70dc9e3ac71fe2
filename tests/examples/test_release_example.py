"""The people of the example are those of the tutorial, and its picture shows what is published."""

import importlib.util
import re
from pathlib import Path

import pytest

from pmldesign.releases import release
from pmldesign.strategies import baseline

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def example():
    path = ROOT / "examples" / "release" / "run.py"
    specification = importlib.util.spec_from_file_location("release_example", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_tutorial_has_the_same_people(example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(
        r"```python\n(.*?)```", (ROOT / "docs" / "guides" / "releases.md").read_text(), re.DOTALL
    )
    exec(compile(code[1], "tutorial", "exec"), {})
    shown = (tmp_path / "people.csv").read_text()
    example.write_inputs(tmp_path)
    assert (tmp_path / "people.csv").read_text() == shown
    assert shown.count("\n") == 5001


def test_the_picture_is_drawn(example, tmp_path, unarranged):
    from pmldesign.mechanisms import mechanism
    from pmldesign.privacy import ApproxDP
    from pmldesign.releases import as_schema, parse_queries

    example.write_inputs(tmp_path)
    schema = as_schema(example.SCHEMA)
    queries = parse_queries(example.QUERIES, schema).workload
    made = mechanism(
        baseline("identity", queries), queries, guarantee=ApproxDP(0.1, 1e-6), noise="gaussian"
    )
    found = release(made, tmp_path / "people.csv", schema=schema)
    example.picture(found, tmp_path / "intervals.png")
    assert (tmp_path / "intervals.png").stat().st_size > 10_000
