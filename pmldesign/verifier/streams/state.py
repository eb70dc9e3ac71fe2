r"""The state of a stream: its rows, and for `prefix:inf` its noise.

    stream   identity as JSON, key
    step     number, answer: values and standard deviation, input, chain
    state    after, content as JSON ("time", "series": names), digest

The chain of a row is the hash of the chain before and the row; the first one that of identity and
key. The digest of the state is a hash of all of it with the key. The log of the stream holds the
step, chain and digest of the last commit, or of the one before. The identity of prefix:inf is 2^48,
sigma_1, sigma, K numbers 1 - d_m, K w_m, and kappa of each epoch; epochs begin at the whole parts
of 2^(e/4). With C_ij = rho_i kappa_j sum_m w_m d_m^(i - j), rho = start^-0.3, a column from the
first step of epoch e on has the square kappa_e^2 sum S_mn(e),

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
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb

from pmldesign.errors import FileError
from pmldesign.verifier.balls import above, largest, root
from pmldesign.verifier.report import AGREEMENT, Checks, once

NAME = "ball arithmetic of 192 bits, standard deviations in double precision"
STEPS, FALL = 2**48, 0.3
STARTS = sorted({math.isqrt(math.isqrt(2**e)) for e in range(192)})
ROUNDED = arb(2) ** -19 * (arb(1) / 2 + arb(2) ** -29)
COMPARED = 10**6
"""Steps whose standard deviations are recomputed."""
FORMAT = 1


def check_state(path: Path, checks: Checks) -> str:
    """All claims of a state."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as file:
            state = _read(file, path.name)
    except sqlite3.Error as error:
        raise FileError(f"cannot read {str(path)!r}: {error}") from None
    checks.state("rows", state.sound, "hashes, and steps in their order")
    _check_log(path.with_name(path.name + ".log"), state, checks)
    identity, deviations = state.identity, np.array(state.deviations)
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
    computed = identity[2] * _deviations(lost, weights, levels, len(deviations))
    same = np.allclose(deviations, computed, rtol=AGREEMENT, atol=0)
    checks.state("standard deviations", same, f"of {len(deviations)} answers")
    if state.count > COMPARED:
        checks.unchecked("later ones", f"of {state.count - COMPARED} answers")
    return NAME


@dataclass
class _State:
    """What a file holds.

    Attributes:
        identity: of the stream.
        after: the steps before the last commit.
        digest: of the state.
        chains: of the steps `after` and `count`.
        count: how many steps there are.
        deviations: the standard deviations of the first `COMPARED` steps.
        sound: whether hashes, steps and names of series fit.
    """

    identity: list[float]
    after: int
    digest: str
    chains: dict[int, str]
    count: int = 0
    deviations: list[float] = field(default_factory=list)
    sound: bool = True


def _read(file: sqlite3.Connection, name: str) -> _State:
    """The rows of a state, one after the other."""
    if file.execute("PRAGMA user_version").fetchone() != (FORMAT,):
        raise FileError(f"{name}: a state of another version of pmldesign; verify it with that")
    ((identity, key),) = file.execute("SELECT identity, key FROM stream")
    ((after, content, digest),) = file.execute("SELECT after, content, digest FROM state")
    said, chain, series = json.loads(content, object_pairs_hook=once), _hash("", identity, key), 0
    state = _State(json.loads(identity), after, digest, {0: chain})
    for number, answer, given, found in file.execute("SELECT * FROM step ORDER BY number"):
        state.count += 1
        chain = _hash(chain, number, answer, given)
        *values, deviation = map(float, answer.split(","))
        series = series or len(values)
        state.sound &= number == state.count and chain == found and len(values) == series
        if state.count in (after, said["time"]):
            state.chains[state.count] = chain
        if state.count <= COMPARED:
            state.deviations.append(deviation)
    text = f"{after} {state.count} {chain} {content}".encode()
    keyed = hashlib.blake2b(text, key=bytes.fromhex(key), digest_size=16).hexdigest()
    state.sound &= said["time"] == state.count and keyed == digest
    state.sound &= _are_names(said["series"], series)
    state.sound &= file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return state


def _are_names(names: Any, series: int) -> bool:
    """Whether each series has a name of its own, or none has one."""
    if names == []:
        return True
    texts = isinstance(names, list) and all(isinstance(name, str) and name for name in names)
    return texts and len(set(names)) == len(names) == series


def _check_log(path: Path, state: _State, checks: Checks) -> None:
    """What the log has seen is this state, up to its last commit."""
    seen = path.read_text(encoding="ascii", errors="replace") if path.is_file() else ""
    if not seen:
        checks.unchecked("log", f"{path.name} is not there, or empty; it tells an altered state")
        return
    step, chain, *digest = seen.split()
    same = state.chains.get(int(step)) == chain and int(step) in (state.after, state.count)
    same = same and (int(step) < state.count or digest == [state.digest])
    checks.state("log", same, "the state that it has seen, up to the last commit")


def _hash(*parts: Any) -> str:
    return hashlib.blake2b(",".join(map(str, parts)).encode(), digest_size=16).hexdigest()


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
