"""Word vectors for embeddings to start from, learned by the skip-gram of word2vec (Mikolov and others 2013)."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nmt.config.data import Cleaning
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import atomic_path, check_not_input, write_lines
from nmt.system.lines import read_lines
from nmt.text.cleaner import clean_line

RAREST = 5  # minimum number of times that a word with a vector occurs
WINDOW = 5  # words on either side that a word predicts
PASSES = 10  # over the text
SEED = 1


class _Sentences:
    """The words of each line; gensim reads the text once per pass."""

    def __init__(self, text: Path) -> None:
        self.text = text

    def __iter__(self) -> Iterator[list[str]]:
        return (line.split() for line in read_lines(self.text))


def check_gensim() -> None:
    """Raise ConfigError if the package gensim is missing."""
    if find_spec("gensim") is None:
        raise ConfigError(
            "learned word vectors need the package gensim, which is not installed; "
            "python3 envs/install.py run vectors, or leave the text out of word_vectors"
        )


def learn(text: Path, out: Path, width: int, cleaning: Cleaning, language: str) -> None:
    """Learn vectors of the words that occur `RAREST` times or more; the same text gives the same vectors.

    Args:
        text: raw text, one sentence per line.
        out: file to write, in word2vec's text format: a line of two counts, then a word and its numbers per line.
        width: numbers per vector.
        cleaning: how the text is cleaned.
        language: of the text.

    Raises:
        ConfigError: gensim is not installed.
        DataError: the text is missing or not UTF-8, or no word occurs `RAREST` times.
    """
    check_gensim()
    check_not_input(out, [text])
    cleaned = out.with_name(f".{out.name}.cleaned")
    try:
        write_lines(cleaned, (clean_line(line, language, cleaning) for line in read_lines(text)))
        vectors = _learned(_Sentences(cleaned), width)
    finally:
        cleaned.unlink(missing_ok=True)
    if not len(vectors):
        raise DataError(f"{text}: expected words that occur {RAREST} times or more, got none; add text")
    with atomic_path(out) as part:
        vectors.save_word2vec_format(str(part))


def _learned(sentences: _Sentences, width: int) -> Any:
    """Return gensim's ``KeyedVectors``; without vectors if all words are rare."""
    from gensim.models import Word2Vec

    # One worker: several would make the vectors depend on their timing.
    model = Word2Vec(vector_size=width, window=WINDOW, min_count=RAREST, sg=1, epochs=PASSES, workers=1, seed=SEED)
    model.build_vocab(sentences)
    if len(model.wv):
        model.train(sentences, total_examples=model.corpus_count, epochs=model.epochs)
    return model.wv
