r"""The least error of any strategy for Laplace noise on two cells, by branch and bound.

Up to order and signs a best strategy has the rows (1 - x_1 - x_2, 0), (x_1, +-y), (x_2, +-(1 - y)),
or the same with the cells exchanged (docs/background/laplace-search.md, "How far from the
best"). With G = R^T R = [[a, c], [c, b]] and W = A^T A

    f = tr W G^-1 = (W_11 b + W_22 a - 2 W_12 c) / (a b - c^2)

decreases in a and b, and is convex in c. So on a box of (x_1, x_2, y) it is at least its value for
the largest a and b and the best c. Boxes are halved until none can be better than what is known.
"""

import numpy as np

SIGNS = ((1, 1), (1, -1), (-1, -1))


def least_trace(W, gap):
    """Lower bound on f over all strategies, less than a part `gap` below f of one of them."""
    best = np.inf
    for gram in (W, W[::-1, ::-1]):
        for signs in SIGNS:
            lower, upper = np.zeros((1, 3)), np.ones((1, 3))
            while len(lower):
                best = min(best, attained(gram, signs, (lower + upper) / 2))
                hopeful = bounds(gram, signs, lower, upper) < best * (1 - gap)
                lower, upper = halves(lower[hopeful], upper[hopeful])
                possible = lower[:, 0] + lower[:, 1] <= 1
                lower, upper = lower[possible], upper[possible]
    return best * (1 - gap)


def attained(W, signs, points):
    """The least f of some strategies."""
    x = points[:, :2] / np.maximum(1, points[:, :2].sum(axis=1))[:, None]
    y = np.stack([points[:, 2], 1 - points[:, 2]], axis=1)
    a, b = (1 - x.sum(axis=1)) ** 2 + (x**2).sum(axis=1), (y**2).sum(axis=1)
    c = (signs * x * y).sum(axis=1)
    regular = a * b > c**2 * (1 + 1e-12)
    a, b, c = a[regular], b[regular], c[regular]
    values = (W[0, 0] * b + W[1, 1] * a - 2 * W[0, 1] * c) / (a * b - c**2)
    return values.min(initial=np.inf)


def bounds(W, signs, lower, upper):
    """A lower bound on f for every box."""
    a = np.minimum(1, (1 - lower[:, 0] - lower[:, 1]).clip(0) ** 2 + (upper[:, :2] ** 2).sum(1))
    ends = [y**2 + (1 - y) ** 2 for y in (lower[:, 2], upper[:, 2])]
    b = np.maximum(*ends)
    y_low = np.stack([lower[:, 2], 1 - upper[:, 2]], axis=1)
    y_high = np.stack([upper[:, 2], 1 - lower[:, 2]], axis=1)
    products = np.sort([signs * lower[:, :2] * y_low, signs * upper[:, :2] * y_high], axis=0)
    least, largest = products.sum(axis=2)
    top, cross = W[0, 0] * b + W[1, 1] * a, W[0, 1]
    root = np.sqrt(np.maximum(top**2 - 4 * cross**2 * a * b, 0))
    c = np.clip(2 * cross * a * b / (top + root), least, largest)
    determinant = a * b - c**2
    regular = determinant > 0
    values = np.full(len(a), np.inf)  # no G of the box is positive definite
    values[regular] = (top - 2 * cross * c)[regular] / determinant[regular]
    return values


def halves(lower, upper):
    """Every box cut across its longest side."""
    rows, side = np.arange(len(lower)), (upper - lower).argmax(axis=1)
    left, right = upper.copy(), lower.copy()
    left[rows, side] = right[rows, side] = (lower + upper)[rows, side] / 2
    return np.concatenate([lower, right]), np.concatenate([left, upper])
