"""Metrics of users, which need not be percentages and may be wrong."""

from collections.abc import Sequence
from typing import Any

import fakes
import pytest
from sacrebleu.metrics.base import Score, Signature
from sacrebleu.metrics.bleu import BLEU

from nmt.plan.checks import check_tools
from nmt.report.grids import name_of
from nmt.scoring.sacrebleu_metrics import SummedMetric
from nmt.scoring.score import measure_all
from nmt.scoring.significance import paired_test
from nmt.system.errors import ConfigError, DataError

LINES = ["a small dog", "a bird"]


class Lengths(SummedMetric):
    """Words for 100 words of the reference; no number if it has none."""

    _SIGNATURE_TYPE = Signature

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> list[float]:
        return [float(len(hypothesis.split())), float(len(ref_kwargs["reference"].split()))]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        return Score("lengths", 100 * float(stats[0] / stats[1]) if stats[1] else float("nan"))


def lengths() -> Lengths:
    return Lengths()  # type: ignore[no-untyped-call]


def measured(references: Sequence[str]) -> Any:
    return measure_all({"bleu": BLEU(), "lengths": lengths()}, LINES, references)["lengths"]


def test_intervals_of_metrics_without_an_upper_bound_are_not_cut() -> None:
    found = measured(["a dog", "bird"])
    assert 150 < found["score"] < found["high"] < 220


@pytest.mark.parametrize("references", [["", ""], ["a dog", ""]])  # the second: not a number in some samples alone
def test_scores_that_are_no_numbers_are_refused(references: Sequence[str]) -> None:
    with pytest.raises(DataError, match=r"^metric lengths: expected finite numbers, got nan; correct it"):
        measured(references)
    with pytest.raises(DataError, match="metric lengths: expected finite numbers, got nan"):
        paired_test({"lengths": lengths()}, LINES, ["a", "b"], references)


def test_a_metric_without_a_heading_is_called_by_its_key() -> None:
    assert [name_of("bleu1"), name_of("lengths")] == ["BLEU-1", "lengths"]


def test_a_metric_that_no_code_makes_is_refused_before_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("nmt.config.table", "nmt.scoring.score"):
        monkeypatch.setattr(f"{module}.ON_REQUEST", ("bleu",))
    with pytest.raises(ConfigError, match="bleu: expected a metric that"):
        check_tools([fakes.table(metrics=["bleu"])])
