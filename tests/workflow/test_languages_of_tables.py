"""Tables of several pairs of languages, or whose languages name a script: what runs, and what the report says."""

from pathlib import Path

import pytest
from snakes import Project, jobs

from nmt.system.files import read_json

MODEL = {"layers": 1, "width": 16, "ffn": 32, "heads": 2, "dropout": 0.1}
TRAINING = {"updates": 2, "validation_bleu": False, "batch": "500 tokens"}
BOTH = {
    "corpus": "scenes", "languages": ["en-de", "de-fr"], "subwords": {"size": 300}, "model": MODEL,
    "training": TRAINING | {"pair_temperature": 5},
}  # fmt: skip
TABLE = {
    "caption": "Two pairs in one model",
    "tests": ["test"],
    "systems": {
        "both": BOTH,
        "one": {"corpus": "scenes", "languages": "en-de", "initialise": {"system": "both"}, "training": TRAINING},
    },
    "rows": [
        {"label": "Both", "system": "both", "at": "last"},
        {"label": "Zero-shot", "system": "both", "at": "last", "pair": "en-fr"},
        {"label": "One", "system": "one", "at": "last"},
    ],
    "figures": ["loss"],
    "samples": 3,
}


@pytest.mark.long
def test_a_table_has_a_row_for_each_pair(tmp_path: Path) -> None:
    project = Project(tmp_path, {"pairs": TABLE}, limit=60, tracking={"live": False, "models": False})
    run = project.snakemake("table_pairs")
    assert run.returncode == 0, run.stdout
    table = read_json(tmp_path / "results/tables/pairs.json")
    rows = [(row["label"], row["languages"]) for row in table["rows"]]
    assert rows == [("Both", "en-de"), ("Both", "de-fr"), ("Zero-shot", "en-fr"), ("One", "en-de")]
    assert table["rows"][3]["against"]["label"] == "Both" and table["rows"][1]["against"] is None
    used = {corpus["languages"]: set(corpus["splits"]) for corpus in table["data"]}
    assert used == {"en-de": {"train", "valid", "test"}, "de-fr": {"train", "valid", "test"}, "en-fr": {"test"}}
    assert [(each["languages"], each["systems"]) for each in table["subwords"]] == [
        ("en-de", ["both"]), ("de-fr", ["both"]), ("en-de", ["one"]),
    ]  # fmt: skip
    assert jobs(project.snakemake("--dry-run", "table_pairs").stdout) == {}


@pytest.mark.integration
def test_word_vectors_are_learned_for_a_language_with_a_script(tmp_path: Path) -> None:
    text = {split: {"en": "a.en", "zh_Hant": "a.zh"} for split in ("train", "valid")}
    vectors = {"source": {"text": "own"}, "target": {"text": "own"}}
    system = {"corpus": "own", "languages": "en-zh_Hant", "word_vectors": vectors, "training": TRAINING}
    table = {"caption": "Own text", "tests": ["test"], "systems": {"one": system}}
    rows = [{"label": "one", "system": "one", "at": "last"}]
    for name in ("a.en", "a.zh"):
        (tmp_path / name).write_text("a\n")
    done = Project(
        tmp_path, {"own": table | {"rows": rows}}, corpora={"own": text | {"tests": {"test": text["valid"]}}}
    ).snakemake("--dry-run")
    assert jobs(done.stdout).get("word_vectors") == 2, done.stdout
