"""Pictures of comparisons and of leakage envelopes, with matplotlib (the plot extra)."""

from pmldesign.plots.pictures import (
    check_plot_path,
    draw_envelope,
    plot_alpha_curve,
    plot_comparisons,
    plot_envelope,
)
from pmldesign.plots.privacy import plot_privacy

__all__ = [
    "check_plot_path",
    "draw_envelope",
    "plot_alpha_curve",
    "plot_comparisons",
    "plot_envelope",
    "plot_privacy",
]
