"""Configuration of data: the user's own corpora, cleaning, subwords, pictures."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from nmt.config.corpus.filters import Filter, ScoresFilter
from nmt.config.corpus.noise import Noise
from nmt.config.types import Count, Name, Number, Positive, Probability, Strict, UserPath


class Cleaning(Strict):
    """The recipe that turns raw text into the text that models see. The steps run in this order."""

    unicode: Literal["NFC", "NFKC", "none"] = Field("NFC", description="Unicode normalisation")
    devanagari: bool = Field(
        False, description="one spelling for digits, danda, nukta, joiners and vowel signs of Devanagari"
    )
    lowercase: bool = Field(True, description="lowercase all text")
    punctuation: bool = Field(
        True, description="Moses punctuation normalisation, of Latin, Greek and Cyrillic text and Hindi"
    )
    ranges: bool = Field(False, description="replace the dash between two numbers by to (English) or तक (Hindi)")
    symbols: bool = Field(False, description="write English & and currency signs as words: $1 becomes 1 dollar")
    hyphens: bool = Field(False, description="replace the hyphen between two words by a space")
    tokenize: Literal["moses", "none"] = Field(
        "moses", description="tokeniser; text of languages written without spaces stays as it is"
    )
    transliterate: Literal["none", "hk", "iast", "itrans"] = Field(
        "none", description="write Devanagari in Latin letters by Harvard-Kyoto, IAST or ITRANS; other scripts stay"
    )
    characters: Literal["any", "latin"] = Field(
        "any", description="characters to keep; latin: Latin letters, digits and punctuation only"
    )
    max_words: Positive = Field(100, description="drop training pairs with a side of more words")
    max_characters: Positive = Field(
        500, description="the same for a language written without spaces: drop a side of more characters"
    )
    max_ratio: Annotated[float, Field(ge=1), Number] = Field(
        9.0, description="drop training pairs with a larger ratio of lengths"
    )
    deduplicate: bool = Field(False, description="drop exact repetitions of a training pair")
    filters: list[Filter] = Field(
        [],
        max_length=100,
        exclude_if=lambda value: not value,
        description="filters of raw training pairs, in this order (docs/how-to/filters.md)",
    )
    noise: Noise = Field(
        Noise(),
        exclude_if=lambda value: value == Noise(),
        description="noise in training text, before the first step (docs/how-to/filters.md)",
    )

    @property
    def scores(self) -> list[ScoresFilter]:
        """The filters by scores."""
        return [each for each in self.filters if isinstance(each, ScoresFilter)]

    @model_validator(mode="after")
    def _case_is_kept(self) -> Self:
        case = [kind for kind in ("title", "upper", "lower") if getattr(self.noise, kind)]
        if self.lowercase and case:
            raise ValueError(f"noise.{case[0]} changes letter case, which lowercase: true removes; set it to false")
        return self


class SpecialIds(Strict):
    """Ids of the four special pieces: 0 to 3 in any order.

    An imported vocabulary may have any ids. If padding begins its translations, this is its BOS.
    """

    pad: Count = Field(0, description="padding")
    unk: Count = Field(1, description="unknown piece")
    bos: Count = Field(2, description="beginning of sentence")
    eos: Count = Field(3, description="end of sentence")


def _first_four(ids: SpecialIds) -> SpecialIds:
    if sorted(ids.model_dump().values()) != [0, 1, 2, 3]:
        raise ValueError("pad, unk, bos and eos must be 0, 1, 2 and 3 in some order")
    return ids


class Subwords(Strict):
    """How text becomes ids. Learned from training text only."""

    kind: Literal["bpe", "bbpe", "unigram", "char", "words"] = Field(
        "bpe",
        description="kind of subwords; bbpe: BPE over the bytes of UTF-8, without unknown pieces (Wang, Cho and Gu "
        "2019); unigram: pieces of a unigram language model (Kudo 2018); char: single characters",
    )
    size: Annotated[int, Field(ge=8, lt=2**31), Number] = Field(
        8192,
        description="number of pieces, the four special ones included; for words, unigram and char: the largest number",
    )
    joint: bool = Field(True, description="one vocabulary for both languages; false: one of this size for each")
    ids: Annotated[SpecialIds, AfterValidator(_first_four)] = Field(
        SpecialIds(), description="ids of the special pieces"
    )
    character_coverage: Annotated[float, Field(gt=0, le=1), Number] = Field(
        1.0,
        description="share of the text's characters that have a piece; 0.9995 leaves out the rarest of Chinese and "
        "Japanese; for bpe, unigram and char",
    )
    byte_fallback: bool = Field(
        False,
        description="256 pieces for the bytes of characters without a piece, so that none is unknown; for bpe, unigram "
        "and char",
    )
    dropout: Probability = Field(
        0.0,
        description="BPE dropout: probability to leave out a merge, in training text only (Provilkov and others 2020)",
    )
    segmentations: Positive = Field(
        1, description="with dropout: number of random segmentations of the training text; an epoch has all of them"
    )

    @model_validator(mode="after")
    def _dropout_is_possible(self) -> Self:
        if self.dropout and self.kind not in ("bpe", "bbpe"):
            raise ValueError(
                f"dropout leaves out BPE merges, but kind: {self.kind} has none; remove it, or choose kind: bpe"
            )
        if self.segmentations > 1 and not self.dropout:
            raise ValueError(
                f"segmentations: {self.segmentations} would all be the same without dropout; give dropout too, or "
                "leave segmentations out"
            )
        return self

    @model_validator(mode="after")
    def _size_covers_bytes(self) -> Self:
        cause = "kind: bbpe" if self.kind == "bbpe" else "byte_fallback: true"
        if (self.kind == "bbpe" or self.byte_fallback) and self.size < 256 + len(SpecialIds.model_fields):
            raise ValueError(f"{cause} needs size: 260 or more (256 bytes, 4 special pieces), got {self.size}")
        return self

    @model_validator(mode="after")
    def _characters_are_pieces(self) -> Self:
        for key in ("character_coverage", "byte_fallback"):
            if self.kind in ("bbpe", "words") and key in self.non_defaults():
                raise ValueError(f"{key} is for kind: bpe, unigram or char, got {self.kind}; leave it out")
        return self


class InheritedSubwords(Subwords):
    """Subwords that were learned elsewhere, for the parent of a system; no key of a table."""

    origin: str = Field(description="digest of what they were learned from")

    def slug(self, prefix: str) -> str:
        """Return a file name that tells inherited subwords from learned ones: ``prefix-from-1a2b3c4d``."""
        return super().slug(f"{prefix}-from")


class Images(Strict):
    """The pictures of a corpus: a folder with one list of names per split, or ready image features."""

    folder: UserPath | None = Field(None, description="folder of the pictures")
    lists: dict[Name, UserPath] = Field({}, description="for each split a file of picture names, one per line of text")
    missing: Literal["refuse", "blank"] = Field(
        "refuse", description="if a picture cannot be read; refuse: stop; blank: use a blank picture"
    )
    weights: UserPath | None = Field(None, description="file of the backbone's weights; null: a package or a download")
    features: UserPath | None = Field(
        None, description="folder of ready arrays instead of pictures, train.npy and so on, one row per line"
    )

    @model_validator(mode="after")
    def _folder_or_features(self) -> Self:
        if (self.features is None) == (self.folder is None):
            raise ValueError("expected either folder with lists, or features")
        return self
