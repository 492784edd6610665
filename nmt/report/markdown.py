"""A rebuilt table as Markdown."""

from collections.abc import Sequence

from nmt.report.grids import Grid, halves, headline, sample_sets
from nmt.system.files import Json


def render(data: Json, grids: Sequence[Grid]) -> str:
    """The whole page: scores, figures, samples, how all was made, and how to check it.

    Args:
        data: what `nmt.report.tables.build` gave.
        grids: the same as grids of text.
    """
    (scores, *compared), rest = halves(grids)
    figures = [f"![{f['title']}](../figures/{data['name']}/{f['name']}.png)" for f in data["figures"]]
    title, about = headline(data["caption"])
    parts = [f"# {escape(title)}", *([escape(about)] if about else [])]
    parts += [table(scores), *_listed(scores.notes), *_sections(compared)]
    parts += ["## Figures", "\n".join(figures)] if figures else []
    parts += ["## Sample translations", *_samples(data["samples"])] if data["samples"] else []
    return "\n\n".join([*parts, *_sections(rest), *_check(data)]) + "\n"


def _sections(grids: Sequence[Grid]) -> list[str]:
    return [part for grid in grids for part in (f"## {grid.title}", table(grid), *_listed(grid.notes))]


def table(grid: Grid) -> str:
    """A grid as a Markdown table, its columns lined up in the source too."""
    cells = [list(map(escape, row)) for row in (grid.header, *grid.rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(grid.header))]
    right = [grid.numeric(i) for i in range(len(grid.header))]
    rule = ["-" * (width - 1) + (":" if flush else "-") for width, flush in zip(widths, right, strict=True)]
    lined = [
        [cell.rjust(w) if flush else cell.ljust(w) for cell, w, flush in zip(row, widths, right, strict=True)]
        for row in cells
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (lined[0], rule, *lined[1:]))


def escape(text: str) -> str:
    """Text that Markdown shows as it is, in a table too."""
    for character in "\\`*<|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def _listed(notes: Sequence[str]) -> list[str]:
    return ["\n".join(f"- {escape(note)}" for note in notes)] if notes else []


def _samples(sentences: Sequence[Json]) -> list[str]:
    """Samples, under a heading a test set where there are several."""
    parts, sets = [], sample_sets(sentences)
    for title, found in sets.items():
        parts += [f"### {escape(title)}"] if len(sets) > 1 else []
        parts += map(_sample, found)
    return parts


def _sample(sentence: Json) -> str:
    lines = [f"**Sentence {sentence['line']}**", f"source: {escape(sentence['source'])}"]
    lines += [f"reference: {escape(sentence['reference'])}"]
    lines += [f"{escape(one['label'])}: *{escape(one['text'])}*" for one in sentence["translations"]]
    return "  \n".join(lines)


def _check(data: Json) -> list[str]:
    """Signatures, and the commands that print the scores."""
    if not data["systems"]:
        return []
    lines = [
        f"{protocol} {metric}: {signature}"
        for protocol, metrics in data["signatures"].items()
        for metric, found in metrics.items()
        for signature in found
    ]
    commands = [command for found in data["commands"].values() for command in found]
    return [
        "## Signatures", "```\n" + "\n".join(lines) + "\n```",
        "These print the scores in the folder of each `scores.json` named above, with the references beside it. Those"
        " are only in `results/runs/`: `references.detok` is the test set's text, `references.tok` the same cleaned.",
        "```sh\n" + "\n".join(commands) + "\n```",
    ]  # fmt: skip
