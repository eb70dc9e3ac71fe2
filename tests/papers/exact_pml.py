"""Leakage about one record by summation over all the others: no formula of the package is used."""

import itertools

import numpy as np


def haar_differences():
    """The difference workload of [ZSO], eq. (9): sums, then halves against halves."""
    rows = [np.ones(8)]
    for width in (8, 4, 2):
        for start in range(0, 8, width):
            row = np.zeros(8)
            row[start : start + width // 2] = 1
            row[start + width // 2 : start + width] = -1
            rows.append(row)
    return np.array(rows)


def extreme_priors(least):
    """The vertices of the set of distributions with at least `least`: free mass on one cell."""
    rest = 1 - least.sum()
    return least + rest * np.eye(len(least))


def random_priors(rng, least, count):
    rest = max(0.0, 1 - least.sum())
    return least + rest * rng.dirichlet(np.full(len(least), rng.choice([0.05, 1.0])), count)


def others(R, priors):
    """Sums of the columns of all records but the first, and their probabilities."""
    cells = range(R.shape[1])
    shifts, weights = [], []
    for values in itertools.product(cells, repeat=len(priors) - 1):
        shifts.append(R[:, list(values)].sum(axis=1))
        weights.append(np.prod([prior[v] for prior, v in zip(priors[1:], values, strict=True)]))
    return np.array(shifts), np.array(weights)


def laplace_densities(R, priors, outputs, scale):
    """Density of the output given the first record's cell, shape (outputs, k), up to a factor."""
    shifts, weights = others(R, priors)
    means = shifts[:, None, :] + R.T  # (combinations, k, r)
    distances = np.abs(outputs[:, None, None, :] - means).sum(axis=3)
    return np.einsum("c,ock->ok", weights, np.exp(-distances / scale))


def laplace_leakage_of_first(R, priors, outputs, scale):
    """Leakage about the first record at each output, by definition."""
    densities = laplace_densities(R, priors, outputs, scale)
    return np.log(densities.max(axis=1) / (densities @ priors[0]))
