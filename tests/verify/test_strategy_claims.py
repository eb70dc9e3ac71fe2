"""`verify` on strategy files: honest ones pass, altered ones do not."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from flint import arb, ctx

import pmldesign as pml
from pmldesign.cli import main
from pmldesign.errors import FileError, VerificationError
from pmldesign.privacy import gaussian_delta
from pmldesign.verifier import (
    KEY,
    Checks,
    Verdict,
    balls,
    digest_of,
    gaussian_profile,
    laplace_moment,
    power_norm,
    read_archive,
    rounding,
)

GUARANTEES = {
    "add-remove": (pml.PureDP(0.7), pml.ApproxDP(1, 1e-6)),
    "replace": (
        pml.PureDP(0.7, "replace"),
        pml.ApproxDP(1, 1e-6, "replace"),
        pml.PML(0.9, 0.05),
        pml.PML(0.9, (0.05, 0.1, 0.02, 0.3, 0.01, 0.2)),
        pml.ApproxPML(0.9, 1e-4, 0.05),
        pml.EnvelopePML(0.9, 1e-4, 0.05),
    ),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("verify") / "strategy.npz"


def rewrite(path, header, arrays, *, digest=True):
    if digest:
        header[KEY] = digest_of(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)


@pytest.mark.parametrize("p", [2, 3, np.inf])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_files_as_they_are_written_hold(path, p, neighbours):
    best = pml.factorize("prefix:6", p=p, neighbours=neighbours)
    pml.write(path, best)
    assert pml.verify(path).holds
    for guarantee in GUARANTEES[neighbours]:
        for strategy in (best, "identity"):
            noisy = pml.mechanism(strategy, "prefix:6", guarantee=guarantee, p=p)
            pml.write(path, noisy)
            result = pml.verify(path)
            assert result.holds, result.failures
            assert not result.unchecked
            assert {"scale", "error", "guarantee"} - {c.name for c in result.checks} == {"scale"}


def test_more_queries_than_are_written_out(path, monkeypatch):
    monkeypatch.setattr("pmldesign.files.strategies.WRITTEN_ENTRIES", 100)
    best = pml.factorize("all-range:8")
    pml.write(path, best)
    assert "right_inverse" in read_archive(path)[1]
    assert pml.verify(path).holds


@pytest.fixture(scope="module", params=["add-remove", "replace"])
def honest(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("altered") / "strategy.npz"
    best = pml.factorize("prefix:6", p=3, neighbours=request.param)
    guarantee = pml.ApproxDP(1, 1e-6, request.param)
    noisy = pml.mechanism(best, guarantee=guarantee, noise="gaussian")
    pml.write(path, best, mechanism=noisy)
    return path.with_name("altered.npz"), *read_archive(path)


@pytest.mark.parametrize("digest", [False, True])
def test_every_number_of_the_header_counts(honest, digest):
    path, header, arrays = honest
    names = [k for k, v in header.items() if isinstance(v, float)]
    assert len(names) == 8
    for name in names:
        for part in (-1e-3, 1e-5, 0.3):
            rewrite(path, {**header, name: header[name] * (1 + part)}, arrays, digest=digest)
            failed = [check.name for check in pml.verify(path).failures]
            assert ("digest" in failed) is not digest
            assert set(failed) & {name, "guarantee", "achieved", "error"}
    for name, value in (("p", "4.0"), ("neighbours", "else"), ("queries", 7), ("cells", 5)):
        rewrite(path, {**header, name: value}, arrays, digest=digest)
        assert pml.verify(path).failures


def test_numbers_and_words_of_the_guarantee_count(honest):
    path, header, arrays = honest
    for key, value in (("epsilon", 0.9), ("delta", 1e-7)):
        numbers = {**header["guarantee_numbers"], key: value}
        rewrite(path, {**header, "guarantee_numbers": numbers}, arrays)
        assert {c.name for c in pml.verify(path).failures} >= {"guarantee", "sentence"}
    words = header["guarantee"].replace("e^1", "e^0.5")
    rewrite(path, {**header, "guarantee": words}, arrays)
    assert [c.name for c in pml.verify(path).failures] == ["sentence"]


def test_entries_of_arrays_count(honest):
    path, header, arrays = honest
    rng = np.random.default_rng(4)
    for name, array in arrays.items():
        for _ in range(8):
            place = rng.integers(array.size)
            other = array.copy()
            largest = np.abs(array).max()
            other.reshape(-1)[place] += rng.choice([-1, 1]) * largest * 10 ** rng.uniform(-4, 0)
            altered = {**arrays, name: other}
            rewrite(path, dict(header), altered, digest=False)
            assert "digest" in [c.name for c in pml.verify(path).failures]
            if not name.startswith("dual"):  # another dual may prove as much
                rewrite(path, dict(header), altered)
                assert pml.verify(path).failures, (name, place)


def test_weights_that_prove_less_are_found(honest):
    path, header, arrays = honest
    rewrite(path, dict(header), {**arrays, "dual_u": np.ones(6)})
    assert [check.name for check in pml.verify(path).failures] == ["lower"]


def test_the_workload_has_to_be_the_one_of_the_file(honest, tmp_path):
    path, header, arrays = honest
    rewrite(path, dict(header), arrays)
    assert pml.verify(path, workload=np.tril(np.ones((6, 6)))).holds
    failures = pml.verify(path, workload="histogram:6").failures
    assert {check.name for check in failures} >= {"workload", "L R = A"}
    rewrite(path, {**header, "workload": "queries.csv"}, arrays)
    result = pml.verify(path)
    assert not result.failures
    assert {check.name for check in result.unchecked} >= {"L R = A", "upper", "lower"}


def test_claims_that_are_no_numbers_fail(honest):
    path, header, arrays = honest
    for name, value in (("p", "two"), ("scale", None), ("lower", "x"), ("guarantee_numbers", 3)):
        rewrite(path, {**header, name: value}, arrays)
        assert pml.verify(path).failures
    rewrite(path, {**header, "format": 3}, arrays)
    with pytest.raises(FileError, match="format 3"):
        pml.verify(path)


def test_equal_columns_that_balls_do_not_tell_apart(path):
    columns = np.array([[1.0, 1.0, 0.0], [1e-17, 1e-17, 1e-40], [3e-30, 3e-30, 1.0]])
    guarantee = pml.ApproxPML(0.9, 1e-4, 0.05)
    noisy = pml.mechanism(columns, [[1.0, 1.0, 0.0]], guarantee=guarantee, noise="gaussian")
    pml.write(path, noisy)
    result = pml.verify(path, workload=[[1.0, 1.0, 0.0]])
    assert result.holds, result.failures


def test_the_profile_of_balls_around_zero():
    with ctx.workprec(192):
        epsilon, wide = arb(0.5), arb(0, 1e-3)
        profile = gaussian_profile(wide, epsilon)
        assert profile.overlaps(gaussian_profile(arb(9e-4), epsilon))
        assert profile.contains(0)
        assert gaussian_profile(arb(0), epsilon) == 0


def test_nothing_holds_that_cannot_be_computed():
    checks = Checks()
    for proved in (math.nan, math.inf, -math.inf):
        checks.at_most("achieved", 1.0, proved)
        checks.at_least("lower", 1.0, proved)
        checks.equal("error", 1.0, proved, proved)
    assert {check.verdict for check in checks.rows} == {Verdict.FAILS}
    assert {check.computed for check in checks.rows} == {None}


@pytest.mark.parametrize("shape", [(9, 5), (4, 7)])
def test_the_nuclear_norm_is_proved_from_below(shape):
    rng = np.random.default_rng(3)
    A, u, w = rng.standard_normal(shape), rng.random(shape[0]), rng.random(shape[1])
    pairs = np.triu(rng.random((shape[1],) * 2), 1)
    pairs += pairs.T
    i, j = np.triu_indices(shape[1], 1)
    identity = np.eye(shape[1])
    root = (identity[i] - identity[j]).T * np.sqrt(pairs[i, j])  # a root of the Laplacian
    for weights, factor in ((w, np.diag(np.sqrt(w))), (pairs, root)):
        exact = np.linalg.norm(np.sqrt(u)[:, None] * A @ factor, "nuc")
        with ctx.workprec(192):
            proved = float(balls.nuclear_norm(A, u, weights))
            rounded = float(rounding.nuclear_norm(A, u, weights))
        assert proved == pytest.approx(exact, rel=1e-13)
        assert exact * (1 - 1e-11) < rounded < proved


def test_rounding_encloses_what_balls_find():
    rng = np.random.default_rng(5)
    A, L, R = rng.standard_normal((4, 6)), rng.standard_normal((4, 5)), rng.standard_normal((5, 6))
    with ctx.workprec(192):
        for name, arguments in (
            ("squares", (L,)),
            ("absolute_sums", (R,)),
            ("residual_squares", (A, L, R)),
        ):
            exact, wide = (getattr(room, name)(*arguments) for room in (balls, rounding))
            assert all(bool(x.upper() >= y) for x, y in zip(wide, exact, strict=True))
        for name in ("distance_squares", "absolute_distances"):
            exact, wide = (getattr(room, name)(R) for room in (balls, rounding))
            assert all(
                a.overlaps(b)
                for x, y in zip(wide, exact, strict=True)
                for a, b in zip(x, y, strict=True)
            )


def test_moments_of_laplace_sums():
    with ctx.workprec(192):
        assert 6 * float(laplace_moment([2.0], 3)) == pytest.approx(6 * 8, rel=1e-12)
        # two of scale 1: density (1 + |x|) e^-|x| / 4, third moment (3! + 4!)/2
        assert 6 * float(laplace_moment([1.0, 1.0], 3)) == pytest.approx(15, rel=1e-9)
        scales = np.array([0.3, 1.0, 1.7, 1.7])
        squares = 2 * scales**2
        fourth = 24 * (scales**4).sum() + 3 * (squares.sum() ** 2 - (squares**2).sum())
        assert 24 * float(laplace_moment(list(scales), 4)) == pytest.approx(fourth, rel=1e-9)


def test_the_profile_of_gaussians_is_the_calibrated_one():
    with ctx.workprec(192):
        for epsilon, scale in ((1.0, 4.0), (0.1, 1.0), (3.0, 0.4)):
            value = float(gaussian_profile(1 / arb(scale), arb(epsilon)))
            assert value == pytest.approx(gaussian_delta(1.0, scale, epsilon), rel=1e-10)


def test_solvers_are_not_even_loaded():
    code = (
        "import sys, pmldesign.verifier.verification, pmldesign.verifier.strategies; print([m for m"
    )
    code += " in sys.modules if m.startswith(('pmldesign_solvers', 'pmldesign.privacy'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def run_command(arguments):
    return CliRunner().invoke(main, arguments, prog_name="pmldesign")


def test_the_command(honest):
    path, header, arrays = honest
    rewrite(path, dict(header), arrays)
    assert run_command(["verify", str(path)]).exit_code == 0
    shown = json.loads(run_command(["verify", str(path), "--json"]).output)
    assert shown["holds"]
    assert shown["checks"][0] == {
        "name": "digest",
        "claimed": None,
        "computed": None,
        "verdict": "holds",
        "reason": "of the header and the arrays",
    }
    rewrite(path, {**header, "upper": header["upper"] * 0.99}, arrays)
    failed = run_command(["verify", str(path)])
    assert failed.exit_code == VerificationError.exit_code == 7
    assert failed.stderr == "error: altered.npz: what does not hold: claims, upper\n"
    assert run_command(["verify", "missing.npz"]).exit_code == 6


def test_what_cannot_be_computed_does_not_hold():
    checks = Checks()
    checks.at_most("upper", 1.0, math.nan)
    checks.at_least("lower", 1.0, math.nan)
    checks.equal("error", 1.0, math.nan, math.nan)
    assert {check.verdict for check in checks.rows} == {Verdict.FAILS}


@pytest.mark.parametrize("p", [2.0, 3.0, 4.5, np.inf])
def test_norms_of_balls_around_zero(p):
    balls = [arb(1e-20, 1e-20), arb(0, 1e-20), arb(0)]
    norm = power_norm(balls, p)
    assert math.isfinite(float(norm.upper()))
    assert (2e-20) ** 0.5 <= float(norm.upper()) <= 3e-10


def test_a_file_without_its_strategy(honest):
    path, header, arrays = honest
    other = path.with_name("less.npz")
    for name in ("strategy", "reconstruction"):
        rest = {key: array for key, array in arrays.items() if key != name}
        rewrite(other, dict(header), rest)
        (failure,) = pml.verify(other).failures
        assert (failure.name, failure.reason) == ("arrays", f"lack {name}")
