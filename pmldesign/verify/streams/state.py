r"""The state of a stream: its lines, and for `prefix:inf` its noise.

    {"stream": 3, "identity": [...], "key": ...} HASH
    step,answer,standard deviation,digest,HASH               an answer for each series
    {"after": ..., "series": [name, ...], "time": ..., ...} HASH

HASH is that of the line behind the HASH before; from that of a {} line nothing follows. For each
commit but perhaps the last, the log beside it has a step, its HASH, and a digest of the {} line
with the key, which logs of before have not, nor states of before names.
The identity of prefix:inf is 2^48, sigma_1, sigma, K numbers 1 - d_m, K w_m, and kappa of each
epoch; epochs begin at the whole parts of 2^(e/4). With C_ij = rho_i kappa_j sum_m w_m d_m^(i - j),
rho = start^-0.3, a column from the first step of epoch e on has the square kappa_e^2 sum S_mn(e),

    S_mn(e) = rho_e^2 w_m w_n (1 - q^L)/(1 - q) + q^L S_mn(e + 1),    q = d_m d_n, L steps in e,

and later columns of the epoch have less, as rho falls. Rounding to a grid of 2^-44 in 2^48 steps
moves neighbours by 2 * 2^24 * 2^-44 (1/2 + 2^-29) at most: sigma is sigma_1 times both.

The error of the answers is e in q <- (v - w d z)/sum w, z <- d z + q, e <- e + q/kappa, where v is
noise of sigma/rho: its covariance goes from step to step, (z, e) <- F (z, e) + b v.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb

from pmldesign.errors import FileError
from pmldesign.verify.balls import above, largest, root
from pmldesign.verify.report import AGREEMENT, Checks, once

NAME = "ball arithmetic of 192 bits, standard deviations in double precision"
STEPS, FALL = 2**48, 0.3
STARTS = sorted({math.isqrt(math.isqrt(2**e)) for e in range(192)})
ROUNDED = arb(2) ** -19 * (arb(1) / 2 + arb(2) ** -29)
COMPARED = 10**6
"""Steps whose standard deviations are recomputed."""
FORMAT, CLAIMS = 3, {"stream", "identity", "key"}


def check_state(path: Path, checks: Checks) -> str:
    """All claims of a state."""
    head, *lines = path.read_text(encoding="ascii", errors="replace").split("\n")
    content, _, chain = head.rpartition(" ")
    described = json.loads(content, object_pairs_hook=once)
    if described.get("stream") != FORMAT:
        raise FileError(
            f"{path.name}: a state of another version of pmldesign; verify it with that"
        )
    read = _read(lines, chain)
    deviations = read.deviations
    sound = read.sound and described.keys() == CLAIMS and _hash("", content) == chain
    checks.state("lines", sound, "claims of a state, hashes, and steps in their order")
    _check_log(path.with_name(path.name + ".log"), read, bytes.fromhex(described["key"]), checks)
    identity = described["identity"]
    if identity[0] != STEPS:
        checks.unchecked("standard deviations", "of a strategy file; verify that one")
        return "none"
    epochs = len(STARTS)
    count, odd = divmod(len(identity) - 3 - epochs, 2)
    lost, weights = identity[3 : 3 + count], identity[3 + count : 3 + 2 * count]
    levels = identity[-epochs:]
    fits = not odd and count > 0 and min(identity) > 0 and max(lost) < 1
    if not checks.state("exponentials", fits, "positive, with decays below 1"):
        return NAME
    longest = above(root(_longest(lost, weights, levels)) + ROUNDED)
    checks.at_most("sensitivity", identity[2] / identity[1], longest)
    computed = identity[2] * _deviations(lost, weights, levels, min(len(deviations), COMPARED))
    same = np.allclose(deviations[:COMPARED], computed, rtol=AGREEMENT, atol=0)
    told = f"of {len(computed)} answers" if len(deviations) <= COMPARED else f"of {COMPARED}"
    checks.state("standard deviations", same, told)
    if len(deviations) > COMPARED:
        checks.unchecked("later ones", f"of {len(deviations) - COMPARED} answers")
    return NAME


@dataclass
class _Read:
    """The lines of a state behind the first one.

    Attributes:
        chain: the hash of the line of each step; before the first one, of the first line.
        deviations: the standard deviation of each step.
        after: the steps before the last state.
        last: the line of that one.
        sound: whether hashes, steps and names of series fit.
    """

    chain: list[str]
    deviations: list[float] = field(default_factory=list)
    after: int = 0
    last: str = ""
    sound: bool = False


def _read(lines: list[str], chain: str) -> _Read:
    """Lines until one does not fit."""
    read, series = _Read([chain]), 0
    for line in lines[:-1]:
        state = line.startswith("{")
        content, _, found = line.rpartition(" " if state else ",")
        if _hash(read.chain[-1], content) != found:
            return read
        if state:
            said = json.loads(content, object_pairs_hook=once)
            read.after, read.last = said["after"], line
            if said["time"] != len(read.deviations) or not _are_names(said.get("series"), series):
                return read
            continue
        step, *values, deviation, _ = content.split(",")
        read.deviations.append(float(deviation))
        read.chain.append(found)
        series = series or len(values)
        if int(step) != len(read.deviations) or len(values) != series:
            return read
    read.sound = not lines[-1]
    return read


def _are_names(names: Any, series: int) -> bool:
    """Whether each series has a name of its own, or none has one."""
    if names in (None, []):
        return True
    texts = isinstance(names, list) and all(isinstance(name, str) and name for name in names)
    return texts and len(set(names)) == len(names) == series


def _check_log(path: Path, read: _Read, key: bytes, checks: Checks) -> None:
    """What the log has seen is this state, up to its last commit."""
    seen = path.read_text(encoding="ascii", errors="replace") if path.is_file() else ""
    *lines, _ = seen.split("\n")
    if not lines:
        checks.unchecked("log", f"{path.name} has no line; it tells an altered state")
        return
    step, chain, *digest = lines[-1].split(" ")
    same = read.after <= int(step) < len(read.chain) and read.chain[int(step)] == chain
    if int(step) == len(read.deviations):
        found = hashlib.blake2b(f"{read.last}\n".encode(), key=key, digest_size=8).hexdigest()
        same = same and digest in ([], [found])
    checks.state("log", same, "the state that it has seen, up to the last commit")


def _hash(before: str, line: str) -> str:
    return hashlib.blake2b(f"{before} {line}".encode(), digest_size=8).hexdigest()


def _longest(lost: list[float], weights: list[float], levels: list[float]) -> Any:
    """The largest squared norm of a column."""
    lengths = [after - start for start, after in pairwise(STARTS)]
    falls = [arb(start) ** (-2 * arb(FALL)) for start in STARTS]
    columns = [arb(0)] * len(STARTS)
    for m, n in combinations_with_replacement(range(len(lost)), 2):
        q = (1 - arb(lost[m])) * (1 - arb(lost[n]))
        share = (1 + (m < n)) * arb(weights[m]) * arb(weights[n]) / (1 - q)
        later = falls[-1] * share
        columns[-1] += later
        for e in range(len(lengths) - 1, -1, -1):
            left = q ** lengths[e]
            later = falls[e] * share * (1 - left) + left * later
            columns[e] += later
    return largest(arb(level) ** 2 * column for level, column in zip(levels, columns, strict=True))


def _deviations(lost: list[float], weights: list[float], levels: list[float], steps: int) -> Any:
    """Of the first answers, for noise of variance 1."""
    d, w = 1.0 - np.array(lost), np.array(weights)
    inner = np.diag(d) - np.outer(np.ones(d.size), w * d) / w.sum()
    covariance, found = np.zeros((d.size + 1,) * 2), np.empty(steps)
    epoch = -1
    for step in range(1, steps + 1):
        if epoch + 1 < len(STARTS) and step == STARTS[epoch + 1]:
            epoch += 1
            F = np.eye(d.size + 1)
            F[:-1, :-1], F[-1, :-1] = inner, -(w * d) / w.sum() / levels[epoch]
            b = np.append(np.ones(d.size), 1.0 / levels[epoch]) / w.sum()
            added = np.outer(b, b) * STARTS[epoch] ** (2 * FALL)
        covariance = F @ covariance @ F.T + added
        found[step - 1] = covariance[-1, -1]
    return np.sqrt(found)
