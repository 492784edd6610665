"""Pseudo-regions: vectors of other descriptions of an image, in place of the image's own features."""

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
from nmt.data.features import check_array_name
from nmt.system import machine
from nmt.system.arrays import Indices
from nmt.system.errors import DataError
from nmt.system.files import atomic_path, check_not_input, sha256, write_json
from nmt.system.lines import read_lines

CHANNELS = BACKBONES["descriptions"]
RAREST = 3  # minimum number of descriptions that contain a word
NEAR = 0.9  # minimum Dice coefficient of two nearly equal sentences
SEED = 1  # of the randomised singular value decomposition
BLOCK = 10_000  # descriptions held in memory at a time

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Lsa:
    """Latent semantic analysis (Deerwester and others 1990): projects the TF-IDF of a sentence's words to a vector."""

    words: NDArray[np.str_]  # (V,) sorted
    idf: NDArray[np.float64]  # (V,)
    components: Vectors  # (CHANNELS, V) first right singular vectors of the TF-IDF matrix of the training text

    @classmethod
    def fit(cls, sentences: Sequence[str]) -> Self:
        """Learn from sentences; if they have fewer than CHANNELS components, the others are zeros.

        Raises:
            ValueError: no word is in `RAREST` sentences.
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
        """Read a file of `write`; raise DataError if it is missing or damaged."""
        try:
            with np.load(path) as arrays:
                return cls(arrays["words"], arrays["idf"], arrays["components"])
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise DataError(f"{path}: expected an analysis, got: {error}; make it with `nmt lsa`") from None

    def write(self, path: Path) -> None:
        """Write the file ``path``, ``.npz``, atomically."""
        with atomic_path(path) as part, part.open("wb") as stream:
            np.savez(stream, words=self.words, idf=self.idf, components=self.components)

    def vectors(self, sentences: Sequence[str]) -> Vectors:
        """Convert sentences to vectors (N, CHANNELS) of mean square 1; zeros for a sentence without known words."""
        vectorizer = _vectorizer(vocabulary=self.words)
        vectorizer.idf_ = self.idf
        projected: Vectors = np.asarray(vectorizer.transform(sentences) @ self.components.T, np.float32)
        norms: Vectors = np.linalg.norm(projected, axis=1, keepdims=True).astype(np.float32)
        norms[norms == 0] = 1
        return projected / norms * np.float32(CHANNELS**0.5)


def _vectorizer(**options: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(token_pattern=r"\w+", sublinear_tf=True, **options)


def learn(text: Path, out: Path) -> None:
    """Learn an `Lsa` from the descriptions of the training images; writes the file ``out``, ``.npz``.

    Args:
        text: file with one description per line.
        out: file to write.

    Raises:
        DataError: the text is missing or not UTF-8, or no word is in `RAREST` lines.
    """
    check_not_input(out, [text])
    sentences = list(read_lines(text))
    try:
        Lsa.fit(sentences).write(out)
    except ValueError:
        raise DataError(
            f"{text}: expected one description per line, with words that {RAREST} or more lines share, got "
            f"{len(sentences):,} lines without such words; add text"
        ) from None


def write_regions(analysis: Path, sentences: Path, descriptions: Path, out: Path) -> None:
    """Write the array ``out``, float16 (sentences, k - 1, CHANNELS), in the format of `nmt.data.extract.extract`.

    A row has the vectors of all descriptions of the image except one: the sentence itself or, if it is not among
    them, the description most similar to it. Nearly equal descriptions (`NEAR`) become zeros. A ``.json`` file beside
    the array records how it was made.

    Args:
        analysis: file written by `learn`.
        sentences: file with one sentence per image.
        descriptions: file with k descriptions per image: the first of every image, then the second of every image,
            and so on.
        out: array to write, ``.npy``.

    Raises:
        ConfigError: ``out`` does not end with .npy.
        DataError: a file is missing or not UTF-8, or the images do not have the same number, two or more, of
            descriptions.
    """
    check_array_name(out)
    check_not_input(out, [analysis, sentences, descriptions])
    started, lsa = time.perf_counter(), Lsa.load(analysis)
    texts, described = list(read_lines(sentences)), list(read_lines(descriptions))
    per_image = len(described) // max(1, len(texts))
    if per_image < 2 or per_image * len(texts) != len(described):
        raise DataError(
            f"{descriptions}: expected two or more descriptions of each of the {len(texts):,} images of {sentences}, "
            f"the same number for all images, got {len(described):,} lines"
        )
    chosen, counts = _other_descriptions(texts, described)
    with atomic_path(out) as part:
        array = np.lib.format.open_memmap(part, "w+", np.float16, (len(texts), per_image - 1, CHANNELS))
        for rows, vectors in _in_blocks(lsa, described, chosen):
            array[rows] = vectors
        array.flush()
    write_json(out.with_suffix(".json"), {
        "backbone": "descriptions", "weights_sha256": sha256(analysis), "images": len(texts), "regions": per_image - 1,
        "channels": CHANNELS, "list_sha256": sha256(descriptions), "sentences_sha256": sha256(sentences),
        "list": str(descriptions), "blank": [], "left_out": counts, "pictures": "none: other descriptions of the same "
        "image as the sentence's, not the image", "sha256": sha256(out),
        "seconds": round(time.perf_counter() - started, 1), "versions": machine.versions(),
        "code_version": machine.code_version(),
    })  # fmt: skip


def _other_descriptions(texts: Sequence[str], described: Sequence[str]) -> tuple[Indices, dict[str, int]]:
    """Return the lines of the other descriptions of each image (N, k - 1), and counts of the omitted ones by reason.

    A nearly equal description has the line -1.
    """
    images, counts, chosen = len(texts), Counter(itself=0, most_like_it=0, nearly_the_same=0), []
    for image, text in enumerate(texts):
        lines = list(range(image, len(described), images))
        similarities = [similarity(text, described[line]) for line in lines]
        nearest = int(np.argmax(similarities))
        counts["itself" if similarities[nearest] == 1 else "most_like_it"] += 1
        near = [value >= NEAR for value in similarities]
        others = [-1 if near[n] else line for n, line in enumerate(lines) if n != nearest]
        counts["nearly_the_same"] += others.count(-1)
        chosen.append(others)
    return np.array(chosen, np.int64), dict(counts)


def similarity(a: str, b: str) -> float:
    """Return the similarity of two sentences: 1 for equal `sources.key`, else the Dice coefficient of their words."""
    if key(a) == key(b):
        return 1.0
    words_a, words_b = (Counter(map(key, sentence.split())) for sentence in (a, b))
    shared = (words_a & words_b).total()
    return min(2 * shared / max(1, words_a.total() + words_b.total()), 1 - 1e-6)


def _in_blocks(lsa: Lsa, described: Sequence[str], chosen: Indices) -> Iterator[tuple[slice, NDArray[np.float16]]]:
    """Yield blocks of the array: a slice of its rows and their vectors."""
    images = max(1, BLOCK // chosen.shape[1])
    for start in range(0, len(chosen), images):
        block = chosen[start : start + images]
        vectors = lsa.vectors([described[line] if line >= 0 else "" for line in block.ravel().tolist()])
        yield slice(start, start + len(block)), vectors.reshape(*block.shape, -1).astype(np.float16)
