"""Pictures of comparisons, of privacy and of leakage, with matplotlib (the plot extra)."""

from pmldesign.plots.channels import draw_envelope as draw_envelope
from pmldesign.plots.channels import plot_alpha_curve as plot_alpha_curve
from pmldesign.plots.channels import plot_envelope as plot_envelope
from pmldesign.plots.comparisons import plot_comparisons as plot_comparisons
from pmldesign.plots.files import check_plot_path as check_plot_path
from pmldesign.plots.privacy import plot_privacy as plot_privacy
