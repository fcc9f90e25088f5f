"""Figures made without pyplot."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine


class PaperFigure(Figure):
    """A figure outside pyplot: a notebook displays it, and it need not be closed.

    Example:
        >>> PaperFigure.of_width(3.5, 2.6).add_subplot().get_title()
        ''
    """

    @classmethod
    def of_width(cls, width: float, height: float) -> PaperFigure:
        """An empty figure of a given size in inches that keeps its labels inside."""
        layout = ConstrainedLayoutEngine(wspace=0.06)
        return cls(figsize=(width, height), dpi=200, layout=layout, facecolor="white")

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=150)
        return buffer.getvalue()


def figure_of(axis: Axes) -> Figure:
    """The whole figure that holds axes, also where they stand in a part of it.

    Example:
        >>> figure = PaperFigure.of_width(3.5, 2.6)
        >>> figure_of(figure.subfigures(1, 2)[1].add_subplot()) is figure
        True
    """
    figure: Any = axis.figure
    while figure.figure is not figure:
        figure = figure.figure
    return figure
