"""Embeddings that start from word vectors of a file."""

import json
from pathlib import Path

import pytest
import torch
from commands import run

from nmt.config.models import ModelConfig, MultimodalConfig, RecurrentConfig, TransformerConfig
from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.models.build import build
from nmt.plan.checks import check_vectors
from nmt.plan.commands import train_options
from nmt.plan.plan import Plan
from nmt.system.errors import ConfigError, DataError
from nmt.text.subwords import Vocabulary
from nmt.training.word_vectors import load_vectors, parse_files

VECTORS = {"w1": [1.0, 2.0, -1.0, 0.5], "w7": [0.0, -3.0, 1.0, 1.0], "other": [9.0, 9.0, 9.0, 9.0]}
LINES = [" ".join([word, *map(str, numbers)]) for word, numbers in VECTORS.items()]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    "lines", [LINES, ["3 4", *LINES], ["3 4", *(f"{line} " for line in LINES)], [*LINES, LINES[0]]]
)
def test_glove_word2vec_and_fasttext_files_give_the_same_start(copy_corpus: Path, tmp_path: Path, lines: list) -> None:
    start = load_vectors(copy_corpus, {"source": write(tmp_path / "v.txt", lines)}, 4)
    ids = Vocabulary(copy_corpus / "source.model")
    pieces = {piece: i for i, piece in enumerate(ids.pieces(range(len(ids))))}
    assert {i: vector.tolist() for i, vector in start.vectors["source"].items()} == {
        pieces["▁w1"]: VECTORS["w1"], pieces["▁w7"]: VECTORS["w7"]
    }  # fmt: skip
    assert start.facts["source"].items() >= {"pieces": 14, "words": 10, "found": 2, "missing": 8}.items()


@pytest.mark.parametrize(
    ("config", "mean_square"),
    [
        (TransformerConfig(layers=1, width=4, heads=2, ffn=8, tied="none"), 1 / 4),
        (TransformerConfig(layers=1, width=4, heads=2, ffn=8, scale_embeddings=False), 1 / 4),
        (MultimodalConfig(kind="multimodal", layers=1, width=4, heads=2, ffn=8), 1 / 4),
        (RecurrentConfig(kind="recurrent", width=4), 1 / 4),
        (RecurrentConfig(kind="recurrent", width=4, scale_embeddings=False, tied="none"), 1),
    ],
)
def test_found_words_start_there_with_the_usual_size_and_nothing_else_changes(
    copy_corpus: Path, tmp_path: Path, config: ModelConfig, mean_square: float
) -> None:
    file = write(tmp_path / "v.txt", LINES)
    start = load_vectors(copy_corpus, {"source": file}, 4)
    torch.manual_seed(1)
    model = build(config, 14, 14, 0)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    start.fill(model)
    after = model.state_dict()
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert changed == ["source_embedding.pieces.weight"]
    rows = list(start.vectors["source"])
    weight = after["source_embedding.pieces.weight"]
    assert (weight != before["source_embedding.pieces.weight"]).any(1).nonzero()[:, 0].tolist() == sorted(rows)
    assert weight[rows].square().mean() == pytest.approx(mean_square)
    given = torch.tensor([VECTORS["w1"], VECTORS["w7"]])
    torch.testing.assert_close(weight[rows] / weight[rows].norm(), given / given.norm())


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["w1 1 2 3"], r"v.txt, line 1: expected vectors of the model's width, 4 numbers, got 3"),
        (["5 300", *LINES], r"v.txt, line 1: .* got 300"),
        (["1 4", "w1 1 2 3"], r"v.txt, line 2: .* got 3"),
        ([*LINES, "w2 1 2"], r"v.txt, line 4: expected a word and 4 numbers, got 2"),
        ([*LINES, "w2 1 2 x 3"], r"v.txt, line 4: expected numbers after the word: .*'x'"),
        ([*LINES, "w2 1 2 nan 3"], r"v.txt, line 4: .*nan or inf"),
        (["6 4", *LINES], r"v.txt: expected 6 vectors by its first line, got"),
        (["w1 0 0 0 0"], r"v.txt: expected vectors of .* got none but zeros"),
        (["other 1 2 3 4"], r"v.txt: expected vectors of the 10 words of the source vocabulary, got none"),
    ],
)
def test_files_that_do_not_fit_are_refused(copy_corpus: Path, tmp_path: Path, lines: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_vectors(copy_corpus, {"source": write(tmp_path / "v.txt", lines)}, 4)


def test_a_word_of_the_file_may_hold_spaces(copy_corpus: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "v.txt", [*LINES, "a strange w3 1 1 1 1", "w2 1 1 1 1"])
    start = load_vectors(copy_corpus, {"source": file}, 4)
    assert start.facts["source"]["found"] == 3


@pytest.mark.integration
def test_a_training_says_what_it_started_from_and_another_file_is_another_training(
    copy_corpus: Path, tmp_path: Path
) -> None:
    settings = "{model: {layers: 1, width: 4, ffn: 8, heads: 2}, training: {updates: 2, validation_bleu: false}}"
    trained = []
    for lines in (LINES, LINES[:2], []):
        options = [f"--word-vectors=source={write(tmp_path / 'v.txt', lines)}"] if lines else []
        code, output = run("train", copy_corpus, tmp_path / "run", "--config", settings, "--device", "cpu", *options)
        assert code == 0, output
        trained.append(json.loads((tmp_path / "run" / "training.json").read_text()))
    assert [one.get("word_vectors", {}).get("source", {}).get("missing") for one in trained] == [8, 8, None]
    assert len(list((tmp_path / "run").glob("state*"))) == 3
    where = ["--at", "last", "--encoded", copy_corpus]
    code, output = run("average", tmp_path / "run", tmp_path / "model", *where)
    assert code == 0 and "word_vectors" not in json.loads((tmp_path / "model" / "provenance.json").read_text())


def test_sides_are_named() -> None:
    assert parse_files(("source=a=b",)) == {"source": Path("a=b")}
    with pytest.raises(ConfigError, match="expected one file for the source, got a and b"):
        parse_files(("source=a", "source=b"))
    for wrong in ("a.txt", "both=a", "source="):
        with pytest.raises(ConfigError, match="expected source=FILE or target=FILE"):
            parse_files((wrong,))


def test_tables_name_vectors_and_the_settings_say_where_they_are() -> None:
    system = {
        "corpus": "multi30k",
        "languages": "en-de",
        "training": {"updates": 1},
        "word_vectors": {"source": "glove"},
    }
    rows = [{"label": "r", "system": "one"}]
    table = Table.model_validate(
        {"caption": "c", "tests": ["test_2016_flickr"], "systems": {"one": system}, "rows": rows}
    )
    with pytest.raises(ConfigError, match=r"word_vectors: {glove: FILE}, or do without: word_vectors: {glove: none}"):
        check_vectors("one", {"one": table}, Workflow(tables=["one"]))
    back = {"model": "two/back", "text": "multi30k-descriptions"}
    forward = {**system, "word_vectors": {}, "back_translation": back}
    tables = {
        name: Table.model_validate(
            {"caption": "c", "tests": ["test_2016_flickr"], "systems": {key: one}, "rows": [row]}
        )
        for name, key, one, row in (
            ("one", "forward", forward, {"label": "r", "system": "forward"}),
            ("two", "back", {**system, "languages": "de-en"}, {"label": "quoted", "published": {"bleu": 1}}),
        )
    }
    with pytest.raises(ConfigError, match=r"two\.yaml: systems\.back: expected a file of the word vectors glove"):
        check_vectors("one", tables, Workflow(tables=["one"]))
    with pytest.raises(ConfigError, match="no word_vectors"):
        Plan(Workflow(tables=["one"]), tables).vectors(tables["two"].systems["back"])
    for file, options in (("/data/my glove.txt", ["--word-vectors=source=/data/my glove.txt"]), ("none", [])):
        settings = Workflow.model_validate({"tables": ["one"], "word_vectors": {"glove": file}})
        check_vectors("one", {"one": table}, settings)
        plan = Plan(settings, {"one": table})
        assert train_options([], plan.vectors(table.systems["one"])) == options
        assert plan.report_settings(["one"]) == Plan(Workflow(tables=["one"]), {"one": table}).report_settings(["one"])
