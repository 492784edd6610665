"""Sample translations of a scored test set."""

from collections.abc import Sequence
from pathlib import Path

from nmt.system.lines import read_lines

PARTS = {"source": "sources.txt", "reference": "references.detok", "hypothesis": "hypotheses.detok"}


def samples(scores: Path, count: int, lines: Sequence[int] = ()) -> list[dict[str, str]]:
    """Return sentences of a test set: given lines, or evenly spaced ones, so that the choice is not selective.

    Args:
        scores: folder written by `nmt.scoring.score.score`.
        count: number of sentences; all of them if the test set has fewer.
        lines: numbers of lines, from 1, to return instead; those beyond the end are left out.

    Returns:
        For each sentence ``line`` (from 1), ``source``, ``reference`` and ``hypothesis``, detokenised.

    Raises:
        DataError: a text is missing.
    """
    texts = {part: list(read_lines(scores / name)) for part, name in PARTS.items()}
    total = len(texts["source"])
    chosen: Sequence[int] = [i * total // count for i in range(count)] if count < total else range(total)
    if lines:
        chosen = [line - 1 for line in lines if line <= total]
    return [{"line": str(i + 1), **{part: lines[i] for part, lines in texts.items()}} for i in chosen]
