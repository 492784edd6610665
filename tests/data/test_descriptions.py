"""Pseudo-regions: other descriptions of an image as vectors, without the sentence that is translated."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import run

from nmt.data.descriptions import CHANNELS, Lsa, similarity
from nmt.system.errors import DataError

COLOURS = ["red", "green", "blue", "black"]
ANIMALS = ["dog", "cat", "horse", "cow"]
#: Three descriptions of each of sixteen images, as the files have them: all first ones, all second, all third.
DESCRIBED = [
    [f"A {colour} {animal} {verb}." for colour in COLOURS for animal in ANIMALS] for verb in ("runs", "sleeps", "barks")
]
ALL = [sentence for sentences in DESCRIBED for sentence in sentences]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {"descriptions": ALL, "sentences": [s.upper() for s in DESCRIBED[1]]}
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    code, output = run("lsa", tmp_path / "descriptions", tmp_path / "lsa.npz")
    assert code == 0, output
    return tmp_path


def regions(folder: Path, name: str = "out") -> np.ndarray:
    where = (folder / "lsa.npz", folder / "sentences", folder / "descriptions", folder / f"{name}.npy")
    code, output = run("pseudo-regions", *where)
    assert code == 0, output
    return np.load(folder / f"{name}.npy")


@pytest.mark.integration
def test_a_row_is_the_other_descriptions_without_the_sentence_itself(folder: Path) -> None:
    array, lsa = regions(folder), Lsa.load(folder / "lsa.npz")
    assert array.shape == (16, 2, CHANNELS) and array.dtype == np.float16
    for image in range(16):
        expected = lsa.vectors([DESCRIBED[0][image], DESCRIBED[2][image]])
        np.testing.assert_allclose(array[image], expected, rtol=1e-3, atol=1e-3)
    making = json.loads((folder / "out.json").read_text())
    assert making["left_out"] == {"itself": 16, "most_like_it": 0, "nearly_the_same": 0}
    assert (making["images"], making["regions"], making["channels"]) == (16, 2, CHANNELS)
    np.testing.assert_array_equal(array, regions(folder, "again"))


def test_what_is_most_like_the_sentence_is_left_out_and_what_is_nearly_the_same_is_blank(folder: Path) -> None:
    long = "the man in a long blue coat walks a small red dog in the park"
    (folder / "sentences").write_text(f"{long}\n")
    (folder / "descriptions").write_text(f"{long} today\n{long} again\na red dog runs\n")
    array = regions(folder)
    assert not array[0, 0].any() and array[0, 1].any()
    left_out = json.loads((folder / "out.json").read_text())["left_out"]
    assert left_out == {"itself": 0, "most_like_it": 1, "nearly_the_same": 1}


def test_vectors_are_tf_idf_in_fewer_dimensions() -> None:
    """With as many components as words nothing is lost: the cosines are those of TF-IDF, computed here by hand."""
    vectors = Lsa.fit(ALL).vectors(ALL)
    split = [sentence.lower().strip(".").split() for sentence in ALL]
    words = sorted({word for sentence in split for word in sentence})
    counts = np.array([[sentence.count(word) for word in words] for sentence in split], float)
    tf_idf = counts * (np.log((1 + len(ALL)) / (1 + (counts > 0).sum(0))) + 1)
    tf_idf /= np.linalg.norm(tf_idf, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors @ vectors.T / CHANNELS, tf_idf @ tf_idf.T, atol=1e-5)
    np.testing.assert_allclose((vectors**2).mean(1), 1, rtol=1e-5)
    assert not Lsa.fit(ALL).vectors(["unheard of", ""]).any()


def test_likeness_is_one_only_for_the_same_words_in_order() -> None:
    assert similarity("A dog, running!", "a DOG running") == 1
    assert similarity("a dog running", "running a dog") < 1
    assert similarity("a b c", "a b d") == pytest.approx(2 / 3)
    assert similarity("", "a dog") == 0


@pytest.mark.parametrize("lines", ["a dog\n", "a dog\n" * 17, ""])
def test_images_with_differently_many_descriptions_are_refused(folder: Path, lines: str) -> None:
    (folder / "descriptions").write_text(lines)
    where = (folder / "lsa.npz", folder / "sentences", folder / "descriptions", folder / "out.npy")
    code, output = run("pseudo-regions", *where)
    assert code == 1 and "two or more descriptions of each of the 16 images" in output
    assert not (folder / "out.npy").exists()
    code, output = run("pseudo-regions", *where[:-1], folder / "out.v2")  # its record would be out.json
    assert code == 1 and "out.v2: expected a name that ends with .npy" in output


def test_a_text_without_common_words_and_a_damaged_analysis_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("one\ntwo\n")
    code, output = run("lsa", tmp_path / "text", tmp_path / "lsa.npz")
    assert code == 1 and "words that 3 or more lines share" in output and not (tmp_path / "lsa.npz").exists()
    code, output = run("lsa", tmp_path / "text", tmp_path / "text")
    assert code == 1 and "text: expected an output file, got the input" in output
    assert (tmp_path / "text").read_text() == "one\ntwo\n"
    (tmp_path / "lsa.npz").write_bytes(b"no archive")
    with pytest.raises(DataError, match="nmt lsa"):
        Lsa.load(tmp_path / "lsa.npz")
