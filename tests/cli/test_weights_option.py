"""--weights FILE, and weights in the text of a workload."""

from pathlib import Path

import pytest


def test_weights_from_a_file_and_from_the_text_are_the_same(run):
    run_json = run.json("compare", "3*prefix:4+histogram:4", "--strategies", "tree,least-norm")
    Path("weights.csv").write_text("\n".join(["3"] * 4 + ["1"] * 4))
    file = ("--weights", "weights.csv")
    other = run.json("compare", "prefix:4+histogram:4", "--strategies", "tree,least-norm", *file)
    keys = ("error", "rmse", "max_std", "unweighted_error", "unweighted_rmse", "unweighted_max_std")
    for first, second in zip(run_json["strategies"], other["strategies"], strict=True):
        assert [first[key] for key in keys] == pytest.approx([second[key] for key in keys])
    design = run.json("optimize", "prefix:4+histogram:4", *file)
    assert design["norm"]["upper"] == pytest.approx(run_json["norms"][0]["upper"], rel=3e-6)
    bound = run.json("bounds", "prefix:4+histogram:4", "--epsilon", 1, *file)
    plain = run.json("bounds", "3*prefix:4+histogram:4", "--epsilon", 1)
    values, expected = ([b["value"] or 0.0 for b in bounds] for bounds in (bound, plain))
    assert values == pytest.approx(expected, rel=3e-6)
    refused = run("bounds", "prefix:4", "--epsilon", 1, *file)
    assert refused.exit_code == 2
    assert "one number for each of the 4 queries" in refused.stderr


def test_a_strategy_made_with_weights_is_verified_as_a_whole(run):
    Path("weights.csv").write_text("3\n1\n1\n2")
    Path("others.csv").write_text("3\n1\n2\n2")
    made = ("--weights", "weights.csv", "--epsilon", 1, "--delta", 1e-6, "--noise", "gaussian")
    assert run("optimize", "prefix:4", *made, "-o", "s.npz").exit_code == 0
    assert run("verify", "s.npz").exit_code == 8
    assert run("verify", "s.npz", "--workload", "prefix:4").exit_code == 7
    for more in ((), ("--workload", "prefix:4")):
        assert run("verify", "s.npz", "--weights", "weights.csv", *more).exit_code == 0
    other = run("verify", "s.npz", "--weights", "others.csv")
    assert other.exit_code == 7
    assert "workload, L R = A" in other.stderr
    assert run("optimize", "prefix:4", "-o", "plain.npz").exit_code == 0
    refused = run("verify", "plain.npz", "--weights", "weights.csv")
    assert refused.exit_code == 2
    assert "weights: 'plain.npz' names no queries that they are for" in refused.stderr
