"""What a user's own text looks like: pairs, words, languages, empty and repeated lines."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from textwrap import shorten
from typing import Any

from nmt.config.corpus.filters import LanguageFilter, ScriptFilter
from nmt.config.corpus.sources import CustomCorpus
from nmt.corpora.own import custom_parts
from nmt.corpora.sources import key
from nmt.system.errors import ConfigError, DataError, printable
from nmt.text.characters import length
from nmt.text.filters.judges import Judge, judge_of
from nmt.text.languages import is_spaceless

COMPARED = 2_000_000
"""Most pairs whose repetitions are counted; their hashes are in memory."""
FEW = {"train": 10_000, "valid": 200, "held_out": 200}
"""Fewer pairs bring a warning. Scores of 200 lines differ by several BLEU at the same quality."""
JUDGED = 2000
"""Pairs whose languages are identified."""
SHOWN = 100
"""Most characters of a line that is shown."""


@dataclass
class Survey:
    """What a split's text looks like."""

    pairs: int = 0
    lengths: Counter[tuple[int, int]] = field(default_factory=Counter)
    """The number of pairs with so many words on each side; of a language without spaces, so many characters."""
    empty: int = 0
    repeated: int = 0
    equal: int = 0
    others: list[int] = field(default_factory=lambda: [0, 0])
    """Of the first `JUDGED` pairs: sides in another language, of each side."""
    distinct: list[set[str]] = field(default_factory=lambda: [set(), set()])
    """Of the first `JUDGED` pairs: words and characters of each side."""
    characters: list[set[str]] = field(default_factory=lambda: [set(), set()])
    """Of all pairs: characters of each side."""
    identified: bool = False
    """Whether languages were identified; else only their scripts."""
    first: tuple[str, str] = ("", "")
    """The first pair without an empty side."""

    @property
    def filled(self) -> int:
        """Pairs without an empty side."""
        return self.pairs - self.empty

    def average(self, side: int) -> float:
        """Words, or characters, per line of a side."""
        return sum(lengths[side] * pairs for lengths, pairs in self.lengths.items()) / max(1, self.pairs)

    def longest(self, side: int, share: float = 0.95) -> int:
        """The number of words, or characters, that this share of the lines does not exceed."""
        reached = 0
        for lengths, pairs in sorted(self.lengths.items(), key=lambda item: item[0][side]):
            reached += pairs
            if reached >= share * self.pairs:
                return lengths[side]
        return 0


def survey(split: str, source: dict[str, Any], languages: str) -> Survey:
    """Read a source, as `CustomCorpus` declares one, and count what it has.

    Raises:
        ConfigError: a file cannot be read as it is named.
        DataError: a file is damaged or misaligned, or has fewer than ten pairs.
    """
    own = CustomCorpus.model_validate({"train": [source]})
    [part] = custom_parts("new", own, languages)["train"]
    codes = languages.split("-")
    spaceless = [is_spaceless(code) for code in codes]
    found, seen, judged = Survey(), set[bytes](), list[tuple[str, str]]()
    for pair in part.lines():
        sides = pair[0], pair[1]
        found.pairs += 1
        first, second = (length(" ".join(text.split()), each) for text, each in zip(sides, spaceless, strict=True))
        found.lengths[first, second] += 1
        for characters, text in zip(found.characters, sides, strict=True):
            characters.update(text)
        filled = all(text.strip() for text in sides)
        found.empty += not filled
        if filled and found.first == ("", ""):
            found.first = sides
        keys = [key(text) for text in sides]
        found.equal += filled and keys[0] == keys[1]
        if filled and found.pairs <= COMPARED:
            digest = blake2b("\n".join(keys).encode("utf-8", "surrogatepass"), digest_size=8).digest()
            found.repeated += digest in seen
            seen.add(digest)
        if found.pairs <= JUDGED:
            judged.append(sides)
    if found.filled < 10:
        raise DataError(f"{part.name}: expected sentence pairs for {split}, got {found.filled}; give more text")
    for side, code in enumerate(codes):
        judge, found.identified = _language_judge(code)
        found.others[side] = judge([(pair[side], pair[side]) for pair in judged]).count(False)
        text = " ".join(pair[side] for pair in judged)
        found.distinct[side] = {*text, *re.findall(r"\w+", text)}
    return found


def _language_judge(code: str) -> tuple[Judge, bool]:
    """Return a judge of texts in a language, and whether it identifies languages; without py3langid, only scripts."""
    try:
        return judge_of(LanguageFilter(kind="language"), [code, code], []), True
    except ConfigError:
        return judge_of(ScriptFilter(kind="script"), [code, code], []), False


def describe(surveys: Mapping[str, Survey], codes: Sequence[str], corpus: CustomCorpus) -> Iterator[str]:
    """Yield what each split has, in words; splits without a survey are cut from the training text of the corpus."""
    for split, found in surveys.items():
        yield f"{split}: {found.pairs:,} pairs"
        for side, code in enumerate(codes):
            others, judged = found.others[side], min(JUDGED, found.pairs)
            what = "language" if found.identified else "script"
            counted = "characters" if is_spaceless(code) else "words"
            yield (
                f"  {code}: {found.average(side):.1f} {counted} a line, 95 % of lines up to {found.longest(side)}; "
                f"{others:,} of the first {judged:,} lines are in another {what}"
            )
            yield f"      {printable(shorten(found.first[side], SHOWN, placeholder=' …'))}"
            if 2 * others > judged:
                yield f"  warning: most lines are not {code}; is the order of --languages that of the text?"
        same = f"equal on both sides: {found.equal:,}, repeated: {found.repeated:,}"
        yield f"  pairs with an empty side: {found.empty:,}, {same}"
        if 2 * found.equal > found.pairs:
            yield "  warning: most pairs are equal on both sides, and cleaning drops them; is one file given twice?"
        yield from _few(split, found.pairs)
    if not surveys["train"].identified:
        yield "languages were not identified; look at the lines above, or: python3 envs/install.py run filters"
    for split in ("valid", "held_out"):
        if split not in surveys:
            [source] = corpus.splits[split]
            low, high = source.slice.per_mille if source.slice else (0, 0)
            yield f"{split}: {(high - low) / 10:g} % of the training text, by the hash of the {codes[0]} sentence"
            yield from _few(split, int(surveys["train"].filled * (high - low) / 1000), "about ")


def _few(split: str, pairs: int, about: str = "") -> Iterator[str]:
    """Yield a warning if a split has few pairs; of an estimate it says ``about``."""
    advice = f"so its scores are rough; {FEW[split]} or more are better"
    if split == "train":
        advice = "so the model will be rough; more text, or a trained model: docs/how-to/own-corpus.md, Few pairs"
    if pairs < FEW[split]:
        yield f"  warning: {about}{pairs:,} pairs are few, {advice}"
