"""Strategies: what a matrix mechanism measures, and the baselines that designs are compared to."""

from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines import BASELINES, Baseline, baseline
from pmldesign.strategies.elementary import identity, kronecker, square_root, workload_strategy
from pmldesign.strategies.trees import haar_wavelet, tree

__all__ = [
    "BASELINES",
    "Baseline",
    "Strategy",
    "baseline",
    "haar_wavelet",
    "identity",
    "kronecker",
    "square_root",
    "tree",
    "workload_strategy",
]
