"""Word vectors learned from text, and systems whose embeddings start from them."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from commands import run
from numpy.typing import NDArray

from nmt.config.system import System
from nmt.config.workflow import Workflow
from nmt.data import word2vec
from nmt.plan.checks import check_vectors
from nmt.plan.layout import Layout
from nmt.system.errors import ConfigError
from nmt.training.word_vectors import _read

Vector = NDArray[np.float32]
needs_gensim = pytest.mark.skipif(find_spec("gensim") is None, reason="gensim is not installed")
LEARNED = {"source": {"text": "multi30k-descriptions"}, "target": {"text": "multi30k-descriptions"}}
TABLE = {"caption": "", "tests": ["test_2016_flickr"], "rows": [{"label": "one", "system": "one"}]}


def system(**changes: object) -> dict[str, object]:
    data = {"corpus": "multi30k", "languages": "en-de", "training": {"epochs": 1}}
    return data | {"model": {"width": 8, "heads": 2}, "word_vectors": LEARNED} | changes


def table(**changes: object) -> object:
    from nmt.config.table import Table

    return Table.model_validate({**TABLE, "systems": {"one": system(**changes)}})


@needs_gensim
def test_words_of_the_same_company_get_similar_vectors_and_the_same_text_the_same(tmp_path: Path) -> None:
    """Each line has words of one of two groups that never meet; the order within a line is mixed."""
    generator = np.random.default_rng(1)
    groups = [[f"{name}{n}" for n in range(8)] for name in "ab"]
    lines = [" ".join(generator.choice(groups[n % 2], 6)) for n in range(3000)]
    text = tmp_path / "text.de"
    text.write_text("".join(f"{line}\n" for line in [*lines, "rare word"]))
    for name in ("one", "two"):
        code, output = run("word-vectors", text, tmp_path / name, "--width", 6, "--language", "de")
        assert code == 0, output
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    wanted = {word: i for i, word in enumerate([*groups[0], *groups[1], "rare"])}
    vectors = dict(_read(tmp_path / "one", 6, wanted))
    assert set(vectors) == {*groups[0], *groups[1]}
    centre = np.mean(list(vectors.values()), 0)
    centred = {word: vector - centre for word, vector in vectors.items()}
    for one, vector in centred.items():
        nearest = max(centred.keys() - {one}, key=lambda other: cosine(vector, centred[other]))
        assert nearest[0] == one[0]


def cosine(a: Vector, b: Vector) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@needs_gensim
@pytest.mark.parametrize("content", [b"", b"one two\n" * 4, b"\xff" * 40])
def test_text_without_frequent_words_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "text").write_bytes(content)
    code, output = run("word-vectors", tmp_path / "text", tmp_path / "out", "--width", 4, "--language", "en")
    assert code == 1 and f"{tmp_path / 'text'}" in output and "expected" in output
    assert not (tmp_path / "out").exists()


def test_without_gensim_one_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word2vec, "find_spec", lambda _: None)
    code, output = run("word-vectors", tmp_path / "text", tmp_path / "out", "--width", 4, "--language", "en")
    assert code == 1 and "python3 envs/install.py run vectors" in output and len(output.splitlines()) == 1


def test_learned_vectors_lie_beside_the_cleaned_text_of_their_language_and_are_inputs_of_the_training() -> None:
    one, layout = System.model_validate(system()), Layout(Path("results"))
    texts = one.texts_of_vectors
    assert {side: text.languages for side, text in texts.items()} == {"source": "en", "target": "de"}
    expected = {
        side: Path(f"results/corpora/multi30k-descriptions/{language}/{one.cleaning.slug('vectors8')}.txt")
        for side, language in (("source", "en"), ("target", "de"))
    }
    assert {side: layout.vectors(text) for side, text in texts.items()} == expected
    other = System.model_validate(system(cleaning={"lowercase": False}, model={"width": 16, "heads": 2}))
    assert layout.vectors(other.texts_of_vectors["target"]) not in expected.values()


def test_text_that_vectors_cannot_be_learned_from_is_refused() -> None:
    settings = Workflow.model_validate({"tables": ["one"]})
    check_vectors("one", {"one": table()}, settings)  # type: ignore[dict-item]
    unknown = {"one": table(word_vectors={"target": {"text": "multi30k-descripti"}})}
    with pytest.raises(ConfigError, match=r"systems\.one\.word_vectors\.target.*multi30k-descriptions"):
        check_vectors("one", unknown, settings)  # type: ignore[arg-type]
