"""--device on the commands that design: the same answers, and refusals that say what to do."""

import pytest

COMMANDS = {
    "optimize": ("optimize", "prefix:16", "--p", "4"),
    "compare": ("compare", "prefix:16", "--strategies", "optimal,identity", "--p", "2,inf"),
    "product": ("optimize", "prefix:6*histogram:3", "--p", "3"),
    "bounds": ("bounds", "prefix:16", "--epsilon", "1", "--delta", "1e-6"),
}
commands = pytest.mark.parametrize("command", COMMANDS)


def numbers(shown):
    """The numbers in a JSON document, but for what it took."""
    if isinstance(shown, dict):
        kept = {key: one for key, one in shown.items() if key not in ("seconds", "gap")}
        return [number for one in kept.values() for number in numbers(one)]
    if isinstance(shown, list):
        return [number for one in shown for number in numbers(one)]
    return [shown] if isinstance(shown, int | float) else []


@commands
def test_answers_do_not_depend_on_the_device(run, command):
    expected = numbers(run.json(*COMMANDS[command]))
    assert len(expected) > 10
    found = numbers(run.json(*COMMANDS[command], "--device", "torch:cpu"))
    assert found == pytest.approx(expected, rel=1e-9)


@commands
def test_unknown_devices_are_refused(run, command):
    result = run(*COMMANDS[command], "--device", "abacus")
    assert result.exit_code == 2
    assert "device 'abacus' cannot be used" in result.stderr
    assert result.stdout == ""


@commands
def test_a_missing_library_is_named_with_its_extra(run, command, monkeypatch):
    monkeypatch.setattr("pmldesign_solvers.kernels.find_spec", lambda name: None)
    result = run(*COMMANDS[command], "--device", "cuda")
    assert result.exit_code == 2
    assert "pip install 'pmldesign[gpu]'" in result.stderr


@pytest.mark.parametrize("options", [("--neighbours", "replace"), ("--method", "dual")])
def test_it_is_for_the_fixed_point(run, options):
    command = ("optimize", "prefix:8", "--epsilon", "1", "--delta", "1e-6", *options)
    result = run(*command, "--device", "torch:cpu")
    assert result.exit_code == 2
    assert "for method 'scaling' and add-remove neighbours" in result.stderr
