"""Forced decoding: the probability that a model gives to translations that exist already."""

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmt.config.decoding import Decoding
from nmt.data.features import Pictures, no_pictures
from nmt.models.base import TranslationModel
from nmt.system.errors import ConfigError
from nmt.system.files import Json
from nmt.system.workers import parallel_map
from nmt.text.cleaner import Cleaner
from nmt.text.subwords import START, Vocabulary
from nmt.translation.translator import Translator

SCORES = 2**25
"""Maximum number of scores (positions x vocabulary) in memory at a time: 128 MiB."""
END = "</s>"


@dataclass(frozen=True)
class Likelihood:
    """What a model thinks of one translation."""

    ids: list[int]  # of the pieces, without BOS and EOS
    log_probabilities: list[float]  # of each piece, then of EOS, in nats

    @property
    def log_probability(self) -> float:
        """Log-probability of the translation with its end, in nats: 0 or less."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """Perplexity per piece, EOS counted: 1 or more."""
        return math.exp(-self.log_probability / max(1, len(self.log_probabilities)))

    def score(self, length_penalty: float = 1.0) -> float:
        """Score of search: log p / length^penalty, EOS counted, as in `Translation`."""
        return self.log_probability / math.pow(max(1, len(self.log_probabilities)), length_penalty)

    def words(self, vocabulary: Vocabulary) -> list[tuple[str, float]]:
        """Return each cleaned word with the sum of its pieces' log-probabilities; the last is ``</s>``."""
        words: list[tuple[str, float]] = []
        for piece, log_probability in zip(vocabulary.pieces(self.ids), self.log_probabilities, strict=False):
            if words and not (vocabulary.whole_words or piece.startswith(START)):
                word, before = words.pop()
                piece, log_probability = word + piece, before + log_probability
            words.append((piece, log_probability))
        words = [(word.replace(START, ""), log_probability) for word, log_probability in words]
        return words + [(END, last) for last in self.log_probabilities[-1:]]


Scored = list[Likelihood | None]
"""The likelihood of each pair; None for a translation that is longer than the model's positions."""


def score_pairs(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    pictures: Pictures = no_pictures,
    progress: Callable[[int], Any] = lambda _: None,
    report_cut: Callable[[int], Any] | None = lambda _: None,
) -> Scored:
    """Compute how probable a model finds translations of raw lines: clean, encode, and one pass of the decoder.

    Args:
        translator: the model, or ensemble.
        sources: raw lines in the model's source language.
        targets: the raw translation of each line.
        pictures, progress, report_cut: see `score_pieces`; so for what it returns and raises.
    """
    cleaner = Cleaner(translator.cleaning, translator.languages[1])
    cleaner.prepare(targets)
    lines, cleaned = [translator.clean(line) for line in sources], [cleaner(line) for line in targets]
    return score_pieces(translator, lines, translator.target.encode(cleaned), pictures, progress, report_cut)


def score_pieces(
    translator: Translator,
    lines: Sequence[str],
    ids: Sequence[Sequence[int]],
    pictures: Pictures = no_pictures,
    progress: Callable[[int], Any] = lambda _: None,
    report_cut: Callable[[int], Any] | None = lambda _: None,
) -> Scored:
    """Compute how probable a model finds given pieces, such as those of `Translation`.

    The log-probability is the one that search finds for these pieces. Both lines empty: the probability is 1, because
    an empty line always has an empty translation.

    Args:
        translator: the model, or ensemble.
        lines: cleaned source sentences; pieces beyond the model's positions are cut off, as in translation.
        ids: pieces of each translation, without BOS and EOS.
        pictures: the pictures of the lines, for a multimodal model; blank pictures by default.
        progress: called with the number of pairs since the previous call.
        report_cut: called with the number of sources that were cut; None: a warning says so.

    Returns:
        The likelihood of each pair, in input order; None for a translation with more pieces than the model has
        positions for.

    Raises:
        ConfigError: there are not as many translations as lines.
    """
    if len(lines) != len(ids):
        raise ConfigError(f"expected one translation for each of {len(lines)} lines, got {len(ids)}")
    limit = translator.model.longest - 2
    encoded = translator.encode_cut(lines, report_cut)
    results: Scored = [None if len(row) > limit else Likelihood(list(row), []) for row in ids]

    def score_batch(indices: list[int]) -> list[list[float]]:
        source, target = (translator.pad([rows[i] for i in indices]) for rows in (encoded, ids))
        shown = pictures(np.array(indices))
        images = None if shown is None else shown.to(translator.device)
        return _score(translator.models, source, target, [len(ids[i]) + 1 for i in indices], images)

    lengths = [max(map(len, pair)) for pair in zip(encoded, ids, strict=True)]
    scorable = {i: length for i, length in enumerate(lengths) if length and len(ids[i]) <= limit}
    batches = translator.batches(scorable, Decoding())
    with closing(parallel_map(score_batch, batches, translator.workers)) as scored_batches:
        for indices, scored in zip(batches, scored_batches, strict=True):
            for i, log_probabilities in zip(indices, scored, strict=True):
                results[i] = Likelihood(list(ids[i]), log_probabilities)
            progress(len(indices))
    return results


@torch.inference_mode()
def _score(
    models: Sequence[TranslationModel], source: Tensor, target: Tensor, lengths: Sequence[int], images: Tensor | None
) -> list[list[float]]:
    """Return the log-probabilities of the target pieces and EOS of each pair; of several models: of their mean.

    Args:
        models: at least one.
        source: padded ids (B, S).
        target: padded ids (B, T), BOS first.
        lengths: number of pieces to predict in each row, EOS included.
        images: features of the pictures (B, R, C), for multimodal models.
    """
    sizes = torch.tensor(lengths, device=target.device)
    real = torch.arange(target.shape[1] - 1, device=target.device) < sizes[:, None]  # (B, T - 1)
    expected = target[:, 1:][real]  # (N,)
    by_model = []
    for model in models:
        hidden = model(source, target[:, :-1], images)[real]  # (N, D)
        rows = max(1, SCORES // model.projection.out_features)
        parts = zip(torch.split(hidden, rows), torch.split(expected, rows), strict=True)
        by_model.append(torch.cat([model.log_probabilities(h).gather(1, e[:, None])[:, 0].double() for h, e in parts]))
    mean = torch.stack(by_model).logsumexp(0) - math.log(len(models))
    return [part.tolist() for part in torch.split(mean.cpu(), list(lengths))]


def totals(scored: Scored, targets: Sequence[str]) -> Json:
    """Summarise the likelihoods of pairs.

    Args:
        scored: the result of `score_pairs`.
        targets: the raw translations.

    Returns:
        ``pairs``; ``too_long``, the number of pairs without a likelihood, which the other numbers leave out;
        ``tokens`` (pieces, EOS included), ``log_probability`` (nats), ``perplexity`` (per token), ``characters`` (of
        the raw translations, spaces at their ends left out) and ``bits_per_character``, None without any.
    """
    kept = [(likelihood, target.strip()) for likelihood, target in zip(scored, targets, strict=True) if likelihood]
    tokens = sum(len(likelihood.log_probabilities) for likelihood, _ in kept)
    characters = sum(len(target) for _, target in kept)
    total = math.fsum(likelihood.log_probability for likelihood, _ in kept)
    return {
        "pairs": len(scored), "too_long": len(scored) - len(kept), "tokens": tokens, "log_probability": total,
        "perplexity": math.exp(-total / tokens) if tokens else None, "characters": characters,
        "bits_per_character": -total / math.log(2) / characters if characters else None,
    }  # fmt: skip
