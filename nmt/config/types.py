"""Types that several sections of the configuration share."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from nmt.config.choices import LANGUAGE, PAIR, PAIRS, joined_subtags
from nmt.system.errors import ConfigError
from nmt.system.files import digest


def matching(pattern: str, expected: str) -> Any:
    """Constrain a string by a pattern; messages, editors and the reference say in words what is expected."""
    return Field(pattern=pattern, json_schema_extra={"patternErrorMessage": expected})


Name = Annotated[str, matching(r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", "letters, digits, _ . -")]
SystemName = Annotated[str, matching(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$", "TABLE/SYSTEM")]
_Joined = BeforeValidator(lambda value: joined_subtags(value) if isinstance(value, str) else value)
Language = Annotated[str, matching(f"^{LANGUAGE}$", "an ISO 639 code, e.g. de, zh_Hant or pt_BR"), _Joined]
Pair = Annotated[str, matching(f"^{PAIR}$", "source-target, e.g. en-de or en-zh_Hant"), _Joined]


def _listed(value: Any) -> Any:
    """Join a list of pairs by commas, the form in which they are kept; raises ValueError if one occurs twice."""
    if isinstance(value, list) and all(isinstance(pair, str) for pair in value):
        return ",".join(_different([joined_subtags(pair) for pair in value]))
    return joined_subtags(value) if isinstance(value, str) else value


_ONE = {"type": "string", "pattern": f"^{PAIR}$", "patternErrorMessage": "source-target, e.g. en-de or en-zh_Hant"}
Pairs = Annotated[
    str,
    matching(f"^{PAIRS}$", "source-target, e.g. en-de, or a list, e.g. [en-de, en-fr, de-en]"),
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [_ONE, {"type": "array", "items": _ONE, "minItems": 1, "uniqueItems": True}]}),
]
"""One pair, or several joined by commas; users write a list."""
BatchSize = Annotated[
    str, matching(r"^[1-9]\d* (sentences|tokens)$", "a number and sentences or tokens, e.g. 64 sentences")
]
Interval = Annotated[str, matching(r"^[1-9]\d* (epochs|updates)$", "4 epochs | 500 updates")]


def _number(value: Any) -> Any:
    """Reject booleans, which Python treats as 0 and 1."""
    if isinstance(value, bool):
        raise ValueError(f"expected a number, got {str(value).lower()}")
    return value


Number = BeforeValidator(_number)  # put it last: the JSON schema loses a bound that follows it
Count = Annotated[int, Field(ge=0, lt=2**53), Number]
Positive = Annotated[int, Field(ge=1, lt=2**53), Number]
NonNegative = Annotated[float, Field(ge=0, le=1e30), Number]
Score = Annotated[float, Field(ge=0, le=100), Number]
AboveZero = Annotated[float, Field(gt=0, le=1e30), Number]
Probability = Annotated[float, Field(ge=0, lt=1), Number]
Seed = Annotated[int, Field(ge=0, lt=2**32), Number]
TAG = r"^[A-Za-z]+$"
SHA256 = r"^[0-9a-f]{64}$"


def _different(values: list[Any]) -> list[Any]:
    """Reject a list with repeated values."""
    seen = set[Any]()
    for value in values:
        if value in seen:
            raise ValueError(f"expected different values, got '{value}' twice")
        seen.add(value)
    return values


Different = AfterValidator(_different)
Seeds = Annotated[list[Seed], Field(min_length=1), Different]
Names = Annotated[list[Name], Field(min_length=1), Different]


class Strict(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        allow_inf_nan=False,
        defer_build=True,  # a class is built when it is first used, so that commands start fast
    )

    def non_defaults(self) -> dict[str, Any]:
        """Return the non-default fields as JSON, so adding a field later leaves existing hashes unchanged."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def slug(self, prefix: str) -> str:
        """Return a file name that depends on every value: ``prefix-1a2b3c4d``."""
        return f"{prefix}-{digest(self.non_defaults())}"


def _not_empty(value: Any) -> Any:
    if value in ("", None):  # pathlib reads an empty text as the working folder
        raise ValueError("expected a path, got nothing; name a file or folder, or remove the key")
    return value


def _expand_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"expected a path, got {path}: {error}") from None


UserPath = Annotated[Path, BeforeValidator(_not_empty), AfterValidator(_expand_home)]
"""A path as users write it; ``~`` stands for their home."""


def check_name(name: str, where: str) -> None:
    """Raise ConfigError unless a name is safe in paths and commands: only letters, digits, _ . -"""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        raise ConfigError(f"{where}: expected a name of letters, digits, _ . -, got '{name}'") from None


def amount(text: str) -> tuple[int, str]:
    """Split a checked quantity: ``"64 sentences"`` → ``(64, "sentences")``."""
    number, unit = text.split()
    return int(number), unit
