"""Configuration of filters of training pairs."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from nmt.config.selection import Selection
from nmt.config.types import Count, Language, Name, Number, Seed, Strict, SystemName, UserPath

Share = Annotated[float, Field(ge=0, le=1), Number]
Similarity = Annotated[float, Field(ge=0.7, le=1), Number]
Finite = Annotated[float, Field(ge=-1e30, le=1e30), Number]
Parameter = bool | float | str | list[bool | float | str]


class LanguageFilter(Strict):
    """Drop pairs with a side in another language, by the naive Bayes model of py3langid (140 languages)."""

    kind: Literal["language"] = Field(description="kind of the filter")
    minimum: Share = Field(0.01, description="least probability of the expected language, on each side")
    shortest: Count = Field(20, description="letters that a side must have to be judged; names are of any language")


class ScriptFilter(Strict):
    """Drop pairs with a side that has few letters of its language's script."""

    kind: Literal["script"] = Field(description="kind of the filter")
    share: Share = Field(0.5, description="least share of the script's letters and marks among all but blanks, digits")
    scripts: dict[Language, Name] = Field(
        {}, description="Unicode script of a language, such as Devanagari; others have the usual one"
    )


class NumbersFilter(Strict):
    """Drop pairs whose sides have different numbers, in digits of any script; numbers up to 100 may be words."""

    kind: Literal["numbers"] = Field(description="kind of the filter")
    share: Share = Field(0.5, description="least share of digits in numbers that the other side has too")


class PunctuationFilter(Strict):
    """Drop pairs whose sides have different marks: full stops, ? ! : ; % and brackets, of all scripts."""

    kind: Literal["punctuation"] = Field(description="kind of the filter")
    differences: Count = Field(2, description="most marks that one side has and the other has not")


class EqualFilter(Strict):
    """Drop pairs whose sides are equal, apart from case, spaces and punctuation."""

    kind: Literal["equal"] = Field(description="kind of the filter")


class DuplicatesFilter(Strict):
    """Drop pairs that nearly equal an earlier one, by MinHash of the trigrams of letters and digits of both sides."""

    kind: Literal["duplicates"] = Field(description="kind of the filter")
    similarity: Similarity = Field(0.85, description="least Jaccard similarity; 1: equal but for case and punctuation")


class OverlapFilter(Strict):
    """Drop pairs with a side that nearly equals a sentence of validation or test text."""

    kind: Literal["overlap"] = Field(description="kind of the filter")
    similarity: Similarity = Field(0.85, description="least Jaccard similarity; 1: equal but for case and punctuation")


class ScoresFilter(Strict):
    """Drop pairs with a low score: in a file, or by systems of tables, which the stage ``score_pairs`` asks."""

    kind: Literal["scores"] = Field(description="kind of the filter")
    minimum: Finite = Field(description="least score")
    file: UserPath | None = Field(
        None, description="a number on each line, one for each raw training pair; plain or packed"
    )
    forward: SystemName | None = Field(
        None, description="instead of a file: system that scores the pairs, as TABLE/SYSTEM"
    )
    backward: SystemName | None = Field(None, description="system of the other direction, for the dual cross-entropy")
    at: Selection = Field("best", description="checkpoint selection of these systems")
    seed: Seed = Field(1, description="seed of these systems")

    @model_validator(mode="after")
    def _has_one_origin(self) -> Self:
        if bool(self.file) == bool(self.forward):
            raise ValueError("expected file: or forward:, got " + ("both" if self.file else "none"))
        if self.backward and not self.forward:
            raise ValueError("backward: goes with forward:, not with file:; name the system of the text's direction")
        return self

    @property
    def scorers(self) -> list[tuple[str, str]]:
        """Table and name of each system that scores, the one of the text's direction first."""
        return [(key.split("/")[0], key.split("/")[1]) for key in (self.forward, self.backward) if key]

    def scored_by(self, path: UserPath) -> Self:
        """The same filter with its scores in a file."""
        return self.model_copy(update={"file": path} | dict.fromkeys(("forward", "backward")))


class OpusFilter(Strict):
    """Drop pairs that a filter of the package OpusFilter does not accept."""

    kind: Literal["opusfilter"] = Field(description="kind of the filter")
    name: Name = Field(description="class of the filter, such as LengthRatioFilter")
    parameters: dict[Name, Parameter] = Field({}, description="its parameters")

    @field_validator("name")
    @classmethod
    def _is_class(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Z]\w*Filter", value):
            raise ValueError(f"expected a class of OpusFilter, such as LengthRatioFilter, got '{value}'")
        return value


def _kind(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return f"<{kind}>"


Filter = Annotated[
    Annotated[LanguageFilter, Tag("<language>")]
    | Annotated[ScriptFilter, Tag("<script>")]
    | Annotated[NumbersFilter, Tag("<numbers>")]
    | Annotated[PunctuationFilter, Tag("<punctuation>")]
    | Annotated[EqualFilter, Tag("<equal>")]
    | Annotated[DuplicatesFilter, Tag("<duplicates>")]
    | Annotated[OverlapFilter, Tag("<overlap>")]
    | Annotated[ScoresFilter, Tag("<scores>")]
    | Annotated[OpusFilter, Tag("<opusfilter>")],
    Discriminator(_kind),
]
