"""Word alignments of given translations, from the attention of one layer."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.data.alignments import parse_links
from nmt.system.errors import ConfigError, DataError
from nmt.system.lines import read_lines
from nmt.text.subwords import START, Vocabulary
from nmt.translation.translator import Translation, Translator

Links = set[tuple[int, int]]
"""Pairs of a source word and a target word, counted from 0."""


@dataclass(frozen=True)
class Alignment:
    """The aligned words of one pair, as the model sees them: cleaned, and without BOS and EOS."""

    source: list[str]
    target: list[str]
    links: list[Links]  # of each layer; empty sets for a translation longer than the model's positions


def align(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    progress: Callable[[int], Any] = lambda _: None,
    head: int | None = None,
) -> list[Alignment]:
    """Align the words of raw lines and their translations.

    Each target word gets one link: to the source word with the most attention while the model wrote the target word.
    The attention is that of one head of the decoder over the source, or the mean of all heads, and the mean over the
    pieces of the target word. The attention over a source word is the sum over its pieces.

    Args:
        translator: a model with attention, or an ensemble of them.
        sources: raw lines in the model's source language.
        targets: the raw translation of each line.
        progress: called with 1 after each pair.
        head: number of the head, from 1; None for the mean of all.

    Raises:
        ConfigError: the model has no attention, or no such head.
    """
    if not translator.has_attention:
        raise ConfigError("nmt align: expected a model with attention, got one without; name another")
    heads = translator.model.config.source_attentions[1]
    if head and head > heads:
        raise ConfigError(f"--head: expected 1 to {heads}, got {head}")
    alignments, cleaned = [], [translator.clean(source) for source in sources]
    translator.encode_cut(cleaned)  # warns
    for source, target in zip(cleaned, targets, strict=True):
        alignments.append(_align(translator, source, translator.clean(target, 1), head))
        progress(1)
    return alignments


def _align(translator: Translator, source: str, target: str, head: int | None) -> Alignment:
    """Align the words of a cleaned pair by each layer."""
    limit = translator.model.longest - 2
    [ids], [source_ids] = translator.target.encode([target]), translator.encode([source])
    tags = len(translator.source.tag(translator.languages[1]))
    source_words = _words(translator.source, source_ids[tags:limit])
    target_words = _words(translator.target, ids)
    if len(ids) > limit or not ids or not source_ids:
        return Alignment(_texts(source_words), _texts(target_words), [set()])
    heads = translator.attentions(source, Translation("", 0.0, ids)).weights["source"]  # (L, H, T + 1, S + 2)
    attention = heads[:, head - 1] if head else heads.mean(1)
    by_word = membership(target_words, mean=True) @ attention[:, :-1, 1 + tags : -1] @ membership(source_words).T
    links = [{(i, j) for j, i in enumerate(layer)} for layer in by_word.argmax(-1).tolist()]
    return Alignment(_texts(source_words), _texts(target_words), links)


def _words(vocabulary: Vocabulary, ids: Sequence[int]) -> list[list[str]]:
    """Group the pieces of a sentence by word."""
    words: list[list[str]] = []
    for piece in vocabulary.labels(ids):
        if vocabulary.whole_words or piece.startswith(START) or not words:
            words.append([])
        words[-1].append(piece)
    return words


def _texts(words: Sequence[Sequence[str]]) -> list[str]:
    return ["".join(word).replace(START, "") for word in words]


def membership(words: Sequence[Sequence[str]], mean: bool = False) -> Tensor:
    """Return a matrix (words, pieces) that sums over the pieces of a word, or averages them."""
    sizes = torch.tensor([len(word) for word in words])
    matrix = torch.eye(len(words)).repeat_interleave(sizes, 1)
    return matrix / sizes[:, None] if mean else matrix


def read_pharaoh(path: Path, alignments: Sequence[Alignment]) -> list[Links]:
    """Read the alignments of the same pairs from a file, one pair a line: ``0-0 1-2``.

    Raises:
        DataError: the file has another number of lines, or a link is malformed or has no such word.
    """
    lines = list(read_lines(path))
    if len(lines) != len(alignments):
        raise DataError(
            f"{path}: expected the alignments of {len(alignments):,} pairs, one a line, got {len(lines):,} lines; "
            "give the file of the same text"
        )
    return [
        parse_links(line, f"{path}, line {n}", (len(a.source), len(a.target)), ", which --json shows")
        for n, (line, a) in enumerate(zip(lines, alignments, strict=True), 1)
    ]


def error_rate(found: Sequence[Links], gold: Sequence[Links]) -> float:
    """Return the alignment error rate (Och and Ney 2003) against sure links, 0 to 1."""
    shared = sum(len(ours & theirs) for ours, theirs in zip(found, gold, strict=True))
    total = sum(map(len, found)) + sum(map(len, gold))
    return 1 - 2 * shared / total if total else 0.0


def likelihood(found: Sequence[tuple[Alignment, Links]]) -> float:
    """Return how well the linked source words tell the target words: nats per link, 0 at best.

    This is the logarithm of IBM model 1's translation probability (Brown and others 1993) of each link, estimated from
    the counts of all other links (leaving one out, Ney and others 1995). It is smoothed by the frequency of the target
    word. Wrong links join words at random, so they are improbable.
    """
    links = [(alignment.source[i], alignment.target[j]) for alignment, pairs in found for i, j in sorted(pairs)]
    both, sources, targets = Counter(links), Counter(source for source, _ in links), Counter(word for _, word in links)
    logs = (math.log((both[link] - 1 + targets[link[1]] / len(links)) / sources[link[0]]) for link in links)
    return math.fsum(logs) / max(len(links), 1)


def choose_layer(alignments: Sequence[Alignment], gold: Sequence[Links] | None = None) -> tuple[int, list[float]]:
    """Choose the layer, from 1, with the best links: of equally good ones the last.

    Args:
        alignments: aligned pairs.
        gold: the true links of the pairs.

    Returns:
        The layer, and what it was chosen by, of each layer: the alignment error rate, or without ``gold`` the
        `likelihood`.
    """
    numbers = range(1, max((len(alignment.links) for alignment in alignments), default=1) + 1)
    by_layer = [[links_of(alignment, number) for alignment in alignments] for number in numbers]
    if gold is not None:
        rates = [error_rate(links, gold) for links in by_layer]
        return min(reversed(numbers), key=lambda n: rates[n - 1]), rates
    likelihoods = [likelihood(list(zip(alignments, links, strict=True))) for links in by_layer]
    return max(reversed(numbers), key=lambda n: likelihoods[n - 1]), likelihoods


def check_layer(layer: int, alignments: Sequence[Alignment]) -> None:
    """Raise ConfigError unless the alignments have this layer, from 1."""
    layers = max((len(alignment.links) for alignment in alignments), default=1)
    if layer > layers:
        raise ConfigError(f"--layer: expected 1 to {layers}, got {layer}")


def links_of(alignment: Alignment, layer: int) -> Links:
    """Return the links by a layer, from 1."""
    return alignment.links[layer - 1] if layer <= len(alignment.links) else set()


def pharaoh(links: Links) -> str:
    """Return links as one line: ``0-0 1-2``, sorted by the source word."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))
