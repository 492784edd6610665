"""Configuration of text: corpora of one's own, cleaning, subwords."""

from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    model_validator,
)

from nmt.config.types import Count, Language, Name, Number, Positive, Probability, Strict, UserPath


class Cleaning(Strict):
    """The recipe that turns raw text into the text that models see (in this order)."""

    unicode: Literal["NFC", "NFKC", "none"] = "NFC"
    devanagari: bool = Field(
        False, description="digits, danda, nukta, joiners and vowel signs of Devanagari in one spelling"
    )
    lowercase: bool = True
    punctuation: bool = Field(True, description="Moses punctuation normalisation")
    ranges: bool = Field(False, description="the dash between two numbers in a word: to (English), तक (Hindi)")
    symbols: bool = Field(False, description="English & and currency signs in words: $1 becomes 1 dollar")
    hyphens: bool = Field(False, description="the hyphen between two words becomes a space")
    tokenize: Literal["moses", "none"] = "moses"
    transliterate: Literal["none", "hk", "iast", "itrans"] = Field(
        "none",
        description="Devanagari in Latin letters: Harvard-Kyoto, IAST or ITRANS; only in languages written in it",
    )
    characters: Literal["any", "latin"] = Field(
        "any", description="latin: keep Latin letters, digits and punctuation, drop every other character"
    )
    max_words: Positive = Field(100, description="training pairs with a longer side are dropped")
    max_ratio: Annotated[float, Field(ge=1), Number] = Field(
        9.0, description="training pairs with a larger ratio of lengths are dropped"
    )
    deduplicate: bool = Field(False, description="drop exact repetitions of a training pair")


class SpecialIds(Strict):
    """Ids of the four special pieces: 0 to 3 in any order."""

    pad: Count = 0
    unk: Count = 1
    bos: Count = 2
    eos: Count = 3

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if sorted([self.pad, self.unk, self.bos, self.eos]) != [0, 1, 2, 3]:
            raise ValueError("pad, unk, bos and eos must be 0, 1, 2 and 3 in some order")
        return self


class Subwords(Strict):
    """How text becomes ids. Learned from training text only."""

    kind: Literal["bpe", "bbpe", "words"] = Field(
        "bpe", description="bbpe: BPE over the bytes of UTF-8 (Wang, Cho and Gu 2019), to which nothing is unknown"
    )
    size: Annotated[int, Field(ge=8, lt=2**31), Number] = Field(
        8192, description="pieces, the four special ones included; for words: at most"
    )
    joint: bool = Field(True, description="one vocabulary for both sides, or one a side of this size each")
    ids: SpecialIds = SpecialIds()
    dropout: Probability = Field(
        0.0, description="of each merge, in the training text alone: BPE dropout (Provilkov and others 2020)"
    )
    segmentations: Positive = Field(
        1, description="with dropout: times that the training text is encoded, each cut anew; an epoch is all of them"
    )

    @model_validator(mode="after")
    def _dropout_has_merges(self) -> Self:
        if self.dropout and self.kind == "words":
            raise ValueError("dropout leaves out merges, and kind: words has none; remove it, or choose kind: bpe")
        if self.segmentations > 1 and not self.dropout:
            raise ValueError(f"segmentations: {self.segmentations} would all be alike without dropout; give both")
        return self

    @model_validator(mode="after")
    def _holds_every_byte(self) -> Self:
        if self.kind == "bbpe" and self.size < 256 + len(SpecialIds.model_fields):
            raise ValueError(f"kind: bbpe needs size: 260 or more, 256 bytes and 4 special pieces; got {self.size}")
        return self


class CustomCorpus(Strict):
    """A user's own text: for each split, one UTF-8 (or gzip) file a language, line by line.

    Parallel; or in one language and without ``valid``, to be translated for `AddedText`.
    """

    train: dict[Language, UserPath]
    valid: dict[Language, UserPath] = {}
    tests: dict[Name, dict[Language, UserPath]] = {}
    licence: str = "not stated"


class Images(Strict):
    """The pictures of a corpus: a folder of them and a list of names a split, or features that are there already."""

    folder: UserPath | None = Field(None, description="of the pictures")
    lists: dict[Name, UserPath] = Field(
        {}, description="for each split a file of their names, line by line as its text"
    )
    missing: Literal["refuse", "blank"] = Field("refuse", description="what to do about pictures that cannot be read")
    weights: UserPath | None = Field(
        None, description="a file of the backbone's weights, where it cannot be downloaded"
    )
    features: UserPath | None = Field(None, description="a folder of arrays instead, train.npy and so on, a row a line")

    @model_validator(mode="after")
    def _one_or_the_other(self) -> Self:
        if (self.features is None) == (self.folder is None):
            raise ValueError("expected either folder, with lists, or features")
        return self
