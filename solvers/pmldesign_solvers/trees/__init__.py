"""Counts that nest, in O(n K): norms and strategies on a tree, by sweeps up and down.

tree      the tree as merges of two parts at a time
problem   what the solver for running sums asks, as conductances of the tree
shares    a count for each node, each with a share of its own, and their best shares
"""
