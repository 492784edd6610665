"""Write a rebuilt table as one HTML page that needs no other file and no network."""

import base64
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nmt.report.cells import NONE, bounds, duration, hardware, is_own, training_time
from nmt.report.grid import telling
from nmt.report.grids import figure_notes, headline, making_grids, result_grids, sample_sets, shown
from nmt.system.files import Json
from nmt.text.languages import is_spaceless


def render(data: Json, figures: Path) -> str:
    """Return the page of a table.

    Args:
        data: the result of `nmt.report.tables.build`.
        figures: folder of the table's figures, as SVG.
    """
    drawn = [figure | {"source": inline(figures / f"{figure['name']}.svg")} for figure in shown(data)]
    return fill("table.html.j2", figures=drawn, **parts(data))


def parts(data: Json) -> Json:
    """The variables of the templates that show a table."""
    (scores, *compared), rest = result_grids(data), making_grids(data)
    parameters = [row for grid in rest if grid.name == "parameters" for row in grid.rows]
    differing = {key for key, *values in parameters if len(set(values)) > 1}
    title, about = headline(data)
    return {
        "title": title, "about": about, "data": data, "scores": scores, "compared": compared, "rest": rest,
        "figure_notes": figure_notes(data), "marks": marks(data["rows"]), "differing": differing,
        "sets": sample_sets(data["samples"]), "kind": "Table" if is_own(data) else "Rebuilt table",
        "boxes": [None if row["quoted"] else provenance(row, data) for row in data["rows"]],
    }  # fmt: skip


def provenance(row: Json, data: Json) -> dict[str, str]:
    """How a row was made, for the box that opens below it: what to run, and what the result depends on."""
    trial = f" --config limit={data['limit']}" if data["limit"] else ""
    corpora = [corpus for corpus in data["data"] if row["system"] is None or row["system"] in corpus["systems"]]
    checksums = [
        f"{corpus['corpus']} {corpus['languages']} {split}: {counts['source']['sha256'][:12]}"
        for corpus in corpora for split, counts in corpus["splits"].items() if counts.get("source")
    ]  # fmt: skip
    environments = filter(None, row.get("versions") or [])  # tables of earlier versions have none
    versions = "; ".join(", ".join(f"{name} {version}" for name, version in each.items()) for each in environments)
    trained = row["system"] is not None
    box = {
        "rebuild": f"snakemake --cores all table_{data['name']}{trial}",
        "without Snakemake": f"nmt reproduce {data['name']}" if trained and not trial else "",
        "commit": ", ".join(code or NONE for code in row["code_version"]),
        "seeds": (" together with " if row.get("ensemble") else ", ").join(map(str, row["seeds"])),
        "checkpoint": row["at"] or "",
        "data (sha256)": "; ".join([*checksums, f"references: {row['references_sha256']['detokenised'][:12]}"]),
        "environment": versions,
        "machine": "; ".join(dict.fromkeys(map(hardware, row["hardware"]))),
        "time": f"training {training_time(row)}, translation {duration(row['decoding_seconds'])}" if trained else "",
        "translations of": f"{row['hypotheses']} ({row['hypotheses_sha256'][:12]})" if row.get("hypotheses") else "",
        "scores": ", ".join(row["provenance"]),
    }  # fmt: skip
    return {term: text for term, text in box.items() if text}


def marked(text: str, reference: str, languages: str | None = None) -> list[tuple[str, bool]]:
    """The words of a translation, and whether each differs from the reference.

    Of a language without spaces between words, the characters; so too if neither text has spaces.
    """
    spaceless = is_spaceless((languages or "").split("-")[-1]) or " " not in f"{text}{reference}".strip()
    units = re.findall(r"\S\s*", text) if spaceless else [f"{word} " for word in text.split()]
    words, expected = [unit.strip() for unit in units], reference.split()
    expected = list("".join(expected)) if spaceless else expected
    same = SequenceMatcher(None, words, expected, autojunk=False).get_matching_blocks()
    kept = {place for block in same for place in range(block.a, block.a + block.size)}
    return [(unit, place not in kept) for place, unit in enumerate(units)]


def fill(template: str, **values: Any) -> str:
    """Fill a template of this package."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["marked"] = marked
    return environment.get_template(template).render(values).lstrip()


def inline(image: Path) -> str:
    """Encode an image as a ``data:`` address. SVG markup in the page would not do: the ids of several figures clash."""
    kind = "svg+xml" if image.suffix == ".svg" else "png"
    return f"data:image/{kind};base64,{base64.b64encode(image.read_bytes()).decode('ascii')}"


@dataclass
class Mark:
    """A row of the chart: the places of its figures on the common scale, in per cent of the width."""

    label: str
    quoted: bool
    published: float | None
    ours: float | None
    low: float | None
    high: float | None
    text: str


@dataclass
class Marks:
    """A chart of BLEU: its rows, and the ticks of its scale (label, place)."""

    rows: list[Mark]
    ticks: list[tuple[str, float]]


def marks(rows: Sequence[Json]) -> Marks | None:
    """Place the published and our BLEU of all rows on one scale; return None if no row has BLEU."""
    spans = [_span(row) for row in rows]
    values = [value for span in spans for value in span if value is not None]
    if not values:
        return None
    step = next(s for s in (0.5, 1, 2, 5, 10, 20) if (max(values) - min(values)) / s <= 8 or s == 20)
    first, last = math.floor(min(values) / step), math.ceil(max(values) / step)
    last = max(last, first + 1)

    def place(value: float) -> float:
        return round(100 * (value / step - first) / (last - first), 2)

    bars, keys = [], telling(rows)
    for row, span in zip(rows, spans, strict=True):
        published, ours, low, high = (None if value is None else place(value) for value in span)
        name = ", ".join([row["label"], *(row[key] for key in keys if not row["quoted"])])
        bars.append(Mark(name, row["quoted"], published, ours, low, high, _text(span)))
    return Marks(bars, [(f"{tick * step:g}", place(tick * step)) for tick in range(first, last + 1)])


def _span(row: Json) -> tuple[float | None, float | None, float | None, float | None]:
    """Published BLEU, our BLEU, and the ends of our interval or of mean ± one standard deviation."""
    published = row["published"].get("bleu")
    if row["quoted"]:
        return published, None, None, None
    ours = row["scores"]["tokenised"]["bleu"]
    return published, ours["mean"], *bounds(ours)


def _text(span: Sequence[float | None]) -> str:
    published, ours, low, high = span
    texts = [f"published {published:g}"] if published is not None else []
    if ours is not None and low is not None and high is not None:
        texts.append(f"ours {ours:.2f} ({low:.1f} to {high:.1f})")
    return ", ".join(texts)
