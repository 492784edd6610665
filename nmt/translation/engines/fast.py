"""Greedy and beam search by CTranslate2, with the limits of `nmt.models.search`."""

import math
import operator
from collections import deque
from collections.abc import Callable, Generator, Sequence
from itertools import chain
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
"""Most sentences in a share, which one thread translates."""
AHEAD = 2
"""Shares that wait for each thread."""


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
        self._target_pieces = target.pieces(range(len(target)))
        self._ids = {piece: i for i, piece in enumerate(self._target_pieces)}
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
            again: our own search for some sentences. It takes those where CTranslate2 differs: with a beam, a
                translation as long as the limit; one with a piece that ours never writes, or without a finite score.
        """
        order = list(chain.from_iterable(batches))
        found = self._found([rows[i] for i in order], max(map(len, batches), default=0), decoding)
        for batch in batches:
            best = [self._checked(next(found), rows[i], decoding) for i in batch]
            differing = [i for i, hypotheses in zip(batch, best, strict=True) if hypotheses is None]
            ours = iter(again(differing) if differing else [])
            yield [next(ours) if hypotheses is None else hypotheses for hypotheses in best]

    def _found(
        self, rows: Sequence[Sequence[int]], together: int, decoding: Decoding
    ) -> Generator[list[Hypothesis], None, None]:
        """Yield the hypotheses of each sentence; at most ``together`` of them share a batch.

        The threads get equal shares. Few shares wait in the queue, because an interruption cannot empty it.
        """
        shares = self.threads * math.ceil(len(rows) / (self.threads * SENTENCES))
        size = math.ceil(len(rows) / max(shares, 1))
        waiting = deque[Any]()
        for start in range(0, len(rows), size or 1):
            waiting.append(self._start(rows[start : start + size], min(size, together), decoding))
            if len(waiting) > AHEAD * self.threads:
                yield from self._hypotheses(waiting.popleft(), decoding.length_penalty)
        for results in waiting:
            yield from self._hypotheses(results, decoding.length_penalty)

    def _start(self, rows: Sequence[Sequence[int]], together: int, decoding: Decoding) -> Any:
        """Start the search for some sentences."""
        return self.engine.translate_batch(
            [[self._pieces[i] for i in row] for row in rows],
            beam_size=decoding.beam, num_hypotheses=decoding.nbest, length_penalty=decoding.length_penalty,
            return_scores=True, min_decoding_length=0, max_input_length=0, max_batch_size=together,
            max_decoding_length=max(1, *(self._limit(row, decoding) for row in rows)), asynchronous=True,
        )  # fmt: skip

    def _hypotheses(self, results: Any, length_penalty: float) -> Generator[list[Hypothesis], None, None]:
        """Wait for the results of some sentences, and yield the hypotheses of each."""
        for result in map(operator.methodcaller("result"), results):
            ids = [[self._ids[piece] for piece in pieces] for pieces in result.hypotheses]
            yield [
                Hypothesis(row, score, score * (len(row) + 1) ** length_penalty)
                for row, score in zip(ids, result.scores, strict=True)
            ]

    def _checked(self, hypotheses: list[Hypothesis], row: Sequence[int], decoding: Decoding) -> list[Hypothesis] | None:
        """Return hypotheses that our search could have found: ended within the limit, by allowed pieces; else None."""
        limit = self._limit(row, decoding)
        if any(len(h.ids) >= limit for h in hypotheses):
            if decoding.beam > 1:
                return None
            hypotheses = [self._ended(row, hypotheses[0].ids[:limit], decoding.length_penalty)]
        allowed = all(self._forbidden.isdisjoint(h.ids) and math.isfinite(h.score) for h in hypotheses)
        return hypotheses if allowed else None

    def _ended(self, row: Sequence[int], ids: list[int], length_penalty: float) -> Hypothesis:
        """Return the greedy translation that has reached the limit, with the probability of ending there."""
        pieces = [self._pieces[i] for i in row], [self._target_pieces[i] for i in ids]
        [scored] = self.engine.score_batch(*([part] for part in pieces), max_input_length=0)
        log_probability = sum(scored.log_probs)
        return Hypothesis(ids, log_probability / (len(ids) + 1) ** length_penalty, log_probability)

    def _limit(self, row: Sequence[int], decoding: Decoding) -> int:
        """Return the most pieces of a translation, without EOS."""
        return min(int(len(row) * decoding.length_factor + decoding.length_extra), self.longest - 2)
