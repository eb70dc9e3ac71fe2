"""False files for `verify`: structured mutations, and a judge of what stays true.

A mutation deletes, negates, scales, exchanges or makes up a claim, an array or several at once; the
digest is made to fit. Some leave true statements: the judge computes them again with the product's
own strategies, calibration and bounds, which `verify` does not use.
"""

import copy
import dataclasses
import itertools
import json
import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

import pmldesign as pml
from pmldesign.envelope import Channel, exact_envelope
from pmldesign.privacy import KINDS, from_json, gaussian_delta
from pmldesign.strategies import PersonRows, as_participation
from pmldesign.verifier import KEY, OBJECT, digest_of, digest_of_object

CLOSE = 3e-6
"""Claims are true to this part of them: bounds may be rounded by a millionth."""
SCALES = (-1.0, 0.0, 0.5, 0.9, 0.999, 1.001, 1.1, 2.0, 1e3)
LAWS = ("discrete laplace", "discrete cube", "discrete gaussian")
NAMES = {"pmldesign", "versions", "workload", "unweighted", "channel", "records", "unit"}
"""What things are called, and what nothing in a file tells."""
UNSEEN = {"measurements", "sampler", "bits", "unit", "exact", "bias_of_an_entry", "intervals"}
UNSEEN |= {"post_processing", "strategy", "schema", "distances", "half_alpha", "dp", "cells"}
UNSEEN |= {"denominator"}
"""Of a manifest what `verify` says it does not check, or what depends on that alone."""


@dataclass
class Base:
    """An honest file: its content and arrays, and what it is about."""

    kind: str
    content: dict
    arrays: dict = field(default_factory=dict)
    queries: object = None
    known: object = None
    beside: dict = field(default_factory=dict)

    def copy(self):
        return copy.deepcopy((self.content, self.arrays))


def write(path, content, arrays):
    """With a digest that fits, where there is a place for one."""
    if path.suffix == ".json":
        if isinstance(content.get(KEY), dict):
            content[KEY][OBJECT] = digest_of_object(content)
        path.write_text(json.dumps(content))
        return
    if KEY in content:
        content[KEY] = digest_of(content, arrays)
    np.savez(path, header=np.array(json.dumps(content)), **arrays)


FITTED = ("upper", "lower", "achieved", "error", "rmse", "max_std")


def fitted(path, content, arrays):
    """The file written, its claims those that `verify` computes from the arrays, and its verdicts.

    The scale is the one that the sensitivity asks for; a file that fails otherwise is left alone.
    """
    for _ in range(6):
        write(path, content, arrays)
        result = pml.verify(path)
        wrong = {check.name: check.computed for check in result.failures}
        if wrong.get("sensitivity"):
            ratio = wrong["sensitivity"] / content["sensitivity"]
            for name in ("sensitivity", "scale", "error", "rmse", "max_std"):
                content[name] *= ratio
        elif "guarantee" in wrong:
            content["scale"] *= 1 + 1e-8
        for name in wrong.keys() & FITTED:
            outwards = {"upper": 1e-8, "lower": -1e-8}.get(name, 0.0)
            content[name] = (wrong[name] or 0.0) * (1 + outwards)
    return result


def places(content, place=()):
    """Every key of nested objects, and the numbers of lists."""
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield (*place, key)
        if isinstance(value, dict | list):
            yield from places(value, (*place, key))


def holder_of(content, place):
    for key in place[:-1]:
        content = content[key]
    return content, place[-1]


def changed_value(value, rng, other):
    """Something else in place of a claim."""
    if rng.random() < 0.2 or isinstance(value, dict | list | None):
        return other
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return int(value + rng.choice([-1, 1, 7])) if rng.random() < 0.5 else -value
    if isinstance(value, float):
        return value * float(rng.choice(SCALES))
    words = value.split(" ")
    k = rng.integers(len(words))
    choice = rng.integers(4)
    if choice == 0:
        return " ".join(words[:k] + words[k + 1 :])
    if choice == 1:
        return value.replace("1", "2", 1)
    return str(other) if choice == 2 else value[::-1]


def any_claim(content, arrays, rng, other):
    """Delete a claim, or change it."""
    every = [place for place in places(content) if place[0] not in ("format", KEY)]
    place = every[rng.integers(len(every))]
    holder, key = holder_of(content, place)
    if rng.random() < 0.3:
        del holder[key]
        return
    foreign = [p for p in places(other.content) if p[-1] == key] or list(places(other.content))
    there, name = holder_of(other.content, foreign[rng.integers(len(foreign))])
    holder[key] = changed_value(holder[key], rng, copy.deepcopy(there[name]))


def several_claims(content, arrays, rng, other):
    """Scale some numbers alike, one way and the other."""
    names = [key for key, value in content.items() if isinstance(value, float)]
    if not names:
        any_claim(content, arrays, rng, other)
        return
    factor = float(rng.choice([s for s in SCALES if s > 0]))
    for name in rng.choice(names, min(3, len(names)), replace=False):
        content[name] *= factor if rng.random() < 0.7 else 1 / factor


def guarantee(content, arrays, rng, other):
    """Other numbers of the guarantee, with the words that fit them."""
    manifest = "guarantee_numbers" not in content
    numbers = content["guarantee"] if manifest else content["guarantee_numbers"]
    names = ("epsilon", "delta", "rho", "mu", "order", "alpha")
    names = [name for name in names if isinstance(numbers.get(name), float) and numbers[name]]
    name = rng.choice([*names, "neighbours", "known"])
    if name == "neighbours":
        numbers[name] = "replace" if numbers[name] == "add-remove" else "add-remove"
    elif name == "known":
        numbers.pop("known", None)
    else:
        numbers[name] *= float(rng.choice([0.01, 0.5, 0.99, 1.01]))
    if manifest:
        numbers["words"] = describe(numbers, content["cells"]) or numbers["words"]
    else:
        content["neighbours"] = numbers["neighbours"]
        content["guarantee"] = from_json(numbers).describe(content["cells"])


def describe(promise, cells):
    kind = next(kind for kind in KINDS if kind.__name__ == promise["kind"])
    values = {k: promise[k] for k in ("epsilon", "delta", "rho", "mu", "order", "alpha")}
    values = {k: v for k, v in values.items() if k in kind.__dataclass_fields__}
    return kind(**values).describe(cells)


def any_array(content, arrays, rng, other):
    """Delete an array, or change some of it."""
    name = str(rng.choice(sorted(arrays)))
    array = arrays[name]
    choice = rng.integers(8)
    if choice == 0:
        del arrays[name]
    elif choice == 1 and name in other.arrays:
        arrays[name] = other.arrays[name].copy()
    elif choice == 2 and array.ndim:
        arrays[name] = array[:-1].copy()
    elif choice == 3 and array.ndim:
        arrays[name] = np.roll(array, 1, axis=int(rng.integers(array.ndim)))
    elif choice == 4:
        extra = [key for key in other.arrays if key not in arrays] or [name]
        arrays[str(rng.choice(extra))] = next(iter(other.arrays.values())).copy()
    elif array.dtype.kind == "f" and array.size:
        whole, flat = rng.random() < 0.3, array.reshape(-1)
        place = slice(None) if whole else int(rng.integers(flat.size))
        flat[place] = flat[place] * float(rng.choice(SCALES))
    elif array.size:
        array.reshape(-1)[rng.integers(array.size)] += int(rng.choice([-1, 1]))


def array_and_claims(content, arrays, rng, other):
    """An array that is wrong, and numbers that profit from it."""
    any_array(content, arrays, rng, other)
    several_claims(content, arrays, rng, other)


def exchanged(content, arrays, rng, other):
    """All claims, or all arrays, of another file."""
    if rng.random() < 0.5:
        names = [key for key in other.content if key not in ("format", KEY)]
        for key in rng.choice(names, int(rng.integers(1, len(names))), replace=False):
            content[key] = copy.deepcopy(other.content[key])
    else:
        arrays.clear()
        arrays.update(copy.deepcopy(other.arrays))


MUTATIONS = (any_claim, several_claims, guarantee, any_array, array_and_claims, exchanged)


def mutate(base, other, rng):
    """Another content and other arrays; None if nothing was changed."""
    content, arrays = base.copy()
    mutation = MUTATIONS[rng.integers(len(MUTATIONS))]
    if not arrays and mutation in (any_array, array_and_claims):
        mutation = any_claim
    try:
        mutation(content, arrays, rng, other)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, StopIteration):
        return None  # the other file has nothing of the kind
    same = content == base.content and arrays.keys() == base.arrays.keys()
    if same and all(np.array_equal(arrays[name], base.arrays[name]) for name in arrays):
        return None
    return mutation.__name__, content, arrays


def is_true(base, other, content, arrays, path):
    """Whether a file, mutated with something of another one, still says what is so."""
    try:
        if base.kind == "strategy":
            return strategy_is_true(base, content, arrays, path)
        if base.kind == "measurements":
            return measurements_are_true(base, content, arrays)
        unseen = NAMES | (UNSEEN if base.kind == "manifest" else set())
        if all(unseen & set(place) for place in differences(base.content, content)):
            return True
        if base.kind == "envelope":
            return envelope_is_true(content)
        return manifest_is_true(content, [base.content, other.content])
    except (pml.PmldesignError, KeyError, TypeError, ValueError, AttributeError, IndexError):
        return False


def differences(one, other, place=()):
    """The places at which two JSON objects differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            if (one.get(key) or None) != (other.get(key) or None) and key != OBJECT:
                yield from differences(one.get(key), other.get(key), (*place, key))
    elif one != other:
        yield place


def measurements_are_true(base, content, arrays):
    """Of measurements with Laplace or cube noise under add-remove: any values are true."""
    manifest, unseen = (
        content["manifest"],
        NAMES | UNSEEN | {"decimals", "own_grid", "release", "p", KEY},
    )
    told = {"guarantee", "noise", "lattice"}
    for place in differences(base.content, content):
        if not unseen & set(place) and not (place[0] == "manifest" and told & set(place)):
            return False
    law = manifest["noise"]["law"]
    if arrays.keys() != base.arrays.keys() or law != base.content["manifest"]["noise"]["law"]:
        return False
    R, units, A = arrays["strategy"], arrays["units"], pml.workload(base.queries).to_dense()
    if arrays["measured"].shape != R.shape[:1] or units.max() != manifest["lattice"]["unit"]:
        return False
    if np.abs(A - arrays["reconstruction"] @ R).max() > 1e-6:
        return False
    sizes, rows = (np.abs(R).T / units).T, as_participation(manifest["guarantee"]["participation"])
    distance = float((sizes.sum(axis=0) if law == LAWS[0] else sizes).max())
    distance *= 1 if rows is None else rows.reach(R.shape[1])
    stated = int(manifest["lattice"]["sensitivity"])
    return stated >= distance * (1 - CLOSE) and manifest_is_true(manifest, [])


def near(claimed, value):
    return math.isclose(claimed, value, rel_tol=CLOSE, abs_tol=1e-300)


def strategy_is_true(base, content, arrays, path):
    """Of a strategy file: with R as it is read, and its calibration."""
    same = ("queries", "cells", "fingerprint", "neighbours", "known")
    if any(content.get(name) != base.content.get(name) for name in same):
        return False
    if "groups" in arrays and "groups" in base.arrays:
        parts = [arrays["groups"].tolist(), base.arrays["groups"].tolist()]
        if len({len({*part}) for part in (*parts, zip(*parts, strict=True))}) > 1:
            return False  # another partition of the cells
        arrays = {**arrays, "groups": base.arrays["groups"]}
        write(path, content, arrays)
    strategy, p = pml.files.read_strategy(path), float(content["p"])
    options = {"neighbours": content["neighbours"], "p": p}
    reference = pml.PureDP(1.0, content["neighbours"])
    if base.known is not None:
        options, reference = {"known": base.known, "p": p}, pml.PureDP(1.0)
    unit = pml.mechanism(strategy, base.queries, guarantee=reference, noise="laplace", **options)
    if not answers_are_right(base, arrays, unit):
        return False
    if "lower" in content:
        true = base.content if content["p"] == base.content["p"] else {}
        if not content["lower"] <= true.get("upper", 0.0) * (1 + CLOSE):
            return False
        if content["upper"] < unit.factorization.norm(p) * (1 - CLOSE):
            return False
    return "noise" not in content or noise_is_true(content, unit, options, strategy, base)


def answers_are_right(base, arrays, unit):
    """Whether L R = A, and L is the reconstruction with the least noise."""
    if any((name in base.arrays) != (name in arrays) for name in ("strategy", "groups")):
        return False
    if "strategy" not in arrays:
        return True
    R, A = arrays["strategy"], pml.workload(base.queries).to_dense()
    L = arrays["reconstruction"] if "reconstruction" in arrays else A @ arrays["right_inverse"]
    off = A - L @ R
    if base.content["neighbours"] == "replace":
        groups = arrays.get("groups", np.zeros(len(off.T)))
        off = off - np.array([off[:, groups == group].mean(axis=1) for group in groups]).T
    spreads = unit.scale * math.sqrt(2) * np.linalg.norm(L, axis=1)
    return np.abs(off).max() < 1e-6 and np.allclose(spreads, unit.standard_deviations, rtol=CLOSE)


def noise_is_true(content, unit, options, strategy, base):
    """Whether the noise meets the guarantee, in numbers and words, with these errors."""
    promise = from_json(content["guarantee_numbers"])
    rows = as_participation(content.get("participation"))
    more = "" if rows is None else rows.sentence
    if content["guarantee"] != promise.describe(content["cells"]) + more:
        return False
    if promise.known != content.get("known", "") or promise.neighbours != content["neighbours"]:
        return False
    noisy = pml.mechanism(
        strategy, base.queries, guarantee=promise, noise=content["noise"], **options
    )
    scale, exact = content["scale"] / noisy.scale, sensitivity_of(strategy, content, noisy)
    on_grid = content.get("own_grid", False)
    least = exact / noisy.sensitivity * (1 - CLOSE)  # what calibrates may be a bound above it
    if scale < least or content["sensitivity"] < exact * (1 - CLOSE):
        return False
    if not isinstance(on_grid, bool) or ("own_grid" in content and not on_grid):
        return False
    if on_grid:
        noisy, scale = dataclasses.replace(noisy, own_grid=True, scale=content["scale"]), 1.0
    errors = {"rmse": noisy.rmse, "max_std": noisy.known_max_std, "error": noisy.error(noisy.p)}
    return all(
        content.get(name) is None or near(content[name], value * scale)
        for name, value in errors.items()
    )


def sensitivity_of(strategy, content, noisy):
    """The largest sum over the steps of a person, by trying all; as calibrated under replace."""
    if content["neighbours"] == "replace":
        return noisy.sensitivity
    R, n, k, apart, fixed = strategy.matrix, strategy.shape[1], 1, 1, False
    if isinstance(as_participation(content.get("participation")), PersonRows):
        order = {"gaussian": 2, "laplace": 1, "cube": np.inf}[content["noise"]]
        found = R @ people_of(as_participation(content["participation"]), n)
        return min(float(np.linalg.norm(found, ord=order, axis=0).max()), noisy.sensitivity)
    if "participation" in content:
        times, how = content["participation"].split(",")
        k, apart, fixed = int(times), int(how.split("=")[1]), how.startswith("every")
    sizes = np.abs(R.T @ R) if content["noise"] == "gaussian" else np.diag(np.abs(R).sum(axis=0))
    patterns = [
        steps
        for count in range(1, min(k, -(-n // apart)) + 1)
        for steps in itertools.combinations(range(n), count)
        if all(b - a == apart if fixed else b - a >= apart for a, b in itertools.pairwise(steps))
    ]
    value = max(float(sizes[np.ix_(steps, steps)].sum()) for steps in patterns)
    return min(math.sqrt(value) if content["noise"] == "gaussian" else value, noisy.sensitivity)


def people_of(rows, cells):
    """Every person of the most rows, shape (n, N), from the definition; more rows are farther."""
    found = []
    for chosen in itertools.combinations_with_replacement(range(cells), rows.reach(cells)):
        kinds = chosen
        if not isinstance(rows.one_per, str):
            kinds = [cell // rows.one_per[2] % rows.one_per[1] for cell in chosen]
        if rows.one_per == "any" or len({*kinds}) == len(chosen):
            found.append(np.bincount(chosen, minlength=cells))
    return np.array(found).T


def manifest_is_true(content, sources):
    """Of a manifest: its sentence, and for DP that the noise keeps the guarantee."""
    promise, noise = content["guarantee"], content["noise"]
    distance = int(content["lattice"]["sensitivity"])
    if promise["kind"] not in ("PureDP", "ApproxDP", "ZCDP"):
        return any(has_more_noise(content, honest) for honest in sources if "noise" in honest)
    if promise["words"] != describe_fully(promise, content["cells"]) or noise["law"] not in LAWS:
        return False
    if noise["law"] in LAWS[:2]:
        loss = Fraction(distance) / Fraction(noise["parameter"])
        pure = promise["kind"] in ("PureDP", "ApproxDP")
        return pure and loss <= promise["epsilon"] * (1 + CLOSE)
    ratio = math.sqrt(distance) / noise["sigma"]
    if noise["parameter"] ** 2 < noise["sigma"] ** 2:
        return False
    if promise["kind"] == "ZCDP":
        return ratio**2 / 2 <= promise["rho"] * (1 + CLOSE)
    loss = gaussian_delta(ratio, 1.0, promise["epsilon"])
    return loss <= promise["delta"] * (1 + CLOSE)


def has_more_noise(content, honest):
    """Whether a manifest differs from an honest one in more noise, and what is not checked."""
    if content["noise"]["law"] != honest["noise"]["law"]:
        return False
    scales = ("parameter", "sigma") if honest["noise"]["sigma"] else ("parameter",)
    more = all(content["noise"][name] >= honest["noise"][name] for name in scales)
    changed = set(differences(honest, content)) - {("noise", name) for name in scales}
    table = {("sha256", "table"), ("queries",)}  # those of the base, which `verify` compares
    whole = [int(one["lattice"]["sensitivity"]) for one in (content, honest)]
    table |= {("lattice", "sensitivity")} if near(*whole) else set()
    return more and all((NAMES | UNSEEN) & set(place) for place in changed - table)


def describe_fully(promise, cells):
    kind = next(kind for kind in KINDS if kind.__name__ == promise["kind"])
    names = [name for name in ("epsilon", "delta", "rho", "neighbours", "known") if name in promise]
    fields = {name: promise[name] for name in names if not _is_constant(kind, name)}
    words = kind(**fields).describe(cells)
    rows = as_participation(promise["participation"])
    return words if rows is None else words + rows.sentence


def _is_constant(kind, name):
    return "ClassVar" in str(kind.__dataclass_fields__[name].type)


def envelope_is_true(content):
    """Of a certificate: the exact envelope between its bounds, and both leakages."""
    channel = Channel(np.array(content["matrix"]), np.array(content["prior"]))
    value = exact_envelope(channel, content["delta"])
    return (
        content["lower"] <= value.upper * (1 + CLOSE)
        and content["upper"] >= value.lower * (1 - CLOSE)
        and near(content["maximal_leakage"], pml.envelope.maximal_leakage(channel))
    )
