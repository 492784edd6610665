"""The served models: their names, descriptions and answers."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from nmt.config.choices import Engine
from nmt.config.decoding import Decoding
from nmt.config.models import fitting_model
from nmt.report.figures.attention_maps import PARTS, sub_layer
from nmt.serve.limits import MBR_PIECES, NAME, PIECES, TEXT, TEXT_PIECES, WORDS, Refused, shown
from nmt.system.errors import ConfigError, printable
from nmt.system.files import Json, read_json
from nmt.system.lines import read_lines
from nmt.text.cleaner import Cleaner
from nmt.translation.directions import choose_direction
from nmt.translation.sentences import Sentences, combined
from nmt.translation.standalone import SETTINGS, ExportedModel
from nmt.translation.translator import Translation, Translator

Result = TypeVar("Result")
MARKUP = re.compile(r"<(?:/?[A-Za-z][^<>]*|!--.*?--|![A-Za-z][^<>]*)>", re.DOTALL)
CONTROL = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
"""A control character other than tabs and line ends."""
NO_ATTENTION = "An export for CTranslate2 gives no attention. Serve the model directory to see it."
NO_WORDS = ("no words", "at least one word of the model's characters", "none left after cleaning")
EXAMPLES = 4
"""Number of sentences that the page offers to try."""
EXAMPLE_WORDS = 30
"""Maximum number of words of such a sentence."""
SENTENCES = {
    "en": ["A dog runs across the grass.", "Two men sit on a bench."],
    "de": ["Ein Hund rennt über das Gras.", "Zwei Männer sitzen auf einer Bank."],
    "fr": ["Un chien court dans l'herbe.", "Deux hommes sont assis sur un banc."],
    "hi": ["एक कुत्ता घास पर दौड़ता है।"],
}
DIGITS = 4
"""Decimal places of a weight or score."""


class ServedModel:
    """A loaded model; its answers are JSON, in bytes."""

    examples: Sequence[str] = ()
    """Sentences to try."""

    def __init__(self, name: str, translator: Translator, engine: Engine = "torch") -> None:
        self.name, self.vocabulary, self.engine = name, translator.source, engine
        translator.engines.choose(Decoding(engine=engine))  # fails, or loads it, before the first request
        self.pieces = min(PIECES, translator.model.longest - 2)
        self.pairs, self.translator = translator.pairs, translator
        self._use(translator.pairs[0].split("-"))
        weights = self.translator.attentions("", Translation("", 0.0, [])).weights
        shapes = {part: weights[part].shape for part in PARTS if part in weights}
        self.sublayers: dict[str, tuple[int, int]] = {part: (shape[0], shape[1]) for part, shape in shapes.items()}

    def _use(self, languages: Sequence[str]) -> None:
        """Translate from and into these languages."""
        self.languages = list(languages)
        self.translator = self.translator.toward(languages[1], languages[0])
        self.cleaner = Cleaner(self.translator.cleaning, languages[0])
        self.sentences = self._sentences(languages)

    def toward(self, target: str | None, source: str | None) -> Self:
        """Return the same model for a target and a source language, as `choose_direction` does; raises Refused."""
        try:
            languages = choose_direction(self.name, self.pairs, source, target)
        except ConfigError:
            pairs, got = ", ".join(self.pairs), f"from: {shown(source or 'none')}, to: {shown(target or 'none')}"
            raise Refused(422, "wrong value: from, to", f"languages of one of {pairs}", got) from None
        if languages == self.languages:
            return self
        other = copy(self)
        other._use(languages)
        return other

    def description(self) -> Json:
        """Describe the model for the page: name, languages, kind, size, and layers and heads of its attention."""
        source, target = self.languages
        return {
            "name": self.name, "source": source, "target": target, "pairs": self.pairs,
            "kind": type(self.translator.model).__name__,
            "parameters": self.translator.parameters,
            "tokenised": self.translator.cleaning.tokenize == "moses",
            "lowercase": self.translator.cleaning.lowercase, "examples": self.examples,
            "attention": {part: {"layers": layers, "heads": heads} for part, (layers, heads) in self.sublayers.items()},
        }  # fmt: skip

    def translate(self, text: str, decoding: Decoding) -> bytes:
        """Return the n best translations of a text, with scores, and for a single sentence with ids; raises Refused.

        The sentences of each line are translated one by one, and lines stay lines. A forced beginning is one of a
        single sentence, so the lines stay whole then.
        """
        [result] = self.translate_all([text], decoding)
        if isinstance(result, Exception):
            raise result
        return result

    def translate_all(self, texts: Sequence[str], decoding: Decoding) -> list[bytes | Exception]:
        """Translate several texts in one search; return the answer of each, or the error that it causes."""
        divided = [_attempt(self._divide, text, decoding) for text in texts]
        good = [lines for lines in divided if not isinstance(lines, Exception)]
        every = [part for lines in good for line in lines for part in line]
        try:
            found = iter(self._search(every, decoding) if every else [])
        except Exception as error:
            if len(good) > 1:  # find out whose error it is
                return [_attempt(self.translate, text, decoding) for text in texts]
            return [lines if isinstance(lines, Exception) else error for lines in divided]
        return [lines if isinstance(lines, Exception) else self._answer(lines, found) for lines in divided]

    def _divide(self, text: str, decoding: Decoding) -> list[list[str]]:
        """Check a text and return the sentences of each of its lines; raises Refused."""
        check_text(text)
        self._check_pieces(self.cleaner(text.replace("\n", " ")), MBR_PIECES if decoding.mbr else TEXT_PIECES)
        lines = [[line] if decoding.prefix else self.sentences.parts(line) for line in text.split("\n")]
        lines = [[part for part in line if self.cleaner(part)] for line in lines]
        if decoding.prefix:
            for line in filter(None, lines):
                self._check_pieces(self.cleaner(line[0]), self.pieces)
        if not any(lines):
            raise Refused(422, *NO_WORDS)
        return lines

    def _answer(self, lines: Sequence[Sequence[str]], found: Iterator[list[Translation]]) -> bytes:
        """The answer for one text, given the sentences of its lines; takes their translations from those found."""
        best = [combined([next(found) for _ in line], self.sentences) if line else [] for line in lines]
        count = min(len(translations) for translations in best if translations)
        ranks = [[line[rank] if line else Translation("", 0.0, []) for line in best] for rank in range(count)]
        sentences = sum(map(len, lines))
        translations = [
            {
                "text": printable("\n".join(t.text for t in rank)),
                "score": round(sum(t.score for t in rank) / sum(map(bool, lines)), DIGITS),
                "ids": [i for t in rank for i in t.ids] if sentences == 1 else [],
            }
            for rank in ranks
        ]
        source = "\n".join(" ".join(map(self.cleaner, line)) for line in lines)
        return _json({"model": self.name, "source": source, "sentences": sentences, "translations": translations})

    def _search(self, parts: Sequence[str], decoding: Decoding) -> list[list[Translation]]:
        """Translate sentences; raises Refused for settings that the model does not support."""
        try:
            return self.translator.nbest(parts, decoding.model_copy(update={"engine": self.engine}))
        except ConfigError as error:
            where, _, rest = str(error).partition(": expected ")
            expected, _, got = rest.partition(", got ")
            raise Refused(422, f"wrong value: {where}", expected, shown(got)) from None

    def attention(self, text: str, ids: Sequence[int], sublayer: str, layer: int) -> bytes:
        """Return the attention weights of all heads of a layer for this translation.

        Args:
            text: the source sentence.
            ids: the pieces of the translation.
            sublayer: ``source``, ``encoder`` or ``decoder``.
            layer: the layer's number, from 1.

        Raises:
            Refused: wrong text, ids, sub-layer or layer.
        """
        line = self._clean(text)
        self._check_layer(sublayer, layer)
        self._check_ids(ids)
        maps = sub_layer(self.translator.attentions(line, Translation("", 0.0, list(ids))), sublayer)
        weights = np.round(maps.weights[layer - 1].double().numpy(), DIGITS).tolist()
        rows, columns = list(map(printable, maps.rows)), list(map(printable, maps.columns))
        return _json({"model": self.name, "rows": rows, "columns": columns, "weights": weights})

    def _clean(self, text: str) -> str:
        """Check that the text is one plain sentence of allowed length, and clean it for the model; raises Refused."""
        check_text(text)
        if not (line := self.cleaner(text)):
            raise Refused(422, *NO_WORDS)
        self._check_pieces(line, self.pieces)
        return line

    def _check_pieces(self, line: str, limit: int) -> None:
        if (count := self._count(line)) > limit:
            raise Refused(422, "text too long", f"at most {limit} subword pieces", f"{count:,}")

    def _count(self, line: str) -> int:
        return len(self.vocabulary.encode([line], to=self.languages[1])[0])

    def _sentences(self, languages: Sequence[str]) -> Sentences:
        return Sentences(languages, lambda text: self._count(self.cleaner(text)), self.pieces)

    def _check_layer(self, sublayer: str, layer: int) -> None:
        if sublayer not in self.sublayers:
            names = ", ".join(self.sublayers) or "none: this model has no attention"
            raise Refused(422, "no such sub-layer", names, shown(sublayer))
        if not 1 <= layer <= (layers := self.sublayers[sublayer][0]):
            raise Refused(422, "no such layer", f"1 to {layers}", shown(layer))

    def _check_ids(self, ids: Sequence[int]) -> None:
        longest, vocabulary = self.translator.model.longest - 2, len(self.translator.target)
        if len(ids) > longest:
            raise Refused(422, "translation too long", f"at most {longest} pieces", f"{len(ids):,}")
        if wrong := [i for i in ids if not 0 <= i < vocabulary]:  # on a GPU, an index error breaks all later requests
            raise Refused(422, "no such piece", f"ids from 0 to {vocabulary - 1}", shown(wrong[0]))


class ServedExport(ServedModel):
    """A loaded export for CTranslate2. It has no attention."""

    def __init__(self, name: str, export: ExportedModel, parameters: int) -> None:
        self.name, self.export, self.parameters = name, export, parameters
        self.cleaner, self.vocabulary = export.cleaner, export.source
        self.pieces = min(PIECES, export.longest - 2)
        self.languages = [export.source_language, export.target_language]
        self.pairs = ["-".join(self.languages)]
        self.sentences = self._sentences(self.languages)

    def description(self) -> Json:
        """Describe the model for the page, as a model directory, without attention and with the reason for that."""
        export = self.export
        return {
            "name": self.name, "source": self.languages[0], "target": self.languages[1], "pairs": self.pairs,
            "kind": f"CTranslate2 ({export.compute_type})", "parameters": self.parameters,
            "tokenised": export.recipe.tokenize == "moses", "lowercase": export.recipe.lowercase,
            "examples": self.examples, "attention": {}, "no_attention": NO_ATTENTION,
        }  # fmt: skip

    def _search(self, parts: Sequence[str], decoding: Decoding) -> list[list[Translation]]:
        """Translate sentences by beam search; raises Refused for other settings."""
        if others := decoding.non_defaults().keys() - {"beam", "nbest"}:
            raise Refused(
                422, "wrong settings", "beam search without options, for an export", ", ".join(sorted(others))
            )
        found = self.export.nbest(parts, max(decoding.nbest, decoding.beam), nbest=decoding.nbest)
        return [[Translation(t.text, t.score, self.export.ids(t.pieces)) for t in best] for best in found]

    def attention(self, text: str, ids: Sequence[int], sublayer: str, layer: int) -> bytes:
        """Raise Refused: an export gives no attention."""
        raise Refused(422, "no such sub-layer", "none: an export gives no attention", shown(sublayer))


def _attempt(compute: Callable[..., Result], *arguments: Any) -> Result | Exception:
    """The result of a function, or its exception."""
    try:
        return compute(*arguments)
    except Exception as error:
        return error


def check_text(text: str) -> None:
    """Raise Refused if the text is empty, too long, or not plain text."""
    if not (words := len(text.split())):
        raise Refused(422, "no words", "at least one word", "none")
    if words > WORDS:
        raise Refused(422, "text too long", f"at most {WORDS} words", f"{words:,}")
    if (size := len(text.encode())) > TEXT:
        raise Refused(422, "text too long", f"at most {TEXT:,} bytes", f"{size:,}")
    if control := CONTROL.search(text):
        where = f"U+{ord(control[0]):04X} at character {control.start() + 1}"
        raise Refused(422, "control character in the text", "lines of plain text", where)
    if markup := MARKUP.search(text):
        raise Refused(422, "markup in the text", "plain text, without tags", shown(markup[0]))


def load(folders: Sequence[Path], device: str, threads: int | None, engine: Engine = "torch") -> list[ServedModel]:
    """Load models and give each model a unique name.

    Args:
        folders: model directories, and exports for CTranslate2.
        device: ``auto``, ``cpu`` or ``cuda``.
        threads: CPU threads; None: PyTorch's default.
        engine: the program that searches for model directories, see `nmt.config.decoding.Decoding`.

    Raises:
        ConfigError, DataError: see `Translator.load`; a file of a directory has the wrong content; or the engine does
            not support a model.
    """
    models: dict[str, ServedModel] = {}
    for folder in folders:
        with fitting_model(folder):
            is_export = (folder / SETTINGS).is_file()
            loaded = ExportedModel(folder, device, threads) if is_export else Translator.load(folder, device, threads)
            name = _unique(_name(folder), models)
            if isinstance(loaded, Translator):
                models[name] = ServedModel(name, loaded, engine)
            else:
                models[name] = ServedExport(name, loaded, read_json(folder / "provenance.json").get("parameters") or 0)
            models[name].examples = _examples(folder, models[name])
    return list(models.values())


def _examples(folder: Path, model: ServedModel) -> list[str]:
    """Sentences to try: of the test sets that were translated beside the model, else of its first source language."""
    test = f"*.{model.pairs[0]}" if len(model.pairs) > 1 else "*"
    scored = next(iter(sorted(folder.parent.glob(f"{test}/*/sources.txt"))), None)
    lines = [line for line in read_lines(scored) if 0 < len(line.split()) <= EXAMPLE_WORDS] if scored else []
    return lines[:: max(1, len(lines) // EXAMPLES)][:EXAMPLES] or SENTENCES.get(model.languages[0], [])


def _name(folder: Path) -> str:
    """Return table, system, seed and selection of a folder ``model``, as in results; of others the folder's name."""
    folder = folder.absolute()
    if folder.name != "model":
        return shown(folder.name, NAME)
    if not (folder / "provenance.json").exists():
        return shown(str(folder), NAME)
    origin = read_json(folder / "provenance.json")
    return shown(f"{origin['table']}/{origin['system']}, seed {origin['seed']}, {origin['selection']}", NAME)


def _unique(name: str, taken: dict[str, ServedModel]) -> str:
    names = (name if n == 1 else f"{name} ({n})" for n in range(1, len(taken) + 2))
    return next(candidate for candidate in names if candidate not in taken)


def _json(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
