"""Pseudo-regions: other descriptions of an image as vectors, where models expect the features of the image itself."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from nmt.config.models import BACKBONES
from nmt.corpora.sources import key
from nmt.system import machine
from nmt.system.errors import DataError
from nmt.system.files import atomic_path, check_apart, read_lines, sha256, write_json
from nmt.system.indices import Indices

CHANNELS = BACKBONES["descriptions"]
RAREST = 3  # descriptions that a word must be in
NEAR = 0.9  # Dice coefficient of two sentences' words from which they are nearly the same
SEED = 1  # of the singular value decomposition, a randomised one
BLOCK = 10_000  # descriptions in memory at a time

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Lsa:
    """Latent semantic analysis (Deerwester and others 1990): sentences as vectors of their words' TF-IDF."""

    words: NDArray[np.str_]  # (V,), sorted
    idf: NDArray[np.float64]  # (V,)
    components: Vectors  # (CHANNELS, V), the first right singular vectors of the training text's TF-IDF

    @classmethod
    def fit(cls, sentences: Sequence[str]) -> Self:
        """Learn from sentences; raises ValueError where no word is in `RAREST` of them.

        A text of few words has fewer components than CHANNELS; the others are zeros.
        """
        from sklearn.decomposition import TruncatedSVD

        vectorizer = _vectorizer(min_df=RAREST)
        tf_idf = vectorizer.fit_transform(sentences)
        words = vectorizer.get_feature_names_out().astype(str)
        svd = TruncatedSVD(min(CHANNELS, *tf_idf.shape), algorithm="randomized", random_state=SEED).fit(tf_idf)
        components = np.zeros((CHANNELS, len(words)), np.float32)
        components[: len(svd.components_)] = svd.components_
        return cls(words, vectorizer.idf_, components)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `write` wrote; raises DataError."""
        try:
            with np.load(path) as found:
                return cls(found["words"], found["idf"], found["components"])
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise DataError(f"{path}: expected an analysis, got: {error}; make it with `nmt lsa`") from None

    def write(self, path: Path) -> None:
        """Write a whole file, ``.npz``."""
        with atomic_path(path) as part, part.open("wb") as stream:
            np.savez(stream, words=self.words, idf=self.idf, components=self.components)

    def vectors(self, sentences: Sequence[str]) -> Vectors:
        """Sentences as vectors (n, CHANNELS) of mean square 1; zeros for one without a known word."""
        vectorizer = _vectorizer(vocabulary=self.words)
        vectorizer.idf_ = self.idf
        found: Vectors = np.asarray(vectorizer.transform(sentences) @ self.components.T, np.float32)
        norms: Vectors = np.linalg.norm(found, axis=1, keepdims=True).astype(np.float32)
        norms[norms == 0] = 1
        return found / norms * np.float32(CHANNELS**0.5)


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(token_pattern=r"\w+", sublinear_tf=True, **options)


def learn(text: Path, out: Path) -> None:
    """Analyse the descriptions of the training images, one a line, into ``out``, ``.npz``.

    Raises:
        DataError: the text is missing, not UTF-8, or no word is in several of its lines.
    """
    check_apart(out, [text])
    sentences = list(read_lines(text))
    try:
        Lsa.fit(sentences).write(out)
    except ValueError:
        raise DataError(
            f"{text}: expected descriptions, a line each, with words that are in {RAREST} of them or more, got "
            f"{len(sentences):,} lines without; give more text"
        ) from None


def write_regions(analysis: Path, sentences: Path, descriptions: Path, out: Path) -> None:
    """Write ``out``, float16 (sentences, k - 1, CHANNELS), as `nmt.data.extract.extract` does, and its ``.json``.

    Args:
        analysis: that `learn` wrote.
        sentences: one an image.
        descriptions: k times as many: the first of every image, then the second of every image, and so on.
        out: the array, ``.npy``. Its rows are the other descriptions of each image: without the sentence itself, or
            what is most like it; one that is nearly the same (`NEAR`) becomes zeros.

    Raises:
        DataError: a file is missing or not UTF-8, or there are not several descriptions of every image.
    """
    check_apart(out, [analysis, sentences, descriptions])
    started, lsa = time.perf_counter(), Lsa.load(analysis)
    texts, described = list(read_lines(sentences)), list(read_lines(descriptions))
    of_each = len(described) // max(1, len(texts))
    if of_each < 2 or of_each * len(texts) != len(described):
        raise DataError(
            f"{descriptions}: expected two or more descriptions of each of the {len(texts):,} images that {sentences} "
            f"describes, as many of each, got {len(described):,} lines"
        )
    chosen, counts = _others(texts, described)
    with atomic_path(out) as part:
        array = np.lib.format.open_memmap(part, "w+", np.float16, (len(texts), of_each - 1, CHANNELS))
        for rows, vectors in _in_blocks(lsa, described, chosen):
            array[rows] = vectors
        array.flush()
    write_json(out.with_suffix(".json"), {
        "backbone": "descriptions", "weights_sha256": sha256(analysis), "images": len(texts), "regions": of_each - 1,
        "channels": CHANNELS, "list_sha256": sha256(descriptions), "sentences_sha256": sha256(sentences),
        "list": str(descriptions), "blank": [], "left_out": counts, "pictures": "none: other descriptions of the same "
        "image as the sentence's, not the image", "sha256": sha256(out),
        "seconds": round(time.perf_counter() - started, 1), "versions": machine.versions(),
        "code_version": machine.code_version(),
    })  # fmt: skip


def _others(texts: Sequence[str], described: Sequence[str]) -> tuple[Indices, dict[str, int]]:
    """For each sentence the lines of its image's other descriptions (n, k - 1), -1 for none; and counts of why."""
    images, counts, chosen = len(texts), Counter(itself=0, most_like_it=0, nearly_the_same=0), []
    for image, text in enumerate(texts):
        lines = list(range(image, len(described), images))
        likeness = [likeness_of(text, described[line]) for line in lines]
        nearest = int(np.argmax(likeness))
        counts["itself" if likeness[nearest] == 1 else "most_like_it"] += 1
        near = [value >= NEAR for value in likeness]
        others = [-1 if near[n] else line for n, line in enumerate(lines) if n != nearest]
        counts["nearly_the_same"] += others.count(-1)
        chosen.append(others)
    return np.array(chosen, np.int64), dict(counts)


def likeness_of(one: str, other: str) -> float:
    """How alike two sentences are: 1 where their `sources.key` is one, else the Dice coefficient of their words."""
    if key(one) == key(other):
        return 1.0
    ours, theirs = (Counter(map(key, sentence.split())) for sentence in (one, other))
    shared = (ours & theirs).total()
    return min(2 * shared / max(1, ours.total() + theirs.total()), 1 - 1e-6)


def _in_blocks(lsa: Lsa, described: Sequence[str], chosen: Indices) -> Iterator[tuple[slice, NDArray[np.float16]]]:
    """Rows of the array and their vectors, some images at a time."""
    images = max(1, BLOCK // chosen.shape[1])
    for start in range(0, len(chosen), images):
        block = chosen[start : start + images]
        vectors = lsa.vectors([described[line] if line >= 0 else "" for line in block.ravel().tolist()])
        yield slice(start, start + len(block)), vectors.reshape(*block.shape, -1).astype(np.float16)
