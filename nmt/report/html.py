"""A rebuilt table as one HTML page that needs no other file and no network."""

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nmt.report.grids import grids, halves, headline, sample_sets, telling
from nmt.system.files import Json


def render(data: Json, figures: Path) -> str:
    """The page.

    Args:
        data: what `nmt.report.tables.build` gave.
        figures: folder of the figures that it names, as SVG.
    """
    drawn = [figure | {"source": inline(figures / f"{figure['name']}.svg")} for figure in data["figures"]]
    return fill("table.html.j2", figures=drawn, **parts(data))


def parts(data: Json) -> Json:
    """What the pages show of a table, by the names that their templates use."""
    (scores, *compared), rest = halves(grids(data))
    parameters = [row for grid in rest if grid.name == "parameters" for row in grid.rows]
    differing = {key for key, *values in parameters if len(set(values)) > 1}
    title, about = headline(data["caption"])
    return {
        "title": title, "about": about, "data": data, "scores": scores, "compared": compared, "rest": rest,
        "marks": marks(data["rows"]), "differing": differing, "sets": sample_sets(data["samples"]),
    }  # fmt: skip


def fill(template: str, **values: Any) -> str:
    """A page of a template that lies beside this module."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template(template).render(values).lstrip()


def inline(image: Path) -> str:
    """An image's bytes as its address; as an image, not as markup, so that ids of several do not clash."""
    kind = "svg+xml" if image.suffix == ".svg" else "png"
    return f"data:image/{kind};base64,{base64.b64encode(image.read_bytes()).decode('ascii')}"


@dataclass
class Mark:
    """A row of the overview: where its figures lie on a common scale, in per cent of the width."""

    label: str
    quoted: bool
    published: float | None
    ours: float | None
    low: float | None
    high: float | None
    text: str


@dataclass
class Marks:
    """The overview of BLEU: rows and the scale's ticks (label, place)."""

    rows: list[Mark]
    ticks: list[tuple[str, float]]


def marks(rows: Sequence[Json]) -> Marks | None:
    """Published and our BLEU of all rows on one scale; None where there is none."""
    spans = [_span(row) for row in rows]
    values = [value for span in spans for value in span if value is not None]
    if not values:
        return None
    step = next(s for s in (0.5, 1, 2, 5, 10, 20) if (max(values) - min(values)) / s <= 8 or s == 20)
    first, last = math.floor(min(values) / step), math.ceil(max(values) / step)
    last = max(last, first + 1)

    def place(value: float | None) -> float | None:
        return None if value is None else round(100 * (value / step - first) / (last - first), 2)

    marked, differing = [], telling(rows)
    for row, span in zip(rows, spans, strict=True):
        published, ours, low, high = map(place, span)
        name = ", ".join([row["label"], *(row[key] for key in differing if not row["quoted"])])
        marked.append(Mark(name, row["quoted"], published, ours, low, high, _text(span)))
    return Marks(marked, [(f"{tick * step:g}", place(tick * step) or 0.0) for tick in range(first, last + 1)])


def _span(row: Json) -> tuple[float | None, float | None, float | None, float | None]:
    """Published, ours, and the ends of ours: the interval, or one standard deviation either side."""
    published = row["published"].get("bleu")
    if row["quoted"]:
        return published, None, None, None
    ours = row["scores"]["tokenised"]["bleu"]
    if ours["deviation"] is not None:
        return published, ours["mean"], ours["mean"] - ours["deviation"], ours["mean"] + ours["deviation"]
    return published, ours["mean"], ours["low"], ours["high"]


def _text(span: Sequence[float | None]) -> str:
    published, ours, low, high = span
    said = [f"published {published:g}"] if published is not None else []
    if ours is not None and low is not None and high is not None:
        said.append(f"ours {ours:.2f} ({low:.1f} to {high:.1f})")
    return ", ".join(said)
