"""A model directory and text in, text out: the library, the command line and the pipeline use the same."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from nmt.config.data import Cleaning
from nmt.config.decoding import Decoding
from nmt.config.models import ModelConfig, Shown
from nmt.config.types import amount
from nmt.data.batches import cut
from nmt.data.features import Pictures, no_pictures, of_split
from nmt.models.base import TranslationModel
from nmt.models.build import build
from nmt.models.search import Decoder, Ensemble, Hypothesis, search
from nmt.system import machine
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import (
    read_json,
)
from nmt.system.workers import shared_out
from nmt.text.subwords import SIDES, load_vocabularies
from nmt.training.checkpoint import load_weights, verified_weights

SHOWN_ERROR = 200  # characters of another library's error that a message repeats
PART = 2048  # tokens of a batch on the CPU: more are no faster, and fewer batches cannot be shared out


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence."""

    text: str  # tokenised, as the model wrote it; detokenised where raw text was translated
    score: float  # log p / length^penalty
    ids: list[int]  # its pieces, without BOS and EOS


@dataclass(frozen=True)
class Attentions:
    """Where a model looked while it wrote a translation."""

    source: list[str]  # pieces of the source, BOS and EOS included
    target: list[str]  # pieces of the translation, BOS and EOS included
    weights: dict[str, Tensor]
    """By sub-layer (layers, heads, rows, columns), as `TranslationModel.attentions` names them: ``source`` and
    ``decoder`` have a row for each piece written, ``target[1:]``; ``decoder`` a column for each piece fed,
    ``target[:-1]``; the other columns and rows are ``source``. Of a model that looks at pictures also ``image``, with a
    row for each piece written and a column for each region. Empty for a model without attention."""


@contextmanager
def fitting(folder: Path) -> Iterator[None]:
    """Turn what goes wrong with files of a model directory that are not as expected into one DataError."""
    try:
        yield
    except (ConfigError, DataError):
        raise
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        told = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        problem = f"{type(error).__name__}: {' '.join(told.split())[:SHOWN_ERROR]}"
        raise DataError(
            f"{folder}: expected a model directory, got one whose files do not fit ({problem}); "
            "make it again with `nmt average`"
        ) from None


def _of_members(weights: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """The weights of each model of an ensemble, whose names begin with its number."""
    members = defaultdict[str, dict[str, Tensor]](dict)
    for name, one in weights.items():
        number, _, own = name.partition(".")
        members[number][own] = one
    return list(members.values())


class Translator:
    """A trained model, or an ensemble of them, ready to translate."""

    def __init__(self, folder: Path, device: torch.device, workers: int = 1) -> None:
        config = read_json(folder / "config.json")
        recipe = read_json(folder / "cleaning.json")
        self.languages: list[str] = recipe["languages"].split("-")
        self.cleaning = Cleaning(**recipe["cleaning"])
        made = folder / "provenance.json"
        hashes = read_json(made).get("subwords", {}).get("vocab_sha256", {}) if made.is_file() else {}
        self.source, self.target = load_vocabularies(folder, hashes)
        settings: ModelConfig = TypeAdapter(ModelConfig).validate_python(config["model"])
        sizes, weights = [config["vocabulary"][side] for side in SIDES], verified_weights(folder)
        self.models, self.device, self.workers = list[TranslationModel](), device, workers
        self.parameters = 0
        for own in _of_members(weights) if "members" in config else [weights]:
            model = build(settings, sizes[0], sizes[1], self.source.ids.pad)
            load_weights(model, own, folder)
            model = model.to(device).eval()
            self.parameters += sum(parameter.numel() for parameter in model.parameters())
            self.models.append(model.lay_out_for_search() if device.type == "cpu" else model)
        self.model = self.models[0]  # what is asked of it, its settings and limits, all have in common
        self.decoder: Decoder = Ensemble(self.models) if len(self.models) > 1 else self.model

    @classmethod
    def load(
        cls, folder: Path | str, device: str = "auto", threads: int | None = None, workers: int = 1
    ) -> "Translator":
        """Load a model directory.

        Args:
            folder: that `nmt average` wrote.
            device: ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``.
            threads: of the CPU; PyTorch's choice when not given.
            workers: processes that share out batches, for many sentences on the CPU; of one thread each if several.

        Raises:
            ConfigError: a GPU was asked for and there is none.
            DataError: a file of the directory is missing or damaged.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise DataError(f"{folder}: no such model directory; expected a folder that `nmt average` wrote")
        with fitting(folder):
            return cls(folder, machine.prepare(device, 1 if workers > 1 else threads), workers)

    def translate(self, lines: Sequence[str], decoding: Decoding | None = None) -> list[str]:
        """Raw text to raw text: the best translation of each line, an empty one of an empty line."""
        return [translations[0].text for translations in self.nbest(lines, decoding or Decoding())]

    def nbest(self, lines: Sequence[str], decoding: Decoding) -> list[list[Translation]]:
        """Raw text to raw text, with scores and pieces: clean, encode, search, decode, detokenise.

        Returns:
            As `translate_clean`, the texts detokenised.
        """
        found = self.translate_clean([self.clean(line) for line in lines], decoding)
        return [[replace(best, text=self.detokenize(best.text)) for best in translations] for translations in found]

    def clean(self, line: str) -> str:
        """A raw line as the model's training text was; raises DataError where a terminal gave what is no UTF-8."""
        from nmt.text.clean import clean_line

        try:
            line.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"character {error.start + 1} of the sentence: expected UTF-8, got {line[error.start]!r}, a byte "
                "that is none; have the terminal send UTF-8, or translate a file"
            ) from None
        return clean_line(line, self.languages[0], self.cleaning)

    def detokenize(self, text: str) -> str:
        """What the model wrote as people write it; as it is where its text was neither tokenised nor transliterated."""
        from nmt.text.clean import restore

        return restore(text, self.languages[1], self.cleaning)

    def translate_clean(
        self,
        lines: Sequence[str],
        decoding: Decoding,
        progress: Callable[[int], Any] = lambda _: None,
        pictures: Pictures = no_pictures,
    ) -> list[list[Translation]]:
        """Translate cleaned text.

        Args:
            lines: cleaned sentences, tokenised as the model's training text was.
            decoding: how to search.
            progress: called with the number of sentences done since its last call.
            pictures: of the lines, for a multimodal model; blank ones when not given.

        Returns:
            For each line, in input order, its n best translations; for an empty line one empty translation.

        Raises:
            ConfigError: unknown words cannot be replaced: the model has subwords, or no attention.
            DataError: the model's probabilities are no numbers.
        """
        if decoding.replace_unknown and not (self.source.whole_words and self.target.whole_words):
            raise ConfigError("replace_unknown: true: expected a model of whole words, got subwords; set it false")
        encoded = self._shortened(lines, self.source.encode(lines))
        results = [[Translation("", 0.0, [])] for _ in lines]

        def searched(indices: list[int]) -> list[list[Hypothesis]]:
            batch, shown = self._pad([encoded[i] for i in indices]), self._on_device(pictures(np.array(indices)))
            return search(self.decoder, batch, decoding, self.source.ids, shown)

        batches = self._batches(encoded, decoding)
        with closing(shared_out(searched, batches, self.workers)) as found:
            for indices, hypotheses in zip(batches, found, strict=True):
                for i, best in zip(indices, hypotheses, strict=True):
                    if not best:
                        raise DataError(
                            f"{lines[i]!r}: the model's probabilities are no numbers, so its weights cannot be; "
                            "average other checkpoints, or train again"
                        )
                    results[i] = self._texts(best)
                    if decoding.replace_unknown:
                        seen = pictures(np.array([i]))
                        results[i] = [self._without_unknown(lines[i], translation, seen) for translation in results[i]]
                progress(len(indices))
        return results

    def pictures(self, images: Path | None, shown: Shown | None, count: int) -> Pictures:
        """The pictures of some lines.

        Args:
            images: array of their features, a row a line.
            shown: which of them each line gets; None for what the model was trained with.
            count: of lines.

        Raises:
            ConfigError: a multimodal model, and no array.
            DataError: the array has another shape than lines and model ask for.
        """
        return of_split(self.model.config, shown, images, "", np.arange(count), count)

    @property
    def looks(self) -> bool:
        """Whether the model has attention."""
        return bool(self.attentions("", Translation("", 0.0, [])).weights)

    def _on_device(self, images: Tensor | None) -> Tensor | None:
        return None if images is None else images.to(self.device)

    @torch.inference_mode()
    def attentions(self, line: str, translation: Translation, image: Tensor | None = None) -> Attentions:
        """Where the model looks at each piece of a cleaned line as it writes a translation; an ensemble's mean.

        Args:
            line: cleaned.
            translation: of the line, by this model.
            image: features of the line's picture (1, R, C), for a multimodal model.
        """
        ids = self.source.ids
        source = [ids.bos, *self.source.encode([line])[0][: self.model.longest - 2], ids.eos]
        target = [ids.bos, *translation.ids, ids.eos]
        fed, written = (torch.tensor([row], device=self.device) for row in (source, target[:-1]))
        found = [model.attentions(fed, written, self._on_device(image)) for model in self.models]
        weights = {part: torch.stack([each[part][0].float() for each in found]).mean(0).cpu() for part in found[0]}
        return Attentions(self.source.pieces(source), self.target.pieces(target), weights)

    def _without_unknown(self, line: str, translation: Translation, image: Tensor | None) -> Translation:
        """The translation with each ``<unk>`` replaced by the source word that its step looked at most."""
        unknown = [t for t, i in enumerate(translation.ids) if i == self.target.ids.unk]
        if not unknown:
            return translation
        if not (weights := self.attentions(line, translation, image).weights):
            raise ConfigError("replace_unknown: true: expected a model with attention, got one without; set it false")
        source, written = line.split(), [self.target.decode([[i]])[0] for i in translation.ids]
        looked = weights["source"].mean((0, 1))[:, 1:-1]  # columns: the words of the line
        for t in unknown:
            written[t] = source[int(looked[t].argmax())]
        return replace(translation, text=" ".join(word for word in written if word))

    def _batches(self, encoded: Sequence[Sequence[int]], decoding: Decoding) -> list[list[int]]:
        """Indices of the lines that are not empty, longest first, so that memory shows its peak at once."""
        number, unit = amount(decoding.batch)
        if self.device.type == "cpu" and unit == "tokens" and not decoding.sampling:  # draws depend on the batch
            number = min(number, PART)
        order = sorted((i for i, row in enumerate(encoded) if row), key=lambda i: len(encoded[i]))
        lengths = np.array([len(encoded[i]) + 2 for i in order], np.int64)
        batches = [part.tolist() for part in cut(np.array(order, np.int64), lengths, number, unit)] if order else []
        return batches[::-1]

    def _pad(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        ids = self.source.ids
        padded = torch.full((len(rows), max(map(len, rows)) + 2), ids.pad)
        for line, row in zip(padded, rows, strict=True):
            line[: len(row) + 2] = torch.tensor([ids.bos, *row, ids.eos])
        return padded.to(self.device)

    def _shortened(self, lines: Sequence[str], encoded: Sequence[list[int]]) -> list[list[int]]:
        """The pieces of lines, as many of each as the model has positions for; tells whether some were cut."""
        limit = self.model.longest - 2  # without BOS and EOS
        if long := [line for line, row in zip(lines, encoded, strict=True) if len(row) > limit]:
            print(
                f"nmt: warning: {len(long)} of {len(lines)} sentences have more than the model's {limit} pieces "
                f"and are translated up to there; the first begins {long[0][:60]!r}; split them",
                file=sys.stderr,
            )
        return [row[:limit] for row in encoded]

    def _texts(self, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        decoded = self.target.decode([h.ids for h in hypotheses])
        texts = [" ".join(text.splitlines()) for text in decoded]  # to byte-level BPE a line break is a byte too
        return [Translation(t, h.score, h.ids) for t, h in zip(texts, hypotheses, strict=True)]
