"""How strategies are designed: the starting points of the searches."""

from pmldesign_solvers import face

__getattr__ = face(
    __name__,
    {
        "baselines": "Baselines",
        "cubes": "is_small",
        "dispatch": "ROUTES choose factorize solve",
        "flow": "optimize",
        "optimized": "Optimized",
        "gaussian_pml_search": "gaussian_design",
        "laplace.candidates": "promising scale_rule",
        "laplace.course": "LaplaceSearch",
        "laplace.search": "laplace_design",
        "laplace.tables": "flags weighted_products weighted_tables",
        "nested": "solve_regions",
        "options": "DesignArguments DesignOptions",
        "participation.sampled": "with_parts",
        "streaming": "first_early require_streaming",
        "structured": "solve_all_ranges",
        "tables": "is_separate question separate_strategy solve_joined solve_tables",
        "targets.accuracy": "Targets least_share named_targets",
        "targets.least": "PUBLISHED_GAP",
    },
)
