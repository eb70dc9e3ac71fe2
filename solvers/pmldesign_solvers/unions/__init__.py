"""Norms of workloads too large for one matrix: unions of products, blocks of cells."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "block_design": "BlockDesign",
        "block_dual": "BlockProblem",
        "bounds": "free_attribute whole_unions",
        "descent": "BasisObjective",
        "product_basis": "Basis BasisProblem ProductDesign eigenbasis residual_basis",
    },
)
