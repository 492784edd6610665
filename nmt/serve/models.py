"""The models that are served: their names, what they say of themselves, and what they answer."""

import json
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nmt.config.decoding import Decoding
from nmt.report.attention_maps import PARTS
from nmt.serve.limits import PIECES, TEXT, WORDS, Refused, shown
from nmt.system.files import Json, read_json
from nmt.text.clean import Cleaner
from nmt.translation.translator import Translation, Translator, fitting

MARKUP = re.compile(r"<(?:/?[A-Za-z][^<>]*|!--.*?--|![A-Za-z][^<>]*)>", re.DOTALL)
DIGITS = 4
"""Decimal places of a weight or score."""


class Served:
    """A model, ready to answer; its answers are JSON, in bytes."""

    def __init__(self, name: str, translator: Translator) -> None:
        self.name, self.translator = name, translator
        self.cleaner = Cleaner(translator.cleaning, translator.languages[0])
        weights = translator.attentions("", Translation("", 0.0, [])).weights
        shapes = {part: weights[part].shape for part in PARTS if part in weights}
        self.sublayers: dict[str, tuple[int, int]] = {part: (shape[0], shape[1]) for part, shape in shapes.items()}
        self.pieces = min(PIECES, translator.model.longest - 2)

    def description(self) -> Json:
        """What the page needs to know before it asks for a translation."""
        source, target = self.translator.languages
        return {
            "name": self.name, "source": source, "target": target,
            "kind": type(self.translator.model).__name__,
            "parameters": self.translator.parameters,
            "tokenised": self.translator.cleaning.tokenize == "moses",
            "attention": {part: {"layers": layers, "heads": heads} for part, (layers, heads) in self.sublayers.items()},
        }  # fmt: skip

    def translate(self, text: str, nbest: int) -> bytes:
        """The n best translations of a sentence; raises Refused."""
        line = self._clean(text)
        decoding = Decoding(beam=max(nbest, Decoding().beam), nbest=nbest)
        translator = self.translator
        [best] = translator.translate_clean([line], decoding)
        translations = [
            {"text": translator.detokenize(t.text), "score": round(t.score, DIGITS), "ids": t.ids} for t in best
        ]
        return _json({"model": self.name, "source": line, "translations": translations})

    def attention(self, text: str, ids: Sequence[int], sublayer: str, layer: int) -> bytes:
        """Where each head of a layer looks while the model writes these ids; raises Refused."""
        line = self._clean(text)
        self._check_layer(sublayer, layer)
        self._check_ids(ids)
        found = self.translator.attentions(line, Translation("", 0.0, list(ids)))
        rows, columns = {
            "source": (found.target[1:], found.source),
            "encoder": (found.source, found.source),
            "decoder": (found.target[1:], found.target[:-1]),
        }[sublayer]
        weights = np.round(found.weights[sublayer][layer - 1].double().numpy(), DIGITS).tolist()
        return _json({"model": self.name, "rows": rows, "columns": columns, "weights": weights})

    def _clean(self, text: str) -> str:
        """The text as the model sees it, if it is one sentence of plain text that is not too long."""
        check_text(text)
        line = self.cleaner(text)
        if not line:
            raise Refused(422, "no words", "at least one word of the model's characters", "none left after cleaning")
        if (count := len(self.translator.source.encode([line])[0])) > self.pieces:
            raise Refused(422, "text too long", f"at most {self.pieces} subword pieces", f"{count:,}")
        return line

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
        if wrong := [i for i in ids if not 0 <= i < vocabulary]:  # an index error on a GPU would end every request
            raise Refused(422, "no such piece", f"ids from 0 to {vocabulary - 1}", shown(wrong[0]))


def check_text(text: str) -> None:
    """Refuse what is not one sentence of plain text, or is too long."""
    if not (words := len(text.split())):
        raise Refused(422, "no words", "at least one word", "none")
    if words > WORDS:
        raise Refused(422, "text too long", f"at most {WORDS} words", f"{words:,}")
    if (size := len(text.encode())) > TEXT:
        raise Refused(422, "text too long", f"at most {TEXT:,} bytes", f"{size:,}")
    if control := next((c for c in text if unicodedata.category(c) == "Cc"), None):
        where = f"U+{ord(control):04X} at character {text.index(control) + 1}"
        raise Refused(422, "control character in the text", "one line of plain text", where)
    if markup := MARKUP.search(text):
        raise Refused(422, "markup in the text", "plain text, without tags", shown(markup[0]))


def load(folders: Sequence[Path], device: str, threads: int | None) -> list[Served]:
    """Load model directories; each gets a name of its own.

    Raises:
        ConfigError, DataError: see `Translator.load`; a file of a directory does not hold what it should.
    """
    found: dict[str, Served] = {}
    for folder in folders:
        with fitting(folder):
            translator = Translator.load(folder, device, threads)
            name = _unique(_name(folder), found)
            found[name] = Served(name, translator)
    return list(found.values())


def _name(folder: Path) -> str:
    """Table, system, seed and selection, where the directory says where it comes from; else its path."""
    if not (folder / "provenance.json").is_file():
        return str(folder)
    origin = read_json(folder / "provenance.json")
    return f"{origin['table']}/{origin['system']}, seed {origin['seed']}, {origin['selection']}"


def _unique(name: str, taken: dict[str, Served]) -> str:
    names = (name if n == 1 else f"{name} ({n})" for n in range(1, len(taken) + 2))
    return next(candidate for candidate in names if candidate not in taken)


def _json(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
