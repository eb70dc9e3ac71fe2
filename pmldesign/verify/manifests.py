r"""The manifest of a release: whether its noise keeps its guarantee.

Measurements are whole multiples of units; neighbours' measurements differ by at most `sensitivity`
(the l1 norm, or the squared l2 norm), k records of one person by k (k^2) times that.

    discrete Laplace noise of parameter b     epsilon = k Delta_1 / b
    discrete Gaussian of parameter s          s^2 >= sigma^2 + 4 with sigma of continuous noise on
                                              what is then rounded by a discrete Gaussian of
                                              parameter 2: delta(epsilon) of k Delta_2 / sigma, but
                                              for e^(2e-34) for each measurement

Under PML the loss depends on the distances of measurements of the cells, in units: of all of them
up to 256 cells, else of any cell from the others. Without alpha the largest distance counts.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from flint import arb

from pmldesign.verify.arithmetic.intervals import above, largest
from pmldesign.verify.digest import KEY, OBJECT, digest_of_object
from pmldesign.verify.distributions import Rows, alpha_of, check_sample, rows_of
from pmldesign.verify.losses import dp_loss, gaussian_profile, pml_loss
from pmldesign.verify.report import Checks, Header
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
SHARPER_BOUND = 0.06
"""The same under PML with Gaussian noise: of three columns the loss is bounded on strips."""


def check_manifest(content: Header, checks: Checks) -> str:
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
    law = "gaussian" if gaussian else "laplace"
    scale = arb(noise["sigma" if gaussian else "parameter"])
    if promise["kind"] in KINDS:
        _check_guarantee(promise, law, scale, lattice, checks)
    elif "distances" in content:
        _check_pml(content, law, scale, checks)
    else:
        checks.unchecked("guarantee", "the manifest has no distances of its many cells")
    for name in ("strategy", "workload", "schema"):
        if content[KEY].get(name) is not None:
            checks.unchecked(f"hash of the {name}", "the manifest does not contain it")
    checks.unchecked("intervals", "the level is a property of the method")
    return NAME


def _check_guarantee(
    promise: Header, law: str, scale: Any, lattice: Header, checks: Checks
) -> None:
    """The loss of the noise on the sensitivity."""
    distance = arb(int(Fraction(lattice["sensitivity"])))
    distance = distance.sqrt() if law == "gaussian" else distance
    ratio = promise["rows_per_person"] * distance / scale
    kind, *names = KINDS[promise["kind"]]
    if "delta" not in names and promise.get("delta"):
        checks.state("delta", False, f"{promise['kind']} has none")
    numbers = {"kind": kind, **{name: promise[name] for name in names}}
    loss = dp_loss(numbers, law, ratio)
    if loss is None:
        checks.unchecked("guarantee", f"{kind} of Laplace noise")
        return
    value, target = above(loss[0]), loss[1]
    checks.state("guarantee", value <= target * (1 + 1e-12), "the loss of the noise", value)
    tight = value >= target * (1 - SHARPER)
    checks.state("scale", tight, "no more noise than the guarantee asks for", value)


def _check_pml(content: Header, law: str, scale: Any, checks: Checks) -> None:
    """The loss on the distances, that at half of alpha, and that without any."""
    promise, gaussian = content["guarantee"], law == "gaussian"
    check_sample(promise, checks)
    checks.state("rows per person", promise["rows_per_person"] == 1, "PML is about single records")
    if promise["kind"] == "PML" and promise["delta"]:
        checks.state("delta", False, "PML has none")
    if content["distances"]["norm"] != ("l2" if gaussian else "l1"):
        checks.state("distances", False, "are in the norm of the noise")
        return
    failure = "envelope" if promise["kind"] == "EnvelopePML" else "slack"
    numbers = {**promise, "kind": "pml", "failure": failure}
    value, target = _loss_of_share(content, numbers, law, scale, 1.0)
    checks.state("guarantee", value <= target * (1 + 1e-9), "the loss of the noise", value)
    sharper = SHARPER_BOUND if gaussian else SHARPER
    checks.state("scale", value >= target * (1 - sharper), "no more noise than is asked for", value)
    wrong = content["if_alpha_is_wrong"]
    half, _ = _loss_of_share(content, numbers, law, scale, 0.5)
    checks.at_most("half alpha", wrong["half_alpha"], half * (1 - 1e-9), weaker=sharper)
    farthest = largest(value for row in _rows(content, arb(0)).distances for value in row)
    ratio = farthest / scale
    alone = gaussian_profile(ratio, arb(promise["epsilon"])) if gaussian else ratio
    checks.at_most("without alpha", wrong["dp"], above(alone) * (1 - 1e-9), weaker=1e-3)


def _loss_of_share(
    content: Header, numbers: Header, law: str, scale: Any, share: float
) -> tuple[float, float]:
    loss, target = pml_loss(numbers, law, _rows(content, arb(share)), scale)
    return above(loss), target


def _rows(content: Header, share: Any) -> Rows:
    """The distances of a manifest, for a share of alpha."""
    listed, promise, cells = content["distances"], content["guarantee"], content["cells"]
    if "from_any" in listed:
        least = share
        for value in alpha_of(promise, cells):
            least = least.min(share * value)
        distances = [arb(float(word)) for word in listed["from_any"].split()]
        return Rows([distances], [least * count for count in listed["cells"]], listed["different"])
    apart = [[arb(0)] * cells for _ in range(cells)]
    for i, row in enumerate(listed["to_later_cells"]):
        for j, word in enumerate(row.split(), start=i + 1):
            apart[i][j] = apart[j][i] = arb(float(word))
    return rows_of(promise, apart, merge=listed["norm"] == "l2", share=share)


def _check_words(content: Header, checks: Checks) -> None:
    """Whether the numbers in the words of the guarantee are those of the guarantee."""
    promise = content["guarantee"]
    if promise["words"].startswith("none:"):
        checks.state("sentence", False, "the noise is not private")
        return
    kind, *_ = KINDS.get(promise["kind"], ("pml",))
    words = promise["words"].replace(repr(promise.get("known")), "")
    check_sentence(words, kind, [content["cells"], 2, promise], checks)
