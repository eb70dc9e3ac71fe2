"""Sweeps: tests over all combinations of some parameters, of which every run takes a sample.

Each value of each parameter is in the sample, beside other values of the others. Parameters with a
limit, as seeds have, keep to their first values.
"""

import math
from collections import defaultdict


def left_out(items):
    """The combinations that are in no sample."""
    groups = defaultdict(list)
    for item in items:
        if item.get_closest_marker("sweep"):
            groups[item.nodeid.partition("[")[0]].append(item)
    return {item for group in groups.values() if len(group) > 1 for item in beside_sample(group)}


def beside_sample(group):
    limits = group[0].get_closest_marker("sweep").kwargs
    axes = {}  # by names that are given together: how many values, and the place of each item's
    for mark in group[0].iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        places = numbered(group, [name.strip() for name in names])
        axes[places] = min(max(places) + 1, limits.get(mark.args[0], math.inf))
    longest, *others = sorted(axes, key=axes.get, reverse=True)
    for item, i, *row in zip(group, longest, *others, strict=True):
        sizes = [axes[column] for column in others]
        diagonal = all(
            j == (i + number * (i // size)) % size
            for number, (j, size) in enumerate(zip(row, sizes, strict=True), 1)
        )
        if i >= axes[longest] or not diagonal:
            yield item


def numbered(group, names):
    """For each item the number of its values of some parameters, as they come."""
    numbers, values = {}, [item.callspec.params for item in group]
    return tuple(
        numbers.setdefault(tuple(id(params[name]) for name in names), len(numbers))
        for params in values
    )
