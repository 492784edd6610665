"""Greedy and beam search over one decoder interface, for one model or an ensemble of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from nmt import runtime
from nmt.config import Decoding, SpecialIds

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
    with runtime.kernels_for(source.shape[0] * config.beam, source.device):
        return _Beams(decoder, source, config, ids, images).run()


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
    whole = vocabulary // BLOCK * BLOCK
    if log_probs.is_cuda or log_probs.numel() < FEW or width * whole < 4 * count * BLOCK:
        return (scores[..., None] + log_probs.view(sentences, width, -1)).flatten(1).topk(count)
    greatest = torch.unflatten(log_probs[:, :whole], 1, (-1, BLOCK)).amax(-1)
    if whole < vocabulary:
        greatest = torch.cat([greatest, log_probs[:, whole:].amax(1, keepdim=True)], 1)
    blocks = greatest.shape[1]
    chosen = (scores[..., None] + greatest.view(sentences, width, -1)).flatten(1).topk(count).indices  # (B, count)
    rows, pieces = chosen // blocks, (chosen % blocks * BLOCK)[..., None] + torch.arange(BLOCK)  # (B, count, BLOCK)
    columns = (rows[..., None] * vocabulary + pieces.clamp(max=vocabulary - 1)).flatten(1)
    found = log_probs.view(sentences, -1).gather(1, columns).view(pieces.shape) + scores.gather(1, rows)[..., None]
    values, places = found.masked_fill_(pieces >= vocabulary, -torch.inf).flatten(1).topk(count)
    return values, columns.gather(1, places)


class _Beams:
    """The state of a search over B live sentences, k rows each; R = B * k."""

    def __init__(
        self, decoder: Decoder, source: Tensor, config: Decoding, ids: SpecialIds, images: Tensor | None
    ) -> None:
        self.decoder, self.config, self.ids = decoder, config, ids
        self.state = decoder.start(source, images)
        sentences, self.device = source.shape[0], source.device
        lengths = (source != ids.pad).sum(1) - 2  # without BOS and EOS
        limits = lengths * config.length_factor + config.length_extra
        self.limits = limits.clamp(max=decoder.longest - 2).long()  # pieces of output, EOS apart
        self.least = int(self.limits.min()) if sentences else 0
        self.never = torch.tensor([ids.pad, ids.bos], device=source.device)
        self.live = list(range(sentences))  # which sentence each live one is
        self.random = torch.Generator(self.device).manual_seed(int(source.sum()))  # of sampling
        self.scores = torch.zeros(sentences, 1, device=self.device)  # (B, k) log-probabilities of the prefixes
        self.prefixes = torch.full((sentences, 1), ids.bos, device=self.device)  # (R, t), BOS first
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def run(self) -> list[list[Hypothesis]]:
        """Extend until every sentence is done."""
        while len(self.live):
            self._extend()
        best = [sorted(found, key=lambda h: -h.score) for found in self.finished]
        return [found[: self.config.nbest] for found in best]

    def _extend(self) -> None:
        """One more piece for every live row."""
        log_probs, self.state = self.decoder.step(self.state, self.prefixes[:, -1])
        length, width = self.prefixes.shape[1], self.scores.shape[1]  # of the candidates: EOS counts, BOS does not
        log_probs.index_fill_(1, self.never, -torch.inf)
        if length > self.least:
            self._force_end(log_probs, length, width)
        values, pieces, rows = self._candidates(log_probs)  # each (B, 2k)
        ends = pieces == self.ids.eos
        self._collect(values, rows, ends, length)
        # Of 2k candidates at most k end (one a row), so k others remain to go on.
        going = values.masked_fill(ends, -torch.inf).topk(min(self.config.beam, values.shape[1]))
        chosen = rows.gather(1, going.indices)
        on = self._not_done(going.values, length)
        self._advance(on, going.values, chosen, pieces.gather(1, going.indices))

    def _force_end(self, log_probs: Tensor, length: int, width: int) -> None:
        """Leave only EOS to the rows whose prefix is as long as its sentence allows."""
        full = (self.limits < length).repeat_interleave(width)
        end = log_probs[full, self.ids.eos]
        log_probs[full] = -torch.inf
        log_probs[full, self.ids.eos] = end

    def _candidates(self, log_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The 2k best extensions of each sentence: scores, pieces, rows extended; each (B, 2k), best first.

        With sampling one extension of each, drawn: (B, 1).
        """
        if self.config.sampling:
            drawn = torch.multinomial(
                torch.softmax(log_probs, -1), 1, generator=self.random
            )  # (R, 1), one row a sentence
            rows = torch.arange(len(drawn), device=self.device)[:, None]
            return self.scores + log_probs.gather(1, drawn), drawn, rows
        sentences, width = self.scores.shape
        vocabulary = log_probs.shape[1]
        values, columns = top(log_probs, self.scores, min(2 * self.config.beam, width * vocabulary))
        first_rows = torch.arange(sentences, device=self.device)[:, None] * width
        return values, columns % vocabulary, first_rows + columns // vocabulary

    def _collect(self, values: Tensor, rows: Tensor, ends: Tensor, length: int) -> None:
        """Keep the candidates that end within the first k."""
        within = (ends & (values > -torch.inf))[:, : self.config.beam]
        for sentence, column in within.nonzero().tolist():
            log_probability = float(values[sentence, column])
            score = log_probability / length**self.config.length_penalty
            prefix = self.prefixes[rows[sentence, column], 1:].tolist()
            self.finished[self.live[sentence]].append(Hypothesis(prefix, score, log_probability))

    def _not_done(self, going: Tensor, length: int) -> list[int]:
        """Indices of the live sentences that go on. ``going`` (B, k) scores their prefixes, best first."""
        beam, penalty, on = self.config.beam, self.config.length_penalty, []
        for sentence, (original, prefix) in enumerate(zip(self.live, going[:, 0].tolist(), strict=True)):
            found = sorted((h.score for h in self.finished[original]), reverse=True)
            hopeless = len(found) >= beam and prefix / length**penalty <= found[self.config.nbest - 1]
            if prefix > -torch.inf and not hopeless:
                on.append(sentence)
        return on

    def _advance(self, on: list[int], scores: Tensor, rows: Tensor, pieces: Tensor) -> None:
        """Make the chosen candidates of the sentences that go on the new prefixes."""
        if len(on) < len(self.live):
            self.live = [self.live[i] for i in on]
            if not on:
                return
            kept = torch.tensor(on, device=self.device)
            self.state = self.decoder.keep(self.state, kept)
            scores, rows, pieces, self.limits = (part[kept] for part in (scores, rows, pieces, self.limits))
        flat = rows.flatten()
        if not torch.equal(flat, torch.arange(len(self.prefixes), device=self.device)):
            self.state = self.decoder.reorder(self.state, flat)
        self.prefixes = torch.cat([self.prefixes[flat], pieces.flatten()[:, None]], 1)
        self.scores = scores
