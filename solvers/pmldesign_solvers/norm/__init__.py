"""Factorization norms: dual problems, the methods that solve them, and the loop around them."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "bounds_loop": "BoundsLoop CLOSER PATIENCE best_lower",
        "dense_dual": "ScalingProblem lower_ahead row_size",
        "dual_function": "DualFunction NewtonSystem",
        "interior_point": "InteriorPoint",
        "marginals": "solve_marginals",
        "solution": "Bounds SolverOptions Status Step",
        "solve": "CRAWL solve_norm",
    },
)
