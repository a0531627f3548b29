"""Measures as a picture: a bar for each row, the spread over the rounds as a line on it."""

from __future__ import annotations

from zerosys.cli.bench.measure import Measure


def draw(measures: list[Measure], path: str) -> None:
    """Write *measures* to *path*, whose ending says the format: .svg, .png, .pdf.

    Needs the plot extra (matplotlib). Raises ValueError for another ending.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("a picture needs matplotlib: pip install 'zerosys[plot]'") from None
    height = sum(1.2 + 0.4 * len(measure.rows) for measure in measures)
    figure = Figure(figsize=(9, height), layout="constrained")
    heights = [1 + 0.4 * len(measure.rows) for measure in measures]
    axes = figure.subplots(len(measures), 1, squeeze=False, height_ratios=heights)
    for axis, measure in zip(axes[:, 0], measures, strict=True):
        values = [row.value for row in measure.rows]
        spread = [
            [row.value - row.low for row in measure.rows],
            [row.high - row.value for row in measure.rows],
        ]
        axis.barh([row.label for row in measure.rows], values, xerr=spread, color="#4477aa", ecolor="#222222")
        axis.invert_yaxis()
        axis.set_title(measure.name, loc="left", fontsize=10)
        axis.set_xlabel(f"{measure.unit} ({'more' if measure.more_is_better else 'less'} is better)")
    figure.savefig(path)
