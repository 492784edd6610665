"""Measures on the validation set during training: loss, accuracy, BLEU of greedy translations."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from nmt.config.decoding import Decoding
from nmt.data.batches import Parallel
from nmt.data.encoded import read_meta
from nmt.data.features import PictureLoader
from nmt.models.base import TranslationModel
from nmt.models.loss import cross_entropy
from nmt.models.search import search
from nmt.system.errors import DataError
from nmt.system.lines import read_lines
from nmt.text.characters import letters_apart
from nmt.text.languages import is_spaceless
from nmt.text.subwords import Vocabulary
from nmt.training.distributed import SINGLE_PROCESS, Processes

BATCH = {"cpu": "8192 tokens", "cuda": "32768 tokens"}
GREEDY = Decoding(beam=1)


class Validation:
    """The validation set of an encoded corpus and a sample of its training set, divided among the processes."""

    def __init__(
        self,
        encoded: Path,
        device: torch.device,
        longest: int,
        sample: Parallel | None = None,
        pictures: PictureLoader | None = None,
        processes: Processes = SINGLE_PROCESS,
    ) -> None:
        self._device, self._processes = device, processes
        self.pairs = Parallel(encoded, "valid", longest, pictures)
        self._vocabulary = Vocabulary(encoded / "target.model")
        lines = list(read_lines(encoded / "valid.references.txt"))
        if len(lines) != (count := len(self.pairs.source.lengths)):
            raise DataError(
                f"{encoded}/valid.references.txt: expected {count} lines, got {len(lines)}; run `nmt encode` again"
            )
        self._references = [lines[i] for i in self.pairs.indices]
        self._sample = sample  # of the training set
        pairs = read_meta(encoded)["languages"].split(",")
        self._spaceless = any(is_spaceless(pair.split("-")[1]) for pair in pairs)

    @torch.inference_mode()
    def loss(self, model: TranslationModel) -> tuple[float, float]:
        """Return the negative log-likelihood in nats per piece, EOS included, and the share of pieces ranked first."""
        model.eval()
        sums = torch.zeros(3, dtype=torch.float64)
        for indices in self._processes.share(self.pairs.batches(BATCH[self._device.type])):
            batch = self.pairs.batch(indices).to(self._device)
            outputs = model(batch.source, batch.target[:, :-1], batch.images)
            hidden = outputs.flatten(0, 1).index_select(0, batch.positions)
            layer = model.projection
            _, nll, correct = cross_entropy(hidden, layer.weight, batch.expected, bias=layer.bias)
            sums += torch.tensor([float(nll), float(correct), batch.pieces])
        model.train()
        self._processes.sum(sums)
        nll_sum, correct_sum, pieces = sums.tolist()
        return nll_sum / pieces, correct_sum / pieces

    def bleu(self, model: TranslationModel) -> float:
        """Return BLEU of greedy translations, on tokenised text; letters of scripts without spaces count as words."""
        return self._bleu(self._translate(model, self.pairs), self._references)

    def train_bleu(self, model: TranslationModel) -> float | None:
        """Return the same for the sample of training sentences; their references are decoded from their pieces."""
        if self._sample is None:
            return None
        references = self._vocabulary.decode([self._sample.target.pieces(i) for i in self._sample.indices])
        return self._bleu(self._translate(model, self._sample), references)

    def _bleu(self, hypotheses: Sequence[str], references: Sequence[str]) -> float:
        if self._spaceless:
            hypotheses, references = (list(map(letters_apart, lines)) for lines in (hypotheses, references))
        return bleu(hypotheses, references)

    def _translate(self, model: TranslationModel, pairs: Parallel) -> list[str]:
        """Translate greedily, in the order of ``pairs.indices``."""
        model.eval()
        translations: dict[int, list[int]] = {}
        for indices in self._processes.share(pairs.batches(BATCH[self._device.type])):
            batch = pairs.batch(indices).to(self._device)
            best = search(model, batch.source, GREEDY, self._vocabulary.ids, batch.images)
            found = (hypotheses[0].ids if hypotheses else [] for hypotheses in best)  # without, all are NaN
            translations.update(zip(map(int, indices), found, strict=True))
        model.train()
        merged = self._processes.merge(translations)
        return self._vocabulary.decode([merged[int(i)] for i in pairs.indices])


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Return corpus BLEU (Papineni and others 2002) on whitespace tokens, 0 to 100, zero counts smoothed exponentially.

    It equals sacrebleu with ``--tokenize none``, which a test checks. Training does not depend on sacrebleu.
    """
    matches, totals = [0] * 4, [0] * 4
    hypothesis_length = reference_length = 0
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        ours, theirs = hypothesis.split(), reference.split()
        hypothesis_length, reference_length = hypothesis_length + len(ours), reference_length + len(theirs)
        for n in range(1, 5):
            counts = Counter(_ngrams(ours, n))
            matches[n - 1] += (counts & Counter(_ngrams(theirs, n))).total()
            totals[n - 1] += counts.total()
    if not matches[0] or not all(totals):
        return 0.0
    zeros, logs = 0, 0.0
    for match, total in zip(matches, totals, strict=True):
        zeros += match == 0
        logs += math.log(match / total) if match else -math.log(2**zeros * total)
    return 100 * math.exp(logs / 4 + min(0.0, 1 - reference_length / hypothesis_length))


def _ngrams(words: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[i:] for i in range(n)), strict=False)
