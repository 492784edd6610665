"""Profiles of a system's errors: BLEU by the length of the sentence, and accuracy by the frequency of the word."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import pyplot
from matplotlib.lines import Line2D

from nmt.config.table import Figure
from nmt.report.figures.plots import COLOURS, STYLE, TITLES, legend, save
from nmt.scoring.tokenizers import tokenizer_of

LENGTHS = (1, 6, 11, 16, 21, 31, 51)
"""First length, in words of the reference, of each class."""
FREQUENCIES = (0, 1, 10, 100, 1000, 10000)
"""First number of occurrences in the training text of each class."""
FEWEST = 10
"""Sentences, or words, that a class must have to be drawn."""
Values = dict[int, tuple[float, int]]


@dataclass
class Texts:
    """A system's translations with their references, `divided`, and how often its training text has each word."""

    translations: Sequence[str]
    references: Sequence[str]
    counts: Mapping[str, int]


def divided(lines: Iterable[str], language: str) -> Iterator[str]:
    """Yield tokenised lines with spaces between words; BLEU's tokeniser divides languages without spaces."""
    from sacrebleu.metrics.bleu import BLEU

    return map(BLEU(tokenize=tokenizer_of(language, "tokenised")).tokenizer, lines)


def bleu_by_length(texts: Texts) -> Values:
    """BLEU, and the number of sentences, of each class of `LENGTHS` by its place."""
    from sacrebleu.metrics.bleu import BLEU

    classes: dict[int, list[tuple[str, str]]] = {}
    for pair in zip(texts.translations, texts.references, strict=True):
        classes.setdefault(_place(len(pair[1].split()), LENGTHS), []).append(pair)
    metric = BLEU(tokenize="none", force=True)
    return {
        place: (metric.corpus_score([ours for ours, _ in pairs], [[theirs for _, theirs in pairs]]).score, len(pairs))
        for place, pairs in sorted(classes.items()) if place >= 0
    }  # fmt: skip


def accuracy_by_frequency(texts: Texts) -> Values:
    """Share (%) of the references' words that the translations have, and the words, of each class by its place."""
    right, total = Counter[int](), Counter[int]()
    for translation, reference in zip(texts.translations, texts.references, strict=True):
        available = Counter(translation.split())
        for word, count in Counter(reference.split()).items():
            place = _place(texts.counts.get(word, 0), FREQUENCIES)
            right[place] += min(count, available[word])
            total[place] += count
    return {place: (100 * right[place] / total[place], total[place]) for place in sorted(total)}


PROFILES: dict[str, tuple[Callable[[Texts], Values], Sequence[int], str, str]] = {
    "bleu-by-length": (bleu_by_length, LENGTHS, "words of the reference", "BLEU, tokenised"),
    "accuracy-by-frequency": (
        accuracy_by_frequency, FREQUENCIES, "occurrences of the word in training text", "words translated right (%)",
    ),
}  # fmt: skip


def draw_profile(figure: Figure, systems: Mapping[str, Texts], out: Path) -> None:
    """Draw a profile of each system as ``{out}.png`` and ``{out}.svg``; classes with few members are left out."""
    measure, classes, across, up = PROFILES[figure]
    with pyplot.rc_context(STYLE):
        canvas, axes = pyplot.subplots(figsize=(7.2, 4.4), layout="constrained")
        lines = list[Line2D]()
        for n, (system, texts) in enumerate(systems.items()):
            values = {place: value for place, (value, count) in measure(texts).items() if count >= FEWEST}
            cycle, colour = divmod(n, len(COLOURS))  # other markers where the colours begin again
            marker = "os^D"[cycle % 4]
            lines += axes.plot(list(values), list(values.values()), marker=marker, color=COLOURS[colour], label=system)
        axes.set(title=TITLES[figure], xlabel=across, ylabel=up)
        axes.set_xticks(range(len(classes)), [_name(classes, place) for place in range(len(classes))])
        axes.set_ylim(bottom=0)
        if not any(np.size(line.get_xdata()) for line in lines):
            few = f"each class has fewer than {FEWEST}: the test set is too small"
            axes.text(0.5, 0.5, few, ha="center", va="center", transform=axes.transAxes)
        legend(axes, lines)
        save(canvas, out)


def _place(value: int, classes: Sequence[int]) -> int:
    """The place of the class that a value belongs to; -1 if it is below all."""
    return bisect_right(classes, value) - 1


def _name(classes: Sequence[int], place: int) -> str:
    if place + 1 == len(classes):
        return f"{classes[place]:,} or more"
    first, last = classes[place], classes[place + 1] - 1
    return f"{first:,}" if first == last else f"{first:,}–{last:,}"
