"""The share of lines in the right language, for models that know several."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from sacrebleu.metrics.base import Score, Signature

from nmt.scoring.sacrebleu_metrics import SummedMetric
from nmt.system.errors import ConfigError
from nmt.text.filters.judges import identifier
from nmt.text.languages import base

WHERE = "metric language"
"""Start of the messages about what is missing."""


def check_language(language: str) -> None:
    """Raise ConfigError if py3langid is missing, or does not know a language."""
    if base(language) not in identifier(WHERE).labels:
        raise ConfigError(f"{WHERE}: py3langid does not know '{language}'; leave the metric out")


class _Signature(Signature):
    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self.info |= {"language": args["language"], "py3langid": version("py3langid")}


class LanguageShare(SummedMetric):
    """The share of lines that py3langid takes for the target language, 0 to 100; an empty line is in no language.

    It chooses among all its languages, so a few lines of any text are misjudged. The share of the references shows how
    many.

    Raises:
        ConfigError: see `check_language`.
    """

    _SIGNATURE_TYPE = _Signature

    def __init__(self, language: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        check_language(language)
        self.language = base(language)

    def is_right(self, line: str) -> bool:
        """Return whether a line is in the target language."""
        return bool(line) and identifier(WHERE).classify(line)[0] == self.language

    def share(self, lines: Sequence[str]) -> float:
        """Return the share of lines, 0 to 100."""
        return 100 * sum(map(self.is_right, lines)) / max(1, len(lines))

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        return [float(self.is_right(hypothesis)), 1.0]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        return Score("right language", 100 * float(stats[0]) / float(stats[1]))
