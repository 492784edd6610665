"""Greedy and beam search through one decoder interface, for a single model or an ensemble."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from nmt.config.data import SpecialIds
from nmt.config.decoding import Decoding
from nmt.models.base import Decoder

BLOCK = 64  # columns per block of `top`: a compromise between few blocks and few columns in each
LEAST_ATTENTION = 1e-6  # a source piece with less counts as this much in the coverage penalty
SPREAD = 2654435761  # spreads seeds over all 32 bits that PyTorch's generator uses (Knuth's multiplicative hash)
FEW = 2**15  # with fewer numbers than this, examining all of them is faster than using blocks


class Ensemble(Decoder):
    """Several decoders as one decoder, with the mean of their probabilities."""

    def __init__(self, decoders: Sequence[Decoder]) -> None:
        self.decoders = decoders

    @property
    def longest(self) -> int:
        """Smallest limit of the members."""
        return min(decoder.longest for decoder in self.decoders)

    def start(self, source: Tensor, images: Tensor | None = None) -> list[Any]:
        """Start every member; return one state per member."""
        return [decoder.start(source, images) for decoder in self.decoders]

    def step(self, state: list[Any], last: Tensor) -> tuple[Tensor, list[Any]]:
        """Make a step with every member; return the log of the mean probabilities (R, V) and the new states."""
        steps = [decoder.step(part, last) for decoder, part in zip(self.decoders, state, strict=True)]
        mean = torch.stack([log_probs for log_probs, _ in steps]).logsumexp(0) - torch.tensor(len(steps)).log()
        return mean, [part for _, part in steps]

    def reorder(self, state: list[Any], rows: Tensor) -> list[Any]:
        """Reorder the rows of every member."""
        return [decoder.reorder(part, rows) for decoder, part in zip(self.decoders, state, strict=True)]

    def keep(self, state: list[Any], sentences: Tensor) -> list[Any]:
        """Keep the sentences in every member."""
        return [decoder.keep(part, sentences) for decoder, part in zip(self.decoders, state, strict=True)]

    def attentions(self, source: Tensor, target: Tensor, images: Tensor | None = None) -> dict[str, Tensor]:
        """Compute the mean of the members' attention weights, by sub-layer."""
        weights = [decoder.attentions(source, target, images) for decoder in self.decoders]
        return {part: torch.stack([by_part[part].float() for by_part in weights]).mean(0) for part in weights[0]}


@dataclass(frozen=True)
class Hypothesis:
    """Finished translation."""

    ids: list[int]  # without BOS and EOS
    score: float  # log_probability / length^length_penalty, plus length reward and coverage penalty
    log_probability: float  # of the pieces and EOS, in nats


@torch.inference_mode()
def search(
    decoder: Decoder,
    source: Tensor,
    config: Decoding,
    ids: SpecialIds,
    images: Tensor | None = None,
    prefix: Sequence[int] = (),
    tags: int = 0,
) -> list[list[Hypothesis]]:
    """Translate a batch.

    The search keeps the ``beam`` best unfinished prefixes of each sentence. A candidate with EOS among the best
    ``beam`` candidates of its sentence becomes a finished hypothesis. A sentence is done if it has ``beam`` finished
    hypotheses, and its best unfinished prefix, scored as if it ended now, is below the ``nbest`` best of them. Counting
    hypotheses alone would stop too early, at improbable short translations. A sentence is also done if no continuation
    can be among the ``nbest`` best. At the length limit, EOS is forced. The length includes EOS. A hypothesis counts
    the coverage penalty, an unfinished prefix does not.

    Args:
        decoder: model or `Ensemble`.
        source: padded ids (B, S).
        config: settings; beam 1 is greedy search, or with sampling it draws each piece at random, with a seed that
            depends only on the batch and ``config.seed``.
        ids: special ids.
        images: features of the pictures (B, R, C), for multimodal models.
        prefix: pieces that every hypothesis begins with; ``config.prefix`` as text is not used here.
        tags: number of pieces that begin each source and name the target language; they need no coverage.

    Returns:
        The ``nbest`` hypotheses of each sentence, best first; with ``config.mbr`` all samples.
    """
    beams = _Beams(decoder, source, config, ids, images, tags)
    beams.force(prefix)
    count = config.samples if config.mbr else config.nbest
    return [sorted(hypotheses, key=lambda h: -h.score)[:count] for hypotheses in beams.run()]


def _block_maxima(log_probs: Tensor) -> Tensor:
    """Compute the maximum of each block of `BLOCK` columns, (R, V) to (R, blocks); the last block may be shorter."""
    whole = log_probs.shape[1] // BLOCK * BLOCK
    maxima = torch.unflatten(log_probs[:, :whole], 1, (-1, BLOCK)).amax(-1)
    if whole == log_probs.shape[1]:
        return maxima
    return torch.cat([maxima, log_probs[:, whole:].amax(1, keepdim=True)], 1)


def greatest(log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maximum of each row (R, V) and its column, both (R, 1); uses blocks as `top` does."""
    if log_probs.is_cuda or log_probs.numel() < FEW:
        return log_probs.max(1, keepdim=True)
    block = _block_maxima(log_probs).argmax(1, keepdim=True)
    columns = (block * BLOCK + torch.arange(BLOCK)).clamp(max=log_probs.shape[1] - 1)  # (R, BLOCK)
    values, indices = log_probs.gather(1, columns).max(1, keepdim=True)
    return values, columns.gather(1, indices)


def top(log_probs: Tensor, scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the best extensions of each sentence's prefixes, best first.

    `Tensor.topk` examines every number one by one on the CPU. To be faster, this function applies it first to the
    maxima of blocks of columns, then only to the blocks with the greatest maxima. These contain the greatest numbers.

    Args:
        log_probs: log-probabilities of the next pieces (B * k, V).
        scores: log-probabilities of the prefixes (B, k).
        count: number of extensions per sentence, at most k * V.

    Returns:
        Log-probabilities of the extended prefixes (B, count), and their columns in (B, k * V).
    """
    (sentences, width), vocabulary = scores.shape, log_probs.shape[1]
    if log_probs.is_cuda or log_probs.numel() < FEW or width * vocabulary < 4 * count * BLOCK:
        return (scores[..., None] + log_probs.view(sentences, width, -1)).flatten(1).topk(count)
    maxima = _block_maxima(log_probs)
    blocks = maxima.shape[1]
    chosen = (scores[..., None] + maxima.view(sentences, width, -1)).flatten(1).topk(count).indices  # (B, count)
    rows, pieces = chosen // blocks, (chosen % blocks * BLOCK)[..., None] + torch.arange(BLOCK)  # (B, count, BLOCK)
    columns = (rows[..., None] * vocabulary + pieces.clamp(max=vocabulary - 1)).flatten(1)
    # With a padded vocabulary, `reshape` copies the rows. The faster projection saves more than this costs.
    totals = log_probs.reshape(sentences, -1).gather(1, columns).view(pieces.shape) + scores.gather(1, rows)[..., None]
    values, indices = totals.masked_fill_(pieces >= vocabulary, -torch.inf).flatten(1).topk(count)
    return values, columns.gather(1, indices)


def draw(log_probs: Tensor, config: Decoding, random: torch.Generator) -> Tensor:
    """Draw a piece for each row (R, V) by the temperature, then ``top_k``, then ``top_p``; return columns (R, 1)."""
    scores = log_probs if config.temperature == 1 else log_probs / config.temperature
    # A row of NaN, which broken weights give, must not raise an error here: `search` then finds no hypothesis.
    probabilities = torch.softmax(scores, -1).nan_to_num_(1.0)
    if config.top_k is None and config.top_p == 1:
        return torch.multinomial(probabilities, 1, generator=random)
    probabilities, columns = probabilities.sort(dim=-1, descending=True, stable=True)
    if config.top_k is not None:
        probabilities[:, config.top_k :] = 0
    if config.top_p < 1:
        before = probabilities.cumsum(-1) - probabilities
        beyond = before >= config.top_p * probabilities.sum(-1, keepdim=True)
        probabilities[:, 1:][beyond[:, 1:]] = 0  # the first piece stays: a tiny top_p is 0 in float32
    return columns.gather(1, torch.multinomial(probabilities, 1, generator=random))


def repeated(ids: Sequence[int], n: int) -> list[int]:
    """Return the pieces that would complete an n-gram of ``ids`` again."""
    last = list(ids[len(ids) - n + 1 :])
    return [ids[i + n - 1] for i in range(len(ids) - n + 1) if list(ids[i : i + n - 1]) == last]


Candidate = tuple[float, int, int]
"""A prefix and its next piece: log-probability of both, row of the prefix, piece."""


class _Beams:
    """State of a search over B live sentences with k rows each; R = B * k.

    Candidates are processed in Python, because tensor operations cost more for so few numbers.
    """

    def __init__(
        self, decoder: Decoder, source: Tensor, config: Decoding, ids: SpecialIds, images: Tensor | None, tags: int
    ) -> None:
        self.decoder, self.config, self.ids, self.device, self.tags = decoder, config, ids, source.device, tags
        self.state = decoder.start(source, images)
        random_seed = int(source.sum()) + config.seed * SPREAD if config.sampling else 0
        if config.samples > 1:  # a row for each sample, which is a sentence of its own from here on
            rows = torch.arange(len(source), device=self.device).repeat_interleave(config.samples)
            self.state = decoder.reorder(decoder.keep(self.state, rows), rows)
            source, images = source[rows], None if images is None else images[rows]
        self.source, self.images, sentences = source, images, len(source)
        lengths = (source[:, 1:] != ids.pad).sum(1) - 1  # without BOS, which may be padding, and EOS
        limits = (lengths * config.length_factor + config.length_extra).clamp(min=config.min_length)
        self.limits: list[int] = limits.clamp(max=decoder.longest - 2).long().tolist()  # output pieces without EOS
        self.restricted = bool(config.min_length or config.no_repeat_ngram)
        self.greedy = config.beam == 1 and not config.sampling and not self.restricted
        self.forbidden = torch.tensor([ids.pad, ids.bos], device=source.device)
        self.live = list(range(sentences))  # index in the batch of each live sentence
        self.random = torch.Generator(self.device).manual_seed(random_seed)  # for sampling
        self.prefixes: list[list[int]] = [[] for _ in range(sentences)]  # ids of each row, without BOS
        self.last = torch.full((sentences,), ids.bos, device=self.device)  # (R,) last id of each row
        self.scores = torch.zeros(sentences, 1, device=self.device)  # (B, k) log-probabilities of the prefixes
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def force(self, prefix: Sequence[int]) -> None:
        """Begin every sentence with these pieces, before `run`."""
        for piece in prefix:
            log_probs, self.state = self.decoder.step(self.state, self.last)
            self.last = torch.full_like(self.last, piece)
            self.scores = self.scores + log_probs[:, piece, None]
        self.prefixes = [list(prefix) for _ in self.prefixes]
        self.limits = [max(limit, len(prefix)) for limit in self.limits]

    def run(self) -> list[list[Hypothesis]]:
        """Extend the prefixes until every sentence is done; return the hypotheses of each, in no order."""
        while self.live:
            if self.greedy and len(self.live) == 1:
                self._finish_alone()
            else:
                self._extend()
        size = self.config.samples
        return [list(chain.from_iterable(self.finished[i : i + size])) for i in range(0, len(self.finished), size)]

    def _finish_alone(self) -> None:
        """Finish greedy search for the last live sentence, where no candidates compete and no rows move."""
        eos, limit, ids, score = self.ids.eos, self.limits[0], self.prefixes[0], float(self.scores)
        while score > -math.inf:  # false for NaN
            log_probs, self.state = self.decoder.step(self.state, self.last)
            if len(ids) < limit:
                log_probs.index_fill_(1, self.forbidden, -torch.inf)
                value, column = greatest(log_probs)
                score, piece, self.last = score + float(value), int(column), column[0]
            else:
                score, piece = score + float(log_probs[0, eos]), eos
            if piece == eos:
                if score > -math.inf:
                    self._finish(0, score, 0, len(ids) + 1)
                break
            ids.append(piece)
        self.live = []

    def _extend(self) -> None:
        """Extend every live row by one piece."""
        log_probs, self.state = self.decoder.step(self.state, self.last)
        length = len(self.prefixes[0]) + 1  # length of the candidates, with EOS, without BOS
        log_probs.index_fill_(1, self.forbidden, -torch.inf)
        if self.restricted:
            self._restrict(log_probs, length)
        if length > min(self.limits):
            self._force_end(log_probs, length)
        values, columns = self._best(log_probs)
        continued: dict[int, list[Candidate]] = {}
        for sentence, best in enumerate(zip(values.tolist(), columns.tolist(), strict=True)):
            unfinished = self._collect(sentence, *best, log_probs.shape[1], length)
            if unfinished and self._can_improve(sentence, unfinished[0][0], length):
                continued[sentence] = unfinished
        self._advance(continued, values.dtype)

    def _restrict(self, log_probs: Tensor, length: int) -> None:
        """Forbid EOS before ``min_length`` and repeated n-grams; a row without any other piece may still end."""
        end = log_probs[:, self.ids.eos].clone()
        if length <= self.config.min_length:
            log_probs[:, self.ids.eos] = -torch.inf
        if n := self.config.no_repeat_ngram:
            places = [(row, piece) for row, prefix in enumerate(self.prefixes) for piece in repeated(prefix, n)]
            if places:
                rows, pieces = torch.tensor(places, device=self.device).unbind(1)
                log_probs[rows, pieces] = -torch.inf
        stuck = log_probs.amax(1) == -torch.inf
        log_probs[stuck, self.ids.eos] = end[stuck]

    def _force_end(self, log_probs: Tensor, length: int) -> None:
        """Allow only EOS in the rows that have reached the length limit of their sentence."""
        at_limit = torch.tensor([limit < length for limit in self.limits], device=self.device)
        at_limit = at_limit.repeat_interleave(self.scores.shape[1])
        end = log_probs[at_limit, self.ids.eos]
        log_probs[at_limit] = -torch.inf
        log_probs[at_limit, self.ids.eos] = end

    def _best(self, log_probs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the 2k best extensions of each sentence in the form of `top`; with sampling, one random extension.

        Greedy search needs only the best extension: if it is EOS, no unfinished prefix can be better.
        """
        if self.config.sampling:
            pieces = draw(log_probs, self.config, self.random)  # (R, 1), R = B
            return self.scores + log_probs.gather(1, pieces), pieces
        if self.config.beam == 1:
            values, pieces = greatest(log_probs)
            return self.scores + values, pieces
        return top(log_probs, self.scores, min(2 * self.config.beam, self.scores.shape[1] * log_probs.shape[1]))

    def _collect(
        self, sentence: int, scores: list[float], columns: list[int], vocabulary: int, length: int
    ) -> list[Candidate]:
        """Finish the candidates with EOS among the first k of a live sentence; return the best k others.

        The candidates are sorted, best first. Of 2k candidates, at most k have EOS (one per row), so at least k others
        remain.
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
        score = self._score(log_probability, length)
        if self.config.coverage_penalty:
            score += self.config.coverage_penalty * self._coverage(self.live[sentence], self.prefixes[row])
        self.finished[self.live[sentence]].append(Hypothesis(self.prefixes[row], score, log_probability))

    def _coverage(self, sentence: int, ids: list[int]) -> float:
        """Return the sum over the source pieces of log min(attention, 1), by the last layer's mean over its heads."""
        length = 1 + int((self.source[sentence, 1:] != self.ids.pad).sum())
        source, target = self.source[sentence, None, :length], torch.tensor([[self.ids.bos, *ids]], device=self.device)
        image = None if self.images is None else self.images[sentence : sentence + 1]
        weights = self.decoder.attentions(source, target, image)["source"][0, -1].mean(0)  # (T, S)
        attention = weights.double().sum(0)[1 + self.tags : -1]  # without BOS, tag and EOS
        return float(attention.clamp(LEAST_ATTENTION, 1).log().sum())

    def _can_improve(self, sentence: int, log_probability: float, length: int) -> bool:
        """Return whether a live sentence, whose best unfinished prefix has this log-probability, is not done.

        Before ``beam`` hypotheses are finished, it is done if no continuation can win, not even the longest one without
        any loss of probability. This changes no result.
        """
        finished, nbest = self.finished[self.live[sentence]], self.config.nbest
        if len(finished) < nbest:
            return log_probability > -math.inf
        threshold = sorted((h.score for h in finished), reverse=True)[nbest - 1]
        if len(finished) >= self.config.beam:
            return self._score(log_probability, length) > threshold
        return self._bound(log_probability, length, self.limits[sentence] + 1) > threshold

    def _bound(self, log_probability: float, shortest: int, longest: int) -> float:
        """Return a score that no hypothesis of these lengths, with at most this log-probability, exceeds."""
        power, reward = self.config.length_penalty, self.config.length_reward
        divisor = max(shortest**power, longest**power)
        return log_probability / divisor + max(reward * shortest, reward * longest)

    def _score(self, log_probability: float, length: int) -> float:
        """Return the score of a hypothesis of ``length`` pieces with EOS, without its coverage penalty."""
        return log_probability / length**self.config.length_penalty + self.config.length_reward * length

    def _advance(self, continued: dict[int, list[Candidate]], dtype: torch.dtype) -> None:
        """Replace the prefixes by the candidates of the continued sentences and remove the other sentences."""
        kept = list(continued)
        if len(kept) < len(self.live):
            self.live, self.limits = ([values[i] for i in kept] for values in (self.live, self.limits))
            if not kept:
                return
            self.state = self.decoder.keep(self.state, torch.tensor(kept, device=self.device))
        scores, rows, pieces = zip(*chain.from_iterable(continued.values()), strict=True)
        if rows != tuple(range(len(self.prefixes))):
            self.state = self.decoder.reorder(self.state, torch.tensor(rows, device=self.device))
        self.prefixes = [[*self.prefixes[row], piece] for row, piece in zip(rows, pieces, strict=True)]
        self.last = torch.tensor(pieces, device=self.device)
        self.scores = torch.tensor(scores, dtype=dtype, device=self.device).view(len(kept), -1)
