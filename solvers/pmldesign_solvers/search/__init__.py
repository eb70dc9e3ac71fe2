"""Descents on strategies whose error is not convex: Laplace noise, cube noise, and PML."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "cube_moments": "log_moments unit_error",
        "cubes": "CubeProblem rank_of",
        "descent": "LEAST_WORK Descent single_thread",
        "gaussian_pml": "GaussianLeakage hockey_stick",
        "laplace": "SearchOptions solve",
        "laplace_noise": "LARGEST_EXACT AddRemoveL1 Leakage ReplaceL1 is_exact "
        "log_moment pairwise_l1",
        "laplace_sums": "condensed_half_widths inverted_half_widths laplace_half_widths "
        "moment_bound",
        "objectives": "ColumnObjective PairObjective Smoothing Stacked",
        "plan": "FOLLOWED PATIENCE",
        "problem": "SearchProblem",
        "support_weights": "TableProblem",
        "supports": "covers",
        "tent_problem": "DenseGram SeparableGram TentProblem",
        "tents": "systems_of_levels tents_in_levels",
    },
)
