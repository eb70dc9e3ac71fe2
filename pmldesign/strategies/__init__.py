"""Strategies: what a matrix mechanism measures, and the baselines that designs are compared to."""

from pmldesign.strategies.base import Strategy
from pmldesign.strategies.baselines import BASELINES, Baseline, baseline
from pmldesign.strategies.blocks import BlockStrategy
from pmldesign.strategies.chosen_trees import best_tree, weighted_tree
from pmldesign.strategies.circulant import henzinger_upadhyay
from pmldesign.strategies.eigen_design import eigen_design
from pmldesign.strategies.elementary import identity, kronecker, square_root, workload_strategy
from pmldesign.strategies.marginals import MarginalsStrategy
from pmldesign.strategies.orthonormal import fourier, hadamard
from pmldesign.strategies.product import ProductStrategy
from pmldesign.strategies.public_total import PublicTotal, PublicTotalStrategy
from pmldesign.strategies.trees import haar_wavelet, tree

__all__ = [
    "BASELINES",
    "Baseline",
    "BlockStrategy",
    "MarginalsStrategy",
    "ProductStrategy",
    "PublicTotal",
    "PublicTotalStrategy",
    "Strategy",
    "baseline",
    "best_tree",
    "eigen_design",
    "fourier",
    "haar_wavelet",
    "hadamard",
    "henzinger_upadhyay",
    "identity",
    "kronecker",
    "square_root",
    "tree",
    "weighted_tree",
    "workload_strategy",
]
