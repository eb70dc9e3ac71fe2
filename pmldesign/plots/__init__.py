"""Pictures of comparisons, of privacy and of leakage, with matplotlib (the plot extra)."""

from pmldesign.plots.channels import draw_envelope, plot_alpha_curve, plot_envelope
from pmldesign.plots.comparisons import plot_comparisons
from pmldesign.plots.files import check_plot_path
from pmldesign.plots.privacy import plot_privacy

__all__ = [
    "check_plot_path",
    "draw_envelope",
    "plot_alpha_curve",
    "plot_comparisons",
    "plot_envelope",
    "plot_privacy",
]
