"""What symmetries and products of attributes leave to compute."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "cell_pairs": "differing_sets",
        "eigenspaces": "common_eigenspaces distinct_columns is_even",
        "kronecker": "largest_l1_distance largest_l2_distance",
        "subsets": "residual_spaces",
    },
)
