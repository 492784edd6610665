"""Long input: a line is split into sentences, and a sentence into what a model has positions for."""

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from nmt.config.decoding import Decoding
from nmt.config.models import fitting_model
from nmt.system.warnings import say
from nmt.text.languages import LISTED, UNSPACED, base
from nmt.translation.translator import Translation, Translator

_KHMER_STOP = re.compile(r"(?<=[។៕])\s+")  # sentencex does not know them
_NUMBER = re.compile(r"\d+\.")  # of a list
_CLAUSES = re.compile(r"(?<=[,;:]) |(?<=[،؛、，；：—–၊।]) ?|(?<=[.!?]) ")
_SPACES = re.compile(" ")
_PIECES = re.compile(r"(?<=.)(?=\w)")  # never before a combining mark or a joiner
LONG = 30
"""Least number of pieces of a sentence whose translation may be said to be short."""
CACHED = 4096
"""Sentences whose number of pieces is remembered."""
_PLACES = (_CLAUSES, _SPACES, _PIECES)
"""Where a sentence is divided: after a clause, between words, or anywhere; the first of these that it has."""


class Sentences:
    """Splits raw lines into parts that a model translates one by one, and joins their translations.

    Attributes:
        divided: number of sentences so far that were too long for the model and were translated in parts.
        short: number of parts of `LONG` pieces or more whose translation has less than half of the expected pieces.
        first_short: the first of them.
        unknown: number of parts with words or characters that the model does not know.
        first_unknown: the first of them.
    """

    def __init__(
        self,
        languages: Sequence[str],
        count: Callable[[str], int],
        limit: int,
        growth: float = 0,
        is_known: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Take what a model needs.

        Args:
            languages: source and target.
            count: returns the number of pieces of a raw text.
            limit: most pieces that the model has positions for, without BOS and EOS.
            growth: target pieces to expect for each source piece; 0 if that is not known.
            is_known: whether the model has pieces for the whole of a raw text.
        """
        self.source, target = languages
        self.limit, self.growth, self._is_known = limit, growth, is_known
        self.divided, self.short, self.first_short, self.unknown, self.first_unknown = 0, 0, "", 0, ""
        self._count = lru_cache(CACHED)(count)
        self._space = "" if base(target) in UNSPACED else " "

    @classmethod
    def of(cls, translator: Translator) -> "Sentences":
        """Return the one for a model directory."""
        limit, unk = translator.model.longest - 2, translator.source.ids.unk

        @lru_cache(CACHED)
        def encode(text: str) -> list[int]:
            return translator.encode([translator.clean(text)])[0]

        with fitting_model(translator.folder):
            pieces = translator.provenance.get("data", {}).get("train", {})
            growth = pieces.get("target_pieces", 0) / max(1, pieces.get("source_pieces", 1))
        count, is_known = (lambda text: len(encode(text))), (lambda text: unk not in encode(text))
        return cls(translator.languages, count, limit, growth, is_known)

    def parts(self, line: str) -> list[str]:
        """Return the parts of a line; one empty part for a line without text."""
        found = []
        for sentence in split(line, self.source):
            divided = self._fitting(sentence)
            self.divided += len(divided) > 1
            found += divided
        return found or [""]

    def join(self, translations: Sequence[str]) -> str:
        """Join the translations of a line's parts."""
        return self._space.join(filter(None, translations))

    def check(self, parts: Sequence[str], translations: Sequence[Sequence[Translation]]) -> None:
        """Count the parts whose translation is short, and those that the model does not know as a whole."""
        for part, (best, *_) in zip(parts, translations, strict=True):
            if part and not self._is_known(part):
                self.unknown, self.first_unknown = self.unknown + 1, self.first_unknown or part
            pieces = self._count(part)
            if pieces >= LONG and 2 * len(best.ids) < self.growth * pieces:
                self.short, self.first_short = self.short + 1, self.first_short or part

    def report(self) -> None:
        """Say how many sentences were in parts or not wholly known, and how many translations are short."""
        if self.divided:
            say(
                f"sentences with more than the model's {self.limit} pieces, which were translated in parts: "
                f"{self.divided:,}; words that belong together may be apart"
            )
        if self.unknown:
            say(
                f"sentences with words or characters that the model does not know: {self.unknown:,}, the first "
                f"'{self.first_unknown[:40]}'; their translations may be made up there"
            )
        if self.short:
            say(
                f"translations less than half as long as is usual in the training text: {self.short:,}, the first that "
                f"of '{self.first_short[:40]} …'; words may be missing; divide such long sentences"
            )

    def _fitting(self, text: str) -> list[str]:
        """Divide a text until each part fits the model; a single character always stays."""
        if len(text) < 2 or self._count(text) <= self.limit:
            return [text]
        middle = _middle(text)
        return [part for half in (text[:middle], text[middle:]) if half.strip() for part in self._fitting(half.strip())]


def split(text: str, language: str) -> list[str]:
    """Split a text into sentences by its language's rules; the number of a list item stays with its sentence."""
    from sentencex import segment

    sentences, code = list[str](), base(language)
    for sentence in segment(code, text):
        parts = _KHMER_STOP.split(sentence) if code == "km" else [sentence]
        for part in filter(None, map(str.strip, parts)):
            before = sentences[-1] if sentences else ""
            if before.rpartition(" ")[2] in _abbreviations(code) or _NUMBER.fullmatch(before):
                sentences[-1] += f" {part}"
            else:
                sentences.append(part)
    return sentences


@cache
def _abbreviations(code: str) -> frozenset[str]:
    """Return the abbreviations, with their full stop, after which Moses ends no sentence: Mr., Mme."""
    if code not in LISTED:
        return frozenset()
    from sacremoses.corpus import NonbreakingPrefixes

    return frozenset(f"{word.strip()}." for word in NonbreakingPrefixes().words(code) if len(word.strip()) < 5)


def _middle(text: str) -> int:
    """Return the best place to divide a text, near its middle; without such a place, the middle."""
    middle = len(text) // 2
    for pattern in _PLACES:
        places = [match.end() for match in pattern.finditer(text)]
        if inside := [place for place in places if len(text) // 8 < place < len(text) - len(text) // 8]:
            return min(inside, key=lambda place: abs(place - middle))
    return middle


def translate_lines(
    translator: Translator, sentences: Sentences | None, lines: Sequence[str], decoding: Decoding
) -> list[list[Translation]]:
    """Translate raw lines to raw text, sentence by sentence.

    Args:
        translator: the model.
        sentences: the splitter; None translates each line as it is. A forced beginning is one of a single sentence, so
            such lines stay whole too.
        lines: raw lines.
        decoding: settings of the search.

    Returns:
        The n best translations of each line. Those of several sentences are joined by rank; their score is the mean.
    """
    if sentences is None or decoding.prefix:
        return translator.nbest(lines, decoding)
    parts = [sentences.parts(line) for line in lines]
    every = [part for line in parts for part in line]
    asked = every if decoding.sampling else list(dict.fromkeys(every))  # samples of equal sentences differ
    translations = translator.nbest(asked, decoding)
    sentences.check(asked, translations)
    if decoding.sampling:
        samples = iter(translations)
        return [combined([next(samples) for _ in line], sentences) for line in parts]
    found = dict(zip(asked, translations, strict=True))
    return [combined([found[part] for part in line], sentences) for line in parts]


def combined(parts: Sequence[Sequence[Translation]], sentences: Sentences) -> list[Translation]:
    """Join the n best translations of a line's parts, the best with the best."""
    if len(parts) == 1:
        return list(parts[0])
    ranks = zip(*(part for part in parts if part[0].ids), strict=False)  # without those that show nothing
    return [
        Translation(
            sentences.join([translation.text for translation in rank]),
            sum(translation.score for translation in rank) / len(rank),
            [i for translation in rank for i in translation.ids],
        )
        for rank in ranks
    ] or list(parts[0])
