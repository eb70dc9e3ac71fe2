r"""The manifest of a release: whether its noise keeps its guarantee.

Measurements are whole multiples of units; neighbours' measurements differ by at most `sensitivity`
(the l1 norm, or the squared l2 norm), k records of one person by k (k^2) times that.

    discrete Laplace noise of parameter b     epsilon = k Delta_1 / b
    discrete Gaussian of parameter s          s^2 >= sigma^2 + 4 with sigma of continuous noise on
                                              what is then rounded by a discrete Gaussian of
                                              parameter 2: delta(epsilon) of k Delta_2 / sigma, but
                                              for e^(2e-34) for each measurement

Under PML the loss depends on all distances of the strategy, which a manifest does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from flint import arb

from pmldesign.verify.arithmetic.intervals import above
from pmldesign.verify.digest import KEY, OBJECT, digest_of_object
from pmldesign.verify.losses import dp_loss
from pmldesign.verify.report import Checks
from pmldesign.verify.sentences import check_sentence

NAME = "ball arithmetic of 192 bits"
SHARPER = 1e-2
"""The noise of a release loses at least this much less than is promised, but not more so: a
discrete Gaussian has slightly more variance than a continuous one."""
KINDS = {
    "PureDP": ("dp", "epsilon"),
    "ApproxDP": ("dp", "epsilon", "delta"),
    "ZCDP": ("zcdp", "rho"),
    "GaussianDP": ("gaussian-dp", "mu"),
    "RenyiDP": ("renyi", "order", "epsilon"),
}


def check_manifest(content: Mapping[str, Any], checks: Checks) -> str:
    """All claims of a manifest that can be recomputed from it."""
    stated = content[KEY].get(OBJECT)
    if stated is None:
        checks.unchecked("digest", "the manifest is from before there was one")
    else:
        checks.state("digest", stated == digest_of_object(content), "of the whole manifest")
    _check_words(content, checks)
    promise, noise, lattice = content["guarantee"], content["noise"], content["lattice"]
    gaussian = noise["law"] == "discrete gaussian"
    if not gaussian and noise["law"] != "discrete laplace":
        checks.state("noise", False, f"{noise['law']!r} is no noise")
        return NAME
    if gaussian:
        enough = Fraction(noise["parameter"]) ** 2 >= Fraction(noise["sigma"]) ** 2 + 4
        checks.state("parameter", enough, "its square is at least sigma^2 + 4")
    checks.state("unit", lattice["unit"] > 0 and lattice["bits"] > 0, "of the lattice")
    _check_guarantee(promise, noise, lattice, checks)
    for name in ("strategy", "workload", "schema"):
        if content[KEY].get(name) is not None:
            checks.unchecked(f"hash of the {name}", "the manifest does not contain it")
    checks.unchecked("intervals", "the level is a property of the method")
    return NAME


def _check_guarantee(
    promise: Mapping[str, Any], noise: Mapping[str, Any], lattice: Mapping[str, Any], checks: Checks
) -> None:
    """The loss of the noise on the sensitivity."""
    gaussian = noise["law"] == "discrete gaussian"
    distance = arb(int(Fraction(lattice["sensitivity"])))
    distance = distance.sqrt() if gaussian else distance
    ratio = promise["rows_per_person"] * distance / arb(noise["sigma" if gaussian else "parameter"])
    if promise["kind"] not in KINDS:
        checks.unchecked("guarantee", "under PML it depends on the whole strategy")
        return
    kind, *names = KINDS[promise["kind"]]
    if "delta" not in names and promise.get("delta"):
        checks.state("delta", False, f"{promise['kind']} has none")
    numbers = {"kind": kind, **{name: promise[name] for name in names}}
    loss = dp_loss(numbers, "gaussian" if gaussian else "laplace", ratio)
    if loss is None:
        checks.unchecked("guarantee", f"{kind} of Laplace noise")
        return
    value, target = above(loss[0]), loss[1]
    checks.state("guarantee", value <= target * (1 + 1e-12), "the loss of the noise", value)
    tight = value >= target * (1 - SHARPER)
    checks.state("scale", tight, "no more noise than the guarantee asks for", value)


def _check_words(content: Mapping[str, Any], checks: Checks) -> None:
    """Whether the numbers in the words of the guarantee are those of the guarantee."""
    promise = content["guarantee"]
    if promise["words"].startswith("none:"):
        checks.state("sentence", False, "the noise is not private")
        return
    kind, *_ = KINDS.get(promise["kind"], ("pml",))
    check_sentence(promise["words"], kind, [content["cells"], 2, promise], checks)
