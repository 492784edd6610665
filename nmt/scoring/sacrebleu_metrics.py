"""sacrebleu's metrics, mended where its bootstrap fails, and the base of the metrics that it lacks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric, Signature
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER, TERScore

from nmt.system.workers import available_processes, parallel_map

SERIAL = 5 * 10**6
"""Sum of the cubed lengths of all lines, in words, up to which one process measures TER: about 5 seconds."""


class PlainCHRF(CHRF):
    """sacrebleu's chrF with plain floats; the original bootstrap fails if a sample has no matches.

    Its signature has beta, if that is not the default.
    """

    def _compute_f_score(self, statistics: list[int]) -> float:
        return float(super()._compute_f_score(statistics))

    def get_signature(self) -> Signature:
        """Return chrF's signature, with beta if that is not the default."""
        signature = super().get_signature()
        if self.beta != self.BETA:
            signature.update("beta", self.beta)
        return signature


class ParallelTER(TER):
    """sacrebleu's TER with the lines divided among processes; a sample of empty references does not break its interval.

    The statistics of a line do not depend on other lines, so the number of processes changes no digit.
    """

    def _extract_corpus_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]] | None
    ) -> list[list[float]]:
        from tqdm import tqdm

        assert references is not None
        pairs = list(zip(map(self._preprocess_segment, hypotheses), self._cache_references(references), strict=True))
        # The time of a line grows with the cube of its words, until sacrebleu's limit on shifts stops it.
        work = sum(max(len(hypothesis.split()), *map(len, info["ref_words"])) ** 3 for hypothesis, info in pairs)
        processes = available_processes() if work > SERIAL else 1
        counts = parallel_map(lambda pair: self._compute_segment_statistics(*pair), pairs, processes)
        return list(tqdm(counts, "TER", len(pairs), unit="line", disable=None, delay=1, leave=False))

    def _compute_score_from_stats(self, stats: Any) -> TERScore:
        result = super()._compute_score_from_stats(stats)
        if isinstance(stats, np.ndarray):  # otherwise the mean of the samples would mix two types of numbers
            result.score = stats.dtype.type(result.score)
        return result


class ShortBLEU(BLEU):
    """sacrebleu's BLEU with n-grams shorter than 4; its name and signature contain the maximum length."""

    def _compute_score_from_stats(self, stats: list[int]) -> BLEUScore:
        result = super()._compute_score_from_stats(stats)
        result.name = f"BLEU{self.max_ngram_order}"
        return result

    def get_signature(self) -> Signature:
        """Return BLEU's signature with the maximum n-gram length."""
        signature = super().get_signature()
        signature.update("order", self.max_ngram_order)
        return signature


class SummedMetric(Metric):
    """Base of metrics with one reference per sentence and a score of the summed statistics of the sentences."""

    def _aggregate_and_compute(self, stats: Sequence[Sequence[float]]) -> Any:
        return self._compute_score_from_stats(np.sum(np.asarray(stats, np.float64), axis=0))

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"reference": refs[0]}
