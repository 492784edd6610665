"""The direction of a translation, of those that a model has learned or can combine."""

import re
from collections.abc import Sequence
from pathlib import Path

from nmt.config.choices import PAIRS
from nmt.system.errors import ConfigError, DataError


def read_pairs(languages: str, file: Path) -> list[str]:
    """Split the pairs that a file names; they reach the terminal and the page, so nothing else may be in them."""
    if not re.fullmatch(PAIRS, languages):
        raise DataError(
            f"{file}: languages: expected source-target, e.g. en-de, got {languages[:20]!r}; write the folder again "
            "with `nmt average`"
        )
    return languages.split(",")


def choose_direction(
    where: object, pairs: Sequence[str], source: str | None = None, target: str | None = None
) -> list[str]:
    """Return the source and the target language of a translation.

    Args:
        where: the model, for messages.
        pairs: the pairs of languages that it was trained on, e.g. ``en-de``.
        source: the language of the text; None: the only one that suits.
        target: the language to translate into; None: the only one that suits.

    Returns:
        A pair of the training. If both languages are given, it may be one that the training lacks (zero-shot).

    Raises:
        ConfigError: the model does not know a language, or several pairs suit.
    """
    known = [pair.split("-") for pair in pairs]
    for side, (option, name, code) in enumerate((("from", "source", source), ("to", "target", target))):
        languages = list(dict.fromkeys(pair[side] for pair in known))
        if code is not None and code not in languages:
            raise ConfigError(
                f"{where}: --{option}: expected a {name} language among {', '.join(languages)}, got '{code}'; the "
                f"model was trained on {', '.join(pairs)}"
            )
    if source is not None and target is not None:
        if source == target:
            raise ConfigError(f"{where}: expected two different languages, got --from {source} --to {target}")
        return [source, target]
    suitable = [pair for pair in known if source in (None, pair[0]) and target in (None, pair[1])]
    if len(suitable) > 1:
        side = 0 if target is not None else 1
        choices = ", ".join(dict.fromkeys(pair[side] for pair in suitable))
        option, name = (("from", "source"), ("to", "target"))[side]
        raise ConfigError(
            f"{where}: translates {', '.join('-'.join(pair) for pair in suitable)}; name the {name} language, "
            f"--{option}: one of {choices}"
        )
    return suitable[0]
