"""A table of text, with what tells its rows apart. Markdown and HTML only format it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nmt.report.cells import DISAGREE, NONE
from nmt.system.files import Json


@dataclass
class Grid:
    """A table of text: a title, a header, rows of as many cells as the header, and notes."""

    name: str
    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    quoted: list[bool] = field(default_factory=list)  # whether each row is only quoted; empty if no row is
    best: set[tuple[int, int]] = field(default_factory=set)  # row and column of the best scores, which are bold

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers; these are aligned to the right."""
        cells = [row[column] for row in self.rows if row[column] not in ("", NONE, DISAGREE)]
        return bool(cells) and all(cell.lstrip("+−-< ")[:1].isdigit() for cell in cells)


def telling(rows: Sequence[Json]) -> dict[str, str]:
    """The keys that are needed, besides the label, to tell the rows apart, with their columns' headings."""
    headings = {"test": "test set", "languages": "languages"}
    return {key: heading for key, heading in headings.items() if len(distinct_of(rows, key)) > 1}


def distinct_of(rows: Sequence[Json], key: str) -> list[Any]:
    """The distinct values of a key in the trained rows."""
    return list(dict.fromkeys(row.get(key) for row in rows if not row["quoted"]))
