"""Greedy and beam search by CTranslate2, with the limits of `nmt.models.search`."""

import math
from collections import deque
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from nmt.config.decoding import Decoding
from nmt.models.base import TranslationModel
from nmt.models.search import Hypothesis
from nmt.system.files import sha256
from nmt.text.subwords import SIDES, Vocabulary
from nmt.training.checkpoint import WEIGHTS
from nmt.translation.engines import specification
from nmt.translation.engines.converted import key_of, load_converted

SENTENCES = 64
"""Most sentences that one thread translates at a time."""
AHEAD = 2
"""Batches per thread that wait for a free one."""


class FastSearch:
    """The search of CTranslate2 in float32, on the CPU.

    Greedy search gives the translations of `nmt.models.search`. Beam search stops as soon as ``beam`` hypotheses are
    finished, where ours goes on while a better one may come, so a few translations have a lower score.
    """

    def __init__(self, engine: Any, source: Vocabulary, target: Vocabulary, longest: int, threads: int) -> None:
        """Take a loaded model.

        Args:
            engine: a `ctranslate2.Translator`.
            source: the source vocabulary.
            target: the target vocabulary.
            longest: positions of the model, BOS and EOS included.
            threads: threads of the engine, each for sentences of its own.
        """
        self.engine, self.longest, self.threads = engine, longest, threads
        self._pieces = source.pieces(range(len(source)))
        self._ids = {piece: i for i, piece in enumerate(target.pieces(range(len(target))))}
        self._forbidden = {target.ids.pad, target.ids.bos}

    @classmethod
    def load(
        cls, folder: Path, model: TranslationModel, source: Vocabulary, target: Vocabulary, threads: int
    ) -> "FastSearch":
        """Load the converted model of a model directory; convert it once.

        Args:
            folder: the model directory.
            model: its model, which CTranslate2 supports.
            source: its source vocabulary.
            target: its target vocabulary.
            threads: CPU threads.

        Raises:
            ModuleNotFoundError: CTranslate2 is not installed.
        """
        import ctranslate2

        def convert(out: Path) -> None:
            spec = specification.specification(model, source, target)
            spec.validate()
            spec.optimize()
            spec.save(str(out))

        def load(converted: Path) -> Any:
            return ctranslate2.Translator(
                str(converted), device="cpu", compute_type="float32", inter_threads=threads, intra_threads=1
            )

        files = [WEIGHTS, "config.json", *(f"{side}.model" for side in SIDES)]
        made_by = [ctranslate2.__version__, sha256(Path(specification.__file__))]
        key = key_of(*(sha256(folder / name) for name in files), *made_by)
        return cls(load_converted(key, convert, load), source, target, model.longest, threads)

    def search(
        self,
        rows: Sequence[Sequence[int]],
        batches: Sequence[list[int]],
        decoding: Decoding,
        again: Callable[[list[int]], list[list[Hypothesis]]],
    ) -> Generator[list[list[Hypothesis]], None, None]:
        """Yield the hypotheses of each sentence of each batch, best first.

        Args:
            rows: pieces of the sentences, without BOS and EOS; none is empty.
            batches: the sentences of each batch, as indices.
            decoding: settings of greedy or beam search.
            again: our own search for some sentences. It takes those where CTranslate2 differs: a translation as long
                as the limit, with a piece that ours never writes, or without a finite score.
        """
        waiting = deque[tuple[list[int], Any]]()
        for batch in batches:
            waiting.append((batch, self._start([rows[i] for i in batch], decoding)))
            if len(waiting) > AHEAD * self.threads:
                yield self._finish(*waiting.popleft(), rows, decoding, again)
        while waiting:
            yield self._finish(*waiting.popleft(), rows, decoding, again)

    def _start(self, rows: Sequence[Sequence[int]], decoding: Decoding) -> Any:
        """Queue the search for a batch; its sentences are shared evenly between the threads."""
        rounds = math.ceil(len(rows) / (self.threads * SENTENCES))
        return self.engine.translate_batch(
            [[self._pieces[i] for i in row] for row in rows],
            beam_size=decoding.beam, num_hypotheses=decoding.nbest, length_penalty=decoding.length_penalty,
            return_scores=True, min_decoding_length=0, max_input_length=0,
            max_decoding_length=max(self._limit(row, decoding) for row in rows),
            max_batch_size=math.ceil(len(rows) / (self.threads * rounds)), asynchronous=True,
        )  # fmt: skip

    def _finish(
        self,
        batch: Sequence[int],
        results: Any,
        rows: Sequence[Sequence[int]],
        decoding: Decoding,
        again: Callable[[list[int]], list[list[Hypothesis]]],
    ) -> list[list[Hypothesis]]:
        """Wait for a batch and return its hypotheses."""
        found = [self._hypotheses(result.result(), decoding.length_penalty) for result in results]
        differing = [
            place
            for place, (i, hypotheses) in enumerate(zip(batch, found, strict=True))
            if not all(self._is_ours(hypothesis, self._limit(rows[i], decoding)) for hypothesis in hypotheses)
        ]
        if differing:
            for place, hypotheses in zip(differing, again([batch[place] for place in differing]), strict=True):
                found[place] = hypotheses
        return found

    def _hypotheses(self, result: Any, length_penalty: float) -> list[Hypothesis]:
        ids = [[self._ids[piece] for piece in pieces] for pieces in result.hypotheses]
        return [
            Hypothesis(row, score, score * (len(row) + 1) ** length_penalty)
            for row, score in zip(ids, result.scores, strict=True)
        ]

    def _limit(self, row: Sequence[int], decoding: Decoding) -> int:
        """Return the most pieces of a translation, without EOS."""
        return min(int(len(row) * decoding.length_factor + decoding.length_extra), self.longest - 2)

    def _is_ours(self, hypothesis: Hypothesis, limit: int) -> bool:
        """Whether our search could have found this hypothesis: it ended before the limit, by allowed pieces."""
        allowed = self._forbidden.isdisjoint(hypothesis.ids)
        return len(hypothesis.ids) < limit and allowed and math.isfinite(hypothesis.score)
