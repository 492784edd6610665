"""Greedy and beam search over one decoder interface, for one model or an ensemble of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor

from nmt.config.data import SpecialIds
from nmt.config.decoding import Decoding

BLOCK = 64  # columns of which `top` takes the greatest first: few blocks to sort, few columns in each
FEW = 2**15  # numbers in which looking at all is faster


class Decoder(Protocol):
    """What search asks of a model; rows are grouped by sentence, as many for each."""

    @property
    def longest(self) -> int:
        """Most positions a sentence may take, BOS and EOS included."""

    def start(self, source: Tensor, images: Tensor | None = None) -> Any:
        """Source ids (B, S), padded, and features (B, R, C), to a state of B sentences with one row each."""

    def step(self, state: Any, last: Tensor) -> tuple[Tensor, Any]:
        """Last ids of the rows (R,) to log-probabilities (R, V) and the new state."""

    def reorder(self, state: Any, rows: Tensor) -> Any:
        """Row i becomes what rows[i] was."""

    def keep(self, state: Any, sentences: Tensor) -> Any:
        """Only these sentences go on; their rows are chosen by `reorder`."""


class Ensemble:
    """Several decoders as one: the mean of their probabilities."""

    def __init__(self, decoders: Sequence[Decoder]) -> None:
        self.decoders = decoders

    @property
    def longest(self) -> int:
        """The shortest of the members' limits."""
        return min(decoder.longest for decoder in self.decoders)

    def start(self, source: Tensor, images: Tensor | None = None) -> list[Any]:
        """A state a member."""
        return [decoder.start(source, images) for decoder in self.decoders]

    def step(self, state: list[Any], last: Tensor) -> tuple[Tensor, list[Any]]:
        """Log of the mean probability (R, V), and the members' new states."""
        steps = [decoder.step(part, last) for decoder, part in zip(self.decoders, state, strict=True)]
        mean = torch.stack([log_probs for log_probs, _ in steps]).logsumexp(0) - torch.tensor(len(steps)).log()
        return mean, [part for _, part in steps]

    def reorder(self, state: list[Any], rows: Tensor) -> list[Any]:
        """Reorder every member."""
        return [decoder.reorder(part, rows) for decoder, part in zip(self.decoders, state, strict=True)]

    def keep(self, state: list[Any], sentences: Tensor) -> list[Any]:
        """Keep the sentences in every member."""
        return [decoder.keep(part, sentences) for decoder, part in zip(self.decoders, state, strict=True)]


@dataclass(frozen=True)
class Hypothesis:
    """A finished translation."""

    ids: list[int]  # without BOS and EOS
    score: float  # log p / length^penalty
    log_probability: float  # of the pieces and EOS, in nats


@torch.inference_mode()
def search(
    decoder: Decoder, source: Tensor, config: Decoding, ids: SpecialIds, images: Tensor | None = None
) -> list[list[Hypothesis]]:
    """Translate a batch.

    Keeps, for each sentence, the ``beam`` best unfinished prefixes; a prefix extended by EOS while among the
    sentence's best ``beam`` candidates is finished. A sentence is done once ``beam`` hypotheses are finished and its
    best unfinished prefix, scored as if it ended here, is below its ``nbest`` best of them: counting alone would stop
    at early, improbable endings of a sure model. At the length limit EOS is forced. Length counts EOS.

    Args:
        decoder: a model or an `Ensemble`.
        source: (B, S), padded.
        config: beam 1 is greedy, or with sampling draws each piece; the draws depend on the batch alone.
        ids: the special ids.
        images: features of the sentences' pictures (B, R, C), for multimodal models.

    Returns:
        For each sentence its ``nbest`` hypotheses, best first.
    """
    return _Beams(decoder, source, config, ids, images).run()


def _greatest_of_blocks(log_probs: Tensor) -> Tensor:
    """The greatest of each `BLOCK` columns, the last of which may be fewer; (R, V) to (R, blocks)."""
    whole = log_probs.shape[1] // BLOCK * BLOCK
    greatest = torch.unflatten(log_probs[:, :whole], 1, (-1, BLOCK)).amax(-1)
    if whole == log_probs.shape[1]:
        return greatest
    return torch.cat([greatest, log_probs[:, whole:].amax(1, keepdim=True)], 1)


def greatest(log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """The greatest of each row and its column, found as `top` does; (R, V) to twice (R, 1)."""
    if log_probs.is_cuda or log_probs.numel() < FEW:
        return log_probs.max(1, keepdim=True)
    block = _greatest_of_blocks(log_probs).argmax(1, keepdim=True)
    columns = (block * BLOCK + torch.arange(BLOCK)).clamp(max=log_probs.shape[1] - 1)  # (R, BLOCK)
    values, places = log_probs.gather(1, columns).max(1, keepdim=True)
    return values, columns.gather(1, places)


def top(log_probs: Tensor, scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best extensions of each sentence's prefixes, best first.

    `Tensor.topk` looks at every number one by one on the CPU. Here it sees the greatest of each block of columns, then
    those blocks alone that have the greatest of these: what is among the greatest is in them.

    Args:
        log_probs: of the next pieces, (B * k, V).
        scores: of the prefixes, (B, k).
        count: how many, at most k * V.

    Returns:
        Their scores (B, count) and their columns in (B, k * V).
    """
    (sentences, width), vocabulary = scores.shape, log_probs.shape[1]
    if log_probs.is_cuda or log_probs.numel() < FEW or width * vocabulary < 4 * count * BLOCK:
        return (scores[..., None] + log_probs.view(sentences, width, -1)).flatten(1).topk(count)
    of_blocks = _greatest_of_blocks(log_probs)
    blocks = of_blocks.shape[1]
    chosen = (scores[..., None] + of_blocks.view(sentences, width, -1)).flatten(1).topk(count).indices  # (B, count)
    rows, pieces = chosen // blocks, (chosen % blocks * BLOCK)[..., None] + torch.arange(BLOCK)  # (B, count, BLOCK)
    columns = (rows[..., None] * vocabulary + pieces.clamp(max=vocabulary - 1)).flatten(1)
    # Rows of a vocabulary that was filled up lie apart and are copied here, which the faster projection outweighs.
    found = log_probs.reshape(sentences, -1).gather(1, columns).view(pieces.shape) + scores.gather(1, rows)[..., None]
    values, places = found.masked_fill_(pieces >= vocabulary, -torch.inf).flatten(1).topk(count)
    return values, columns.gather(1, places)


Candidate = tuple[float, int, int]
"""A prefix extended by a piece: its log-probability, the prefix's row, the piece."""


class _Beams:
    """The state of a search over B live sentences, k rows each; R = B * k.

    Candidates are judged in Python: on so few numbers an operation of tensors costs more.
    """

    def __init__(
        self, decoder: Decoder, source: Tensor, config: Decoding, ids: SpecialIds, images: Tensor | None
    ) -> None:
        self.decoder, self.config, self.ids = decoder, config, ids
        self.state = decoder.start(source, images)
        sentences, self.device = source.shape[0], source.device
        lengths = (source != ids.pad).sum(1) - 2  # without BOS and EOS
        limits = lengths * config.length_factor + config.length_extra
        self.limits: list[int] = limits.clamp(max=decoder.longest - 2).long().tolist()  # pieces of output, EOS apart
        self.never = torch.tensor([ids.pad, ids.bos], device=source.device)
        self.live = list(range(sentences))  # which sentence each live one is
        self.random = torch.Generator(self.device).manual_seed(int(source.sum()))  # of sampling
        self.prefixes: list[list[int]] = [[] for _ in range(sentences)]  # of the rows, without BOS
        self.last = torch.full((sentences,), ids.bos, device=self.device)  # (R,)
        self.scores = torch.zeros(sentences, 1, device=self.device)  # (B, k) log-probabilities of the prefixes
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def run(self) -> list[list[Hypothesis]]:
        """Extend until every sentence is done."""
        while self.live:
            self._extend()
        best = [sorted(found, key=lambda h: -h.score) for found in self.finished]
        return [found[: self.config.nbest] for found in best]

    def _extend(self) -> None:
        """One more piece for every live row."""
        log_probs, self.state = self.decoder.step(self.state, self.last)
        length = len(self.prefixes[0]) + 1  # of the candidates: EOS counts, BOS does not
        log_probs.index_fill_(1, self.never, -torch.inf)
        if length > min(self.limits):
            self._force_end(log_probs, length)
        values, columns = self._best(log_probs)
        going: dict[int, list[Candidate]] = {}
        for sentence, best in enumerate(zip(values.tolist(), columns.tolist(), strict=True)):
            unfinished = self._collect(sentence, *best, log_probs.shape[1], length)
            if unfinished and self._may_win(sentence, unfinished[0][0], length):
                going[sentence] = unfinished
        self._advance(going, values.dtype)

    def _force_end(self, log_probs: Tensor, length: int) -> None:
        """Leave only EOS to the rows whose prefix is as long as its sentence allows."""
        full = torch.tensor([limit < length for limit in self.limits], device=self.device)
        full = full.repeat_interleave(self.scores.shape[1])
        end = log_probs[full, self.ids.eos]
        log_probs[full] = -torch.inf
        log_probs[full, self.ids.eos] = end

    def _best(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """The 2k best extensions of each sentence, as `top` gives them; with sampling one, drawn.

        With one row its best alone: once that ends, nothing that goes on can win.
        """
        if self.config.sampling:
            drawn = torch.multinomial(torch.softmax(log_probs, -1), 1, generator=self.random)  # (R, 1), R = B
            return self.scores + log_probs.gather(1, drawn), drawn
        if self.config.beam == 1:
            values, pieces = greatest(log_probs)
            return self.scores + values, pieces
        return top(log_probs, self.scores, min(2 * self.config.beam, self.scores.shape[1] * log_probs.shape[1]))

    def _collect(
        self, sentence: int, scores: list[float], columns: list[int], vocabulary: int, length: int
    ) -> list[Candidate]:
        """Of a live sentence's candidates, best first, keep those that end within the first k; gives the k that do not.

        Of 2k candidates at most k end (one a row), so k others remain to go on.
        """
        first_row, beam, unfinished = sentence * self.scores.shape[1], self.config.beam, []
        for rank, (score, column) in enumerate(zip(scores, columns, strict=True)):
            row, piece = divmod(column, vocabulary)
            if piece != self.ids.eos:
                unfinished.append((score, first_row + row, piece))
            elif rank < beam and score > -math.inf:
                self._finish(sentence, score, first_row + row, length)
            if len(unfinished) == beam:
                break
        return unfinished

    def _finish(self, sentence: int, log_probability: float, row: int, length: int) -> None:
        score = log_probability / length**self.config.length_penalty
        self.finished[self.live[sentence]].append(Hypothesis(self.prefixes[row], score, log_probability))

    def _may_win(self, sentence: int, log_probability: float, length: int) -> bool:
        """Whether a live sentence goes on, whose best unfinished prefix has this probability."""
        finished = self.finished[self.live[sentence]]
        if len(finished) < self.config.beam:
            return log_probability > -math.inf
        beaten = sorted((h.score for h in finished), reverse=True)[self.config.nbest - 1]
        return bool(log_probability / length**self.config.length_penalty > beaten)

    def _advance(self, going: dict[int, list[Candidate]], dtype: torch.dtype) -> None:
        """Make the candidates of the live sentences that go on the new prefixes."""
        on = list(going)
        if len(on) < len(self.live):
            self.live, self.limits = ([each[i] for i in on] for each in (self.live, self.limits))
            if not on:
                return
            self.state = self.decoder.keep(self.state, torch.tensor(on, device=self.device))
        scores, rows, pieces = zip(*chain.from_iterable(going.values()), strict=True)
        if rows != tuple(range(len(self.prefixes))):
            self.state = self.decoder.reorder(self.state, torch.tensor(rows, device=self.device))
        self.prefixes = [[*self.prefixes[row], piece] for row, piece in zip(rows, pieces, strict=True)]
        self.last = torch.tensor(pieces, device=self.device)
        self.scores = torch.tensor(scores, dtype=dtype, device=self.device).view(len(on), -1)
