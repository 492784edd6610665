"""Write a rebuilt table as Markdown."""

import re
from collections.abc import Sequence

from nmt.report.grid import Grid
from nmt.report.grids import figure_notes, headline, making_grids, result_grids, sample_sets, shown
from nmt.system.files import Json


def render(data: Json) -> str:
    """Return the page of a table: scores, figures, samples, how they were made, and how to check them.

    Args:
        data: the result of `nmt.report.tables.build`.
    """
    scores, *compared = result_grids(data)
    figures = [f"![{f['title']}](../figures/{data['name']}/{f['name']}.png)" for f in shown(data)]
    title, about = headline(data)
    parts = [f"# {escape(title)}", *([escape(about)] if about else [])]
    parts += [table(scores), *_listed(scores.notes), *_sections(compared)]
    parts += ["## Figures", "\n".join(figures), *_listed(figure_notes(data))] if figures else []
    parts += ["## Sample translations", *_samples(data["samples"])] if data["samples"] else []
    return "\n\n".join([*parts, *_sections(making_grids(data)), *_check(data)]) + "\n"


def _sections(grids: Sequence[Grid]) -> list[str]:
    return [part for grid in grids for part in (f"## {grid.title}", table(grid), *_listed(grid.notes))]


def table(grid: Grid) -> str:
    """Format a grid as a Markdown table. The columns are aligned in the source too."""
    cells = [list(map(escape, row)) for row in (grid.header, *grid.rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(grid.header))]
    right = [grid.numeric(i) for i in range(len(grid.header))]
    line = ["-" * (width - 1) + (":" if numeric else "-") for width, numeric in zip(widths, right, strict=True)]
    aligned = [
        [cell.rjust(w) if numeric else cell.ljust(w) for cell, w, numeric in zip(row, widths, right, strict=True)]
        for row in cells
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (aligned[0], line, *aligned[1:]))


_SYNTAX = re.compile(
    r"""[\\`*<|~$]                  # escapes, code, emphasis, HTML, cells, strikethrough, formulas
    | (?<![^\W_])_ | _(?![^\W_])     # an underscore at the edge of a word
    | \](?=[(\[:])                  # the end of a link's text
    | &(?=\#?\w+;)                  # an entity
    | ^(?:\#(?=\#{0,5}(?:\s|$)) | > | [+-](?=\s|$))  # a heading, quotation or list
    | ^[=-](?=[=-]+$)               # the underline of a heading
    | ^(?P<number>\d{1,9})(?=[.)](?:\s|$))  # a numbered list""",
    re.VERBOSE,
)


class Markdown(str):
    """Text that is Markdown already, and is not escaped."""


def escape(text: str) -> str:
    """Escape text so that Markdown shows it unchanged, also within a table."""
    if isinstance(text, Markdown):
        return text
    return _SYNTAX.sub(lambda mark: f"{mark['number']}\\" if mark["number"] else f"\\{mark[0]}", " ".join(text.split()))


def _listed(notes: Sequence[str]) -> list[str]:
    return ["\n".join(f"- {escape(note)}" for note in notes)] if notes else []


def _samples(sentences: Sequence[Json]) -> list[str]:
    """Format the samples; if there are several test sets, each has a heading."""
    parts, sets = [], sample_sets(sentences)
    for title, samples in sets.items():
        parts += [f"### {escape(title)}"] if len(sets) > 1 else []
        parts += map(_sample, samples)
    return parts


def _sample(sentence: Json) -> str:
    lines = [f"**Sentence {sentence['line']}**", f"source: {escape(sentence['source'])}"]
    lines += [f"reference: {escape(sentence['reference'])}"]
    for translation in sentence["translations"]:
        text = escape(translation["text"])
        lines.append(f"{escape(translation['label'])}: " + (f"*{text}*" if text else "(empty)"))
    return "  \n".join(lines)


def _check(data: Json) -> list[str]:
    """The signatures of the scores, and the commands that print the scores."""
    if not data["systems"] and not any(row.get("hypotheses") for row in data["rows"]):
        return []
    lines = [
        f"{protocol} {metric}: {signature}"
        for protocol, metrics in data["signatures"].items()
        for metric, values in metrics.items()
        for signature in values
    ]
    commands = [command for values in data["commands"].values() for command in values]
    return [
        "## Signatures", "```\n" + "\n".join(lines) + "\n```",
        "These commands print the scores. Run them in the folder of a `scores.json` named above. They need the"
        " references in that folder. Only `results/runs/` has the references: `references.detok` is the raw text of"
        " the test set, `references.tok` is the cleaned text.",
        "```sh\n" + "\n".join(commands) + "\n```",
    ]  # fmt: skip
