"""How strategies are designed: what the searches begin from."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "best_noise": "all_designs",
        "cubes": "is_small",
        "dispatch": "ROUTES route solve",
        "gaussian_pml_search": "gaussian_design",
        "laplace.candidates": "promising scale_rule",
        "laplace.products": "weighted_products",
        "laplace.search": "laplace_design",
        "laplace.tables": "flags weighted_tables",
        "min_norm": "factorize",
        "nested": "solve_regions",
        "options": "DesignOptions",
        "participation.sampled": "with_parts",
        "rivals": "row_seconds",
        "streaming": "first_early require_streaming",
        "structured": "solve_all_ranges",
        "tables.course": "question solve_tables",
        "tables.joined": "solve_joined",
        "tables.separate": "is_separate separate_strategy",
        "targets.accuracy": "Targets named_targets",
        "targets.widths": "least_share",
    },
)
