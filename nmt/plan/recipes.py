"""What some files are made from, as the rules that make them ask."""

from pathlib import Path
from typing import NamedTuple

from nmt.config.corpus.sources import CustomCorpus


class RawText(NamedTuple):
    """A corpus, for ``nmt download``."""

    corpus: str
    own_files: list[str]
    """The user's own files; none for the corpora that come with nmt."""
    options: list[str]
    custom: CustomCorpus | None
    """The user's declaration; None for the corpora that come with nmt."""


class Translation(NamedTuple):
    """Text that a model translates for another system's training."""

    model: Path
    text: Path
    """Folder of raw text."""
    language: str
    config: str
    """The decoding, as JSON."""
    options: list[str]


class PairScores(NamedTuple):
    """Scores of raw training pairs by models of both directions, or of one."""

    raw: Path
    """Folder of raw text."""
    models: list[Path]
    """The first translates in the direction of the text."""
    languages: str


class Mixture(NamedTuple):
    """Raw text with added pairs: the text itself, what was translated, the translations, and how to mix them."""

    raw: Path
    text: Path
    translations: Path
    options: list[str]


class Pictures(NamedTuple):
    """The pictures of a split, for ``nmt features``."""

    folder: Path
    names: Path
    """The file that lists the pictures' names."""
    source: Path
    """The input of the rule: if it changes, the features are made again."""
    options: list[str]
    own_files: list[Path]
    """The user's own list and weights, if the pictures are the user's."""


class Output(NamedTuple):
    """Another system's translations of a test set, for ``nmt score``."""

    hypotheses: Path
    """The file: plain text, one sentence per line."""
    folder: Path
    """The folder of its scores."""
    test: str
    languages: str
    raw: Path
    """Folder of the raw text of the test set."""
    clean: Path
    """Folder of the cleaned text of the test set."""
