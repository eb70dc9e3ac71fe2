"""Pictures of comparisons, of privacy and of leakage, with matplotlib (the plot extra)."""

from typing import TYPE_CHECKING

from pmldesign.plots.comparisons import comparisons_figure as comparisons_figure
from pmldesign.plots.pictures import check_plot_path as check_plot_path
from pmldesign.plots.pictures import save as save
from pmldesign.plots.privacy import alpha_figure as alpha_figure
from pmldesign.plots.privacy import draw_envelope as draw_envelope
from pmldesign.plots.privacy import envelope_figure as envelope_figure
from pmldesign.plots.privacy import privacy_figure as privacy_figure
from pmldesign_solvers import face

if TYPE_CHECKING:
    from pmldesign.plots.notebook import plot as plot
    from pmldesign.plots.notebook import progress as progress

__getattr__ = face(__name__, {"notebook": "plot progress"})
__all__ = ["plot", "progress"]
