"""Numbers are written in plain digits: Python reads 1_0 as 10, and digits of other scripts too."""

import click
import pytest

from pmldesign.cli import main, target
from pmldesign.cli.options import fields
from pmldesign.errors import PmldesignError
from pmldesign.files import load_channel
from pmldesign.releases import Plan, parse_budget
from pmldesign.workloads import expand_family, parse_workload

ODD = ("1_0", "\uff11", "\u0663", "0_1", "1\u0660")


def options_of_numbers():
    """The options of all commands that click reads as numbers."""
    with click.Context(main) as context:
        for name in main.list_commands(context):
            for parameter in main.get_command(context, name).params:
                if parameter.type.name.split(" ")[0] in ("float", "integer"):
                    yield pytest.param(parameter, id=f"{name} {parameter.opts[0]}")


@pytest.mark.parametrize("parameter", [*options_of_numbers()])
def test_options(parameter):
    with click.Context(main) as context:
        for text in ("7", " 7", "+7"):
            assert parameter.type_cast_value(context, text) == 7
        for text in ODD:
            with pytest.raises(click.BadParameter, match=f"'{text}' is not a valid"):
                parameter.type_cast_value(context, text)


PLACES = "state,county\nA,a\nA,b\n"


@pytest.mark.parametrize(
    ("read", "form"),
    [
        (lambda text: fields.numbers("--alpha", text, example="0.1"), "{}"),
        (lambda text: fields.numbers("--alpha", text, example="0.1"), "1,{}"),
        (lambda text: target._named(text, "A+B"), "A={}"),
        (Plan.parse, "{}*laplace:0.1"),
        (Plan.parse, "laplace:{}"),
        (Plan.parse, "gaussian:mu={}"),
        (Plan.parse, "gaussian:1,{}e-9"),
        (parse_budget, "epsilon={}"),
        (parse_budget, "epsilon=1,delta={}e-9"),
        (parse_workload, "{}*total:2+total:2"),
        (parse_workload, "0.{}*total:2+total:2"),
        (parse_workload, "total:{}"),
        (parse_workload, "marginals:prefix{},2,ways=1"),
        (parse_workload, "marginals:2^{},ways=1"),
        (parse_workload, "marginals:2,2,ways={}"),
        (parse_workload, "decay:4,0.{}"),
        (lambda text: [parse_workload(each) for each in expand_family(text)], "prefix:{}..16"),
        (parse_workload, "regions:places.csv,county={}"),
        (lambda text: load_channel("rr:2,eps=1", text), "0.{},0.5"),
        (lambda text: load_channel(text, "uniform"), "rr:{},eps=1"),
        (lambda text: load_channel(text, "uniform"), "rr:3,eps={}"),
        (lambda text: load_channel(text, "uniform"), "laplace:3,scale=1,cells={}"),
    ],
)
def test_texts(read, form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "places.csv").write_text(PLACES)
    for text in ODD:
        with pytest.raises(PmldesignError):
            read(form.format(text))
