"""Translate text with a model directory. The library, the command line and the pipeline share this code."""

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nmt.config.data import Cleaning
from nmt.config.decoding import Decoding
from nmt.config.models import ModelConfig, Shown, fitting_model, has_attention, stored_model
from nmt.config.types import amount
from nmt.data.features import Pictures, no_pictures, pictures_of_split
from nmt.data.order import cut
from nmt.models.base import Decoder, TranslationModel
from nmt.models.build import build_empty
from nmt.models.search import Ensemble, Hypothesis, search
from nmt.system import machine
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json
from nmt.system.warnings import warn
from nmt.system.workers import parallel_map
from nmt.text.characters import is_blank, letters_apart
from nmt.text.languages import is_spaceless
from nmt.text.subwords import SIDES, load_vocabularies
from nmt.training.checkpoint import check_model_directory, load_weights, outline_of, verified_weights
from nmt.translation.directions import choose_direction, read_pairs
from nmt.translation.engines.choice import Engines

PART = 2048  # most tokens per batch on the CPU: larger batches are no faster and keep fewer workers busy


@dataclass(frozen=True)
class Translation:
    """One translation of a sentence."""

    text: str  # detokenised if the source was raw text, else tokenised
    score: float  # log p / length^penalty, plus the coverage penalty; the mean utility with minimum Bayes risk
    ids: list[int]  # of the pieces, without BOS and EOS


@dataclass(frozen=True)
class Attentions:
    """The attention weights of a model for one translation."""

    source: list[str]  # pieces of the source, with BOS and EOS
    target: list[str]  # pieces of the translation, with BOS and EOS
    weights: dict[str, Tensor]
    """Weights (layers, heads, rows, columns) by sub-layer, with the names of `TranslationModel.attentions`.

    The rows of ``source``, ``decoder`` and ``image`` are the output pieces ``target[1:]``; the rows of ``encoder`` are
    ``source``. The columns of ``source`` and ``encoder`` are ``source``, those of ``decoder`` the input pieces
    ``target[:-1]``, those of ``image`` the regions of the picture. Only multimodal models have ``image``. A model
    without attention has no weights."""


def _members(weights: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """Split the weights of an ensemble by model. Each name begins with the number of the model."""
    members = defaultdict[str, dict[str, Tensor]](dict)
    for name, weight in weights.items():
        number, _, own_name = name.partition(".")
        members[number][own_name] = weight
    return list(members.values())


class Translator:
    """A trained model, or an ensemble of them, ready to translate."""

    def __init__(self, folder: Path, device: torch.device, workers: int = 1) -> None:
        config = read_json(folder / "config.json")
        recipe = read_json(folder / "cleaning.json")
        self.folder, self.pairs = folder, read_pairs(str(recipe["languages"]), folder / "cleaning.json")
        self._named: tuple[str | None, str | None] = (None, None)
        self.cleaning = Cleaning(**recipe["cleaning"])
        provenance_file = folder / "provenance.json"
        self.provenance = read_json(provenance_file) if provenance_file.exists() else {}
        hashes = self.provenance.get("subwords", {}).get("vocab_sha256", {})
        self.source, self.target = load_vocabularies(folder, hashes)
        settings = stored_model(config["model"], folder)
        sizes = [config["vocabulary"][side] for side in SIDES]
        self._check_size(folder, settings, sizes, "members" in config)
        weights = verified_weights(folder)
        self.models, self.device, self.workers = list[TranslationModel](), device, workers
        self.parameters = 0
        for member in _members(weights) if "members" in config else [weights]:
            model = build_empty(settings, sizes, self.source.ids.pad)
            load_weights(model, member, folder)
            model = model.to(device).eval()
            self.parameters += sum(parameter.numel() for parameter in model.parameters())
            self.models.append(model.lay_out_for_search() if device.type == "cpu" else model)
        self.model = self.models[0]  # all members share its settings and limits
        self.decoder: Decoder = Ensemble(self.models) if len(self.models) > 1 else self.model
        self._clean = lru_cache(2**14)(self._clean_line)  # first a line's pieces are counted, then it is translated
        self.engines = Engines(folder, self.models, self.source, self.target, device, workers)

    def _check_size(self, folder: Path, settings: ModelConfig, sizes: Sequence[int], is_ensemble: bool) -> None:
        """Check that vocabularies and weights have the sizes that the configuration says; raises DataError.

        This takes no time or memory, even if somebody wrote a configuration of a million layers.
        """
        if sizes != [len(self.source), len(self.target)]:
            got = f"{len(self.source):,} and {len(self.target):,}"
            raise DataError(f"{folder}: expected vocabularies of {sizes} pieces, as config.json says, got {got}")
        outline_of(folder, settings, sizes, self.source.ids.pad, "0." if is_ensemble else "")

    @classmethod
    def load(
        cls, folder: Path | str, device: str = "auto", threads: int | None = None, workers: int = 1
    ) -> "Translator":
        """Load a model directory.

        Args:
            folder: a model directory from `nmt average`.
            device: ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``.
            threads: CPU threads; None for PyTorch's default. Each of several workers has one.
            workers: processes that share the batches of many sentences on the CPU.

        Raises:
            ConfigError: ``cuda`` was requested, but there is no GPU; or the directory is an export.
            DataError: a file of the directory is missing or damaged.
        """
        folder = Path(folder)
        check_model_directory(folder)
        with fitting_model(folder):
            return cls(folder, machine.prepare(device, 1 if workers > 1 else threads), workers)

    def toward(self, target: str | None, source: str | None = None) -> "Translator":
        """Return the same model for a target and a source language, of those that it knows.

        Raises:
            ConfigError: the languages do not suit, see `choose_direction`.
        """
        other = copy(self)
        other._named = source, target
        choose_direction(self.folder, self.pairs, source, target)
        return other

    @property
    def languages(self) -> list[str]:
        """Source and target; raises ConfigError if the model was trained on several pairs and `toward` named none."""
        return choose_direction(self.folder, self.pairs, *self._named)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of cleaned sources, without BOS and EOS; first the tag of the target language, if any."""
        return self.source.encode(lines, to=self.languages[1])

    def translate(self, lines: Sequence[str], decoding: Decoding | None = None) -> list[str]:
        """Translate raw lines to raw text; return the best translation of each line. Empty lines remain empty."""
        return [translations[0].text for translations in self.nbest(lines, decoding or Decoding())]

    def nbest(self, lines: Sequence[str], decoding: Decoding) -> list[list[Translation]]:
        """Translate raw lines; return what `translate_clean` does, but detokenised. One string raises TypeError."""
        if isinstance(lines, str):
            raise TypeError(f"expected a list of lines, got the string {lines[:40]!r}; put it into a list")
        results = self.translate_clean([self.clean(line) for line in lines], decoding)
        return [[replace(best, text=self.detokenize(best.text)) for best in translations] for translations in results]

    def clean(self, line: str, side: int = 0) -> str:
        """Clean a raw line as the model's training text was cleaned; raise DataError for input that is not UTF-8.

        Args:
            line: a raw sentence.
            side: 0 for the source language, 1 for the target language.
        """
        try:
            line.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"character {error.start + 1} of the sentence: expected UTF-8, got {line[error.start]!r}, a byte "
                "that is not UTF-8; set the terminal to UTF-8, or translate a file"
            ) from None
        return self._clean(line, self.languages[side])

    def _clean_line(self, line: str, language: str) -> str:
        from nmt.text.cleaner import clean_line

        return clean_line(line, language, self.cleaning)

    def detokenize(self, text: str) -> str:
        """Detokenise the model's output and undo transliteration, if the training text had them."""
        from nmt.text.cleaner import restore

        return restore(text, self.languages[1], self.cleaning)

    def translate_clean(
        self,
        lines: Sequence[str],
        decoding: Decoding,
        progress: Callable[[int], Any] = lambda _: None,
        pictures: Pictures = no_pictures,
        report_cut: Callable[[int], Any] | None = None,
    ) -> list[list[Translation]]:
        """Translate cleaned text.

        Args:
            lines: cleaned sentences, tokenised as the model's training text was.
            decoding: settings of the search.
            progress: called with the number of sentences since the previous call.
            pictures: the pictures of the lines, for a multimodal model; blank pictures by default.
            report_cut: called with the number of lines that were cut to the model's length; by default a warning.

        Returns:
            The n best translations of each line, in input order; an empty line has one empty translation.

        Raises:
            ConfigError: the model does not support the settings, e.g. because it has subwords or no attention.
            DataError: the model's probabilities are not numbers.
        """
        prefix, tags = self._checked_prefix(decoding), len(self.source.tag(self.languages[1]))
        lines = ["" if is_blank(line) else line for line in lines]
        encoded = self.encode_cut(lines, report_cut)
        results = [[Translation("", 0.0, [])] for _ in lines]

        def search_batch(indices: list[int]) -> list[list[Hypothesis]]:
            batch, shown = self.pad([encoded[i] for i in indices]), self._on_device(pictures(np.array(indices)))
            return search(self.decoder, batch, decoding, self.source.ids, shown, prefix, tags)

        assert self.workers < 2 or torch.get_num_threads() == 1, torch.get_num_threads()
        batches = self.batches({i: len(row) for i, row in enumerate(encoded) if row}, decoding)
        with closing(self._search(search_batch, encoded, batches, decoding)) as hypotheses_of_batches:
            for indices, hypotheses in zip(batches, hypotheses_of_batches, strict=True):
                for i, best in zip(indices, hypotheses, strict=True):
                    if not best:
                        raise DataError(
                            f"{lines[i]!r}: the model's probabilities are not numbers because its weights are broken; "
                            "average other checkpoints, or train again"
                        )
                    results[i] = self._least_risk(best, decoding) if decoding.mbr else self._texts(best)
                    if decoding.replace_unknown:
                        image = pictures(np.array([i]))
                        results[i] = [self._without_unknown(lines[i], translation, image) for translation in results[i]]
                progress(len(indices))
        return results

    def _search(
        self,
        search_batch: Callable[[list[int]], list[list[Hypothesis]]],
        encoded: Sequence[list[int]],
        batches: Sequence[list[int]],
        decoding: Decoding,
    ) -> Generator[list[list[Hypothesis]], None, None]:
        """Search for the translations of each batch, by the engine of the settings."""
        if engine := self.engines.choose(decoding):
            return engine.search(encoded, batches, decoding, search_batch)
        return parallel_map(search_batch, batches, self.workers)

    def _checked_prefix(self, decoding: Decoding) -> list[int]:
        """Return the pieces that every translation must begin with; raise ConfigError for unsupported settings."""
        if decoding.replace_unknown and not (self.source.whole_words and self.target.whole_words):
            raise ConfigError("replace_unknown: true: expected a model of whole words, got subwords; set it to false")
        for key, value in (("coverage_penalty", f"{decoding.coverage_penalty:g}"), ("replace_unknown", "true")):
            if getattr(decoding, key) and not self.has_attention:
                raise ConfigError(f"{key}: {value}: expected a model with attention, got one without; leave it out")
        longest = self.model.longest - 2  # without BOS and EOS
        if decoding.min_length > longest:
            raise ConfigError(
                f"min_length: expected at most the model's {longest} pieces, got {decoding.min_length}; lower it"
            )
        if not decoding.prefix:
            return []
        [ids] = self.target.encode([self.clean(decoding.prefix, 1)])
        if self.target.ids.unk in ids:
            unknown = " ".join(self.target.decode([ids]))
            raise ConfigError(
                f"prefix: expected words or letters of the model's vocabulary, got {decoding.prefix!r}, which it reads "
                f"as {unknown!r}; change what is <unk>"
            )
        if len(ids) > longest:
            raise ConfigError(f"prefix: expected at most the model's {longest} pieces, got {len(ids)}; shorten it")
        return ids

    def _least_risk(self, samples: Sequence[Hypothesis], decoding: Decoding) -> list[Translation]:
        """Return the different samples with the highest mean utility against all samples, best first."""
        from nmt.scoring.pairwise import mean_utilities

        assert decoding.mbr
        translations = self._texts(samples)
        divided = letters_apart if is_spaceless(self.languages[1]) else str
        utilities = mean_utilities([divided(translation.text) for translation in translations], decoding.mbr)
        scored = {t.text: replace(t, score=utility) for t, utility in zip(translations, utilities, strict=True)}
        return sorted(scored.values(), key=lambda translation: -translation.score)[: decoding.nbest]

    def pictures(self, images: Path | None, shown: Shown | None, count: int) -> Pictures:
        """Return the pictures of some lines.

        Args:
            images: array of the features, one row per line.
            shown: which picture each line gets; None for the setting of the training.
            count: number of lines.

        Raises:
            ConfigError: the model is multimodal and there is no array.
            DataError: the shape of the array does not fit the lines or the model.
        """
        return pictures_of_split(self.model.config, shown, images, "", np.arange(count), count)

    @property
    def has_attention(self) -> bool:
        """Whether the model has attention."""
        return has_attention(self.model.config)

    def _on_device(self, images: Tensor | None) -> Tensor | None:
        return None if images is None else images.to(self.device)

    @torch.inference_mode()
    def attentions(self, line: str, translation: Translation, image: Tensor | None = None) -> Attentions:
        """Return the attention weights of the model for a translation; for an ensemble, their mean.

        Args:
            line: the cleaned source sentence.
            translation: the translation of the line by this model.
            image: features of the line's picture (1, R, C), for a multimodal model.
        """
        ids = self.source.ids
        source = [ids.bos, *self.encode([line])[0][: self.model.longest - 2], ids.eos]
        target = [ids.bos, *translation.ids, ids.eos]
        source_ids, target_ids = (torch.tensor([row], device=self.device) for row in (source, target[:-1]))
        by_part = self.decoder.attentions(source_ids, target_ids, self._on_device(image))
        weights = {part: layers[0].float().cpu() for part, layers in by_part.items()}
        return Attentions(self.source.labels(source), self.target.labels(target), weights)

    def _without_unknown(self, line: str, translation: Translation, image: Tensor | None) -> Translation:
        """Replace each ``<unk>`` of a translation by the source word with the highest attention weight."""
        unknown_steps = [t for t, i in enumerate(translation.ids) if i == self.target.ids.unk]
        if not unknown_steps:
            return translation
        weights = self.attentions(line, translation, image).weights["source"]
        source_words, words = line.split(), [self.target.decode([[i]])[0] for i in translation.ids]
        tags = len(self.source.tag(self.languages[1]))
        attended = weights.mean((0, 1))[:, 1 + tags : -1]  # columns: words, without BOS, tag, EOS
        for t in unknown_steps:
            words[t] = source_words[int(attended[t].argmax())]
        return replace(translation, text=" ".join(word for word in words if word))

    def batches(self, lengths: Mapping[int, int], decoding: Decoding) -> list[list[int]]:
        """Return batches of sentences as indices, longest first, so that memory peaks early.

        ``lengths`` are their numbers of pieces by index, without BOS and EOS.
        """
        number, unit = amount(decoding.batch)
        if self.device.type == "cpu" and unit == "tokens" and not decoding.sampling:  # sampling depends on the batches
            number = min(number, PART)
        order = sorted(lengths, key=lengths.__getitem__)
        with_ends = np.array([lengths[i] + 2 for i in order], np.int64)
        limit = max(1, number // decoding.samples)
        parts = cut(np.array(order, np.int64), iter([with_ends]), limit, unit) if order else ()
        return [part.tolist() for part in parts][::-1]

    def pad(self, rows: Sequence[Sequence[int]]) -> Tensor:
        """Return pieces of sentences as padded ids with BOS and EOS (B, longest row + 2)."""
        ids = self.source.ids
        padded = torch.full((len(rows), max(map(len, rows)) + 2), ids.pad)
        for line, row in zip(padded, rows, strict=True):
            line[: len(row) + 2] = torch.tensor([ids.bos, *row, ids.eos])
        return padded.to(self.device)

    def encode_cut(self, lines: Sequence[str], report_cut: Callable[[int], Any] | None = None) -> list[list[int]]:
        """Encode cleaned lines, and cut them to the pieces that the model has positions for, with a warning."""
        encoded, limit = self.encode(lines), self.model.longest - 2  # without BOS and EOS
        if long := [line for line, row in zip(lines, encoded, strict=True) if len(row) > limit]:
            if report_cut:
                report_cut(len(long))
            else:
                self.warn_of_cut(f"{long[0][:60]} …", len(long), len(lines))
        return [row[:limit] for row in encoded]

    def warn_of_cut(self, file: Path | str, cut: int, lines: int) -> None:
        """Warn if some of the lines of a file were cut to the model's length."""
        if cut:
            warn(
                "sources cut", file, cut,
                f"{cut:,} of {lines:,} sources were cut to {self.model.longest - 2} pieces, the model's limit",
                "split long lines into sentences, or train with a larger model.max_positions", split=Path(file).stem,
            )  # fmt: skip

    @property
    def hardware(self) -> dict[str, Any]:
        """What the model runs on, and the number of processes."""
        return machine.hardware(self.device) | {"workers": self.workers}

    def _texts(self, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        decoded = self.target.decode([h.ids for h in hypotheses])
        # Byte-level BPE can write line breaks.
        texts = ["" if is_blank(text) else " ".join(text.splitlines()) for text in decoded]
        return [Translation(t, h.score, h.ids) for t, h in zip(texts, hypotheses, strict=True)]
