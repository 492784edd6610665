"""Write a table's pages again with the words of its file. Every number comes from the table's JSON."""

from collections.abc import Sequence
from typing import Any

from nmt.config.decoding import Decoding
from nmt.config.table import Row, Table
from nmt.plan.layout import Layout
from nmt.report.figures.plots import TITLES
from nmt.report.tables import description, difference, published
from nmt.report.write import write_pages
from nmt.system.errors import DataError
from nmt.system.files import Json, read_json


def rewrite(name: str, table: Table, layout: Layout) -> None:
    """Write a table's four pages again with the caption, report, labels and notes of the table file.

    No run is read. No score changes.

    Args:
        name: of the table.
        table: the table file.
        layout: where the table's JSON and figures are.

    Raises:
        DataError: the JSON is missing, or its rows are not those of the table file.
    """
    path = layout.table(name).with_name(f"{name}.json")
    data = read_json(path)
    try:
        data = data | reworded(data, table)
    except _Misfit as error:
        raise DataError(f"{path}: {error}; build the table again: snakemake --cores all table_{name}") from None
    write_pages(data, layout)


class _Misfit(Exception):
    """The JSON has other rows than the table file."""


def reworded(data: Json, table: Table) -> Json:
    """The parts of a table's JSON that hold words, with the words of the table file."""
    old, rows = data["rows"], table.rows
    if len(old) != len(rows):
        raise _Misfit(f"expected {len(rows)} rows, as in the table file, got {len(old)}")
    for built, row in zip(old, rows, strict=True):
        if changes := _changes(built, row, table):
            raise _Misfit(f"row '{row.label}': the table file gives another {', '.join(changes)}")
    return description(table) | {
        "rows": [_row(place, old, table) for place in range(len(rows))],
        "samples": [_sample(sample, old, rows) for sample in data["samples"]],
        "figures": [figure | {"title": TITLES.get(figure["name"], figure["title"])} for figure in data["figures"]],
    }


def _changes(built: Json, row: Row, table: Table) -> list[str]:
    """The keys that make a row what it is, where the table file has another value than the JSON."""
    pairs: dict[str, tuple[Any, Any]] = {
        "system": (built.get("system"), row.system), "test": (built["test"], table.test_of(row)),
        "published": (built["published"], published(row)),
        "hypotheses": (built.get("hypotheses"), str(row.hypotheses) if row.hypotheses else None),
    }  # fmt: skip
    if row.system and not built["quoted"]:
        pairs["at"] = (built["at"], row.at)
        pairs["ensemble"] = (built.get("ensemble", False), row.ensemble)
        pairs["decoding"] = (Decoding.model_validate(built["decoding"]), row.decoding)
    return [key for key, (was, given) in pairs.items() if was != given]


def _row(place: int, old: Sequence[Json], table: Table) -> Json:
    """A row of the JSON with the words of the table file."""
    built, row = old[place], table.rows[place]
    words: Json = {"label": row.label, "note": row.note}
    if not built["quoted"]:
        ours, meteor = built["scores"]["tokenised"], built.get("meteor")
        words["difference"] = difference(built["published"], ours, meteor) if table.comparable else {}
    if against := built.get("against"):
        rival = _rival(place, old, table)
        if against["label"] != old[rival]["label"]:
            raise _Misfit(f"row '{row.label}': the table file compares it with another row")
        words["against"] = against | {"label": table.rows[rival].label}
    return built | words


def _rival(place: int, old: Sequence[Json], table: Table) -> int:
    """The place of the row that a row is compared with: the named one, else the first of its group that names none."""
    if rival := table.row_against(table.rows[place]):
        return table.rows.index(rival)
    return next(i for i in _group(old[place], old) if table.rows[i].against is None)


def _group(built: Json, old: Sequence[Json]) -> list[int]:
    """The places of the trained rows whose translations are of the same sentences."""

    def sentences(row: Json) -> tuple[str, str, str]:
        return row["test"], row["languages"], row["references_sha256"]["detokenised"]

    return [i for i, row in enumerate(old) if not row["quoted"] and sentences(row) == sentences(built)]


def _sample(sample: Json, old: Sequence[Json], rows: Sequence[Row]) -> Json:
    """A sample sentence, its translations under the new labels of their rows."""
    translations = sample["translations"]
    labels = [translation["label"] for translation in translations]
    for built in old:
        group = [] if built["quoted"] else _group(built, old)
        if built["test"] == sample["test"] and [old[i]["label"] for i in group] == labels:
            renamed = [t | {"label": rows[i].label} for t, i in zip(translations, group, strict=True)]
            return sample | {"translations": renamed}
    raise _Misfit(f"sentence {sample['line']} of {sample['test']}: its translations are of other rows")
