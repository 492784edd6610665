"""A bar chart for each corpus: the training pairs that each rule and filter dropped, and those that are left."""

from pathlib import Path

from matplotlib import pyplot

from nmt.report.figures.plots import COLOURS, STYLE, save
from nmt.system.files import Json

NAME, TITLE = "filters", "Training pairs kept and dropped"


def is_filtered(data: list[Json]) -> bool:
    """Whether a corpus of a table has filters, so that the chart is drawn."""
    return any(corpus["splits"].get("train", {}).get("filters") for corpus in data)


def draw_filters(data: list[Json], out: Path) -> None:
    """Draw the chart of a table's corpora that have filters as ``{out}.png`` and ``{out}.svg``."""
    filtered = [corpus for corpus in data if is_filtered([corpus])]
    bars = [_bars(corpus["splits"]["train"]) for corpus in filtered]
    heights = [len(counts) for counts in bars]
    with pyplot.rc_context(STYLE):
        canvas, panels = pyplot.subplots(
            len(filtered), 1, figsize=(7.2, 0.9 + 0.34 * sum(heights) + 0.8 * len(bars)), layout="constrained",
            squeeze=False, height_ratios=heights,
        )  # fmt: skip
        for axes, corpus, counts in zip(panels[:, 0], filtered, bars, strict=True):
            colours = [COLOURS[2], *[COLOURS[1]] * (len(counts) - 1)]
            drawn = axes.barh(list(counts), list(counts.values()), color=colours)
            axes.bar_label(drawn, [f"{count:,}" for count in counts.values()], padding=4)
            axes.invert_yaxis()
            axes.grid(axis="y", visible=False)
            axes.margins(x=0.14)
            axes.set(title=f"{TITLE}: {corpus['corpus']}, {corpus['languages']}", xlabel="pairs")
        save(canvas, out)


def _bars(train: Json) -> dict[str, int]:
    """The number of pairs that are kept, and that each rule dropped, those of filters always."""
    names = {each["name"] for each in train["filters"]}
    dropped = {name: count for name, count in train["dropped"].items() if count or name in names}
    return {"kept": train["kept"], **dropped}
