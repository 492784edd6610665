"""The whole pipeline as a user runs it: Snakemake, every stage, tiny corpora, a model too small to be good."""

import csv
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from snakes import Project, jobs
from stages import FIRST_ALONE, FORKED

pytestmark = pytest.mark.integration
SYSTEM: dict[str, Any] = {
    "corpus": "scenes",
    "languages": "en-de",
    "subwords": {"size": 200},
    "model": {"layers": 1, "width": 32, "ffn": 64, "heads": 2},
    "training": {
        "batch": "512 tokens",
        "updates": 12,
        "train_bleu": 20,
        "checkpoint_every": "4 updates",
        "schedule": {"peak": 0.005, "warmup": 4},
    },
}
SHORT = {"length_factor": 1.0, "length_extra": 5}  # a model that has learned little does not know where to end
ROWS = [
    {
        "label": "ours",
        "system": "tiny",
        "at": "average 2",
        "decoding": {"beam": 2, **SHORT},
        "published": {"bleu": 30.0, "ter": 50.0},
    },
    {"label": "ours, training text", "system": "tiny", "test": "train_sample", "decoding": {"beam": 1, **SHORT}},
    {"label": "theirs", "published": {"bleu": 34.2, "ter": 48.7}},
]
TOGETHER = {"label": "together", "system": "tiny", "at": "last", "ensemble": True, "decoding": {"beam": 1, **SHORT}}
FIGURES = ["loss", "accuracy", "bleu", "learning-rate", "positions", "mask"]


def trial(folder: Path, test: str, system: dict[str, Any], **settings: object) -> Project:
    rows = [*ROWS, *([TOGETHER] if "seeds" in settings else [])]
    what = {"tests": [test, "train_sample"], "systems": {"tiny": system}, "rows": rows, "figures": FIGURES}
    table = {"caption": "A trial", "metrics": ["bleu1", "bleu", "nll_train", "nll_valid"], **what}
    return Project(folder, {"trial": table}, **settings)


def run(project: Project) -> Path:
    """Build the table; returns the results folder."""
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    return project.folder / "results"


def check_results(results: Path, test: str) -> None:
    """Every file is there, and the table shows the scores that lie beside the texts."""
    for kind in ("md", "csv", "html", "json"):
        assert (results / "tables" / f"trial.{kind}").stat().st_size > 0
    for figure in FIGURES:
        for kind in ("png", "svg"):
            assert (results / "figures" / "trial" / f"{figure}.{kind}").stat().st_size > 0
    (scores,) = (results / "runs/trial/tiny").glob(f"seed1/average-2/{test}/beam2-*/scores.json")
    assert 0 <= json.loads(scores.read_text())["tokenised"]["bleu"]["score"] <= 100
    (sampled,) = (results / "runs/trial/tiny").glob("seed1/best/train_sample/greedy-*/scores.json")
    assert json.loads(sampled.read_text())["sentences"] == 20
    with (results / "tables" / "trial.csv").open(newline="") as stream:
        assert len(list(csv.reader(stream))) > len(ROWS)


def test_scenes_from_nothing_to_a_translating_model(tmp_path: Path) -> None:
    project = trial(tmp_path, "test", SYSTEM, limit=60, seeds=[1, 2])
    project.env["BASH_FUNC_nmt%%"] = FIRST_ALONE
    shutil.copy(tmp_path / "workflow/tables/trial.yaml", tmp_path / "workflow/tables/not_asked_for.yaml")
    results = run(project)
    assert list(json.loads((results / "tracking.json").read_text())["captions"]) == ["trial"]
    check_results(results, "test")
    assert "Nothing to be done" in project.snakemake().stdout
    together = json.loads((results / "tables/trial.json").read_text())["rows"][-1]
    assert together["seeds"] == [1, 2] and together["scores"]["tokenised"]["bleu"]["deviation"] is None
    (made,) = together["checkpoints"]
    assert made["seed"] == "1-2" and len(made["checkpoints"]) == 2
    tracked = json.loads((results / "runs/trial/tracked.json").read_text())
    assert tracked["status"] == "published" and [len(runs) for runs in tracked["rows"].values()] == [2, 2, 1]
    with closing(sqlite3.connect(results / "mlflow.db")) as store:
        assert store.execute("SELECT DISTINCT status FROM runs").fetchall() == [("FINISHED",)]
        assert store.execute("SELECT count(*) FROM runs").fetchall() == [(2 + 5,)]
        assert store.execute("SELECT name FROM experiments ORDER BY name").fetchall() == [("Default",), ("trial",)]
    (model,) = results.glob("runs/trial/tiny/seed2/last/model")
    translated = subprocess.run(
        [sys.executable, "-m", "nmt", "translate", str(model), "--device", "cpu"],
        input="A red ball.\nA dog.\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(translated.stdout.splitlines()) == 2


@pytest.mark.long
def test_scenes_with_their_pictures(tmp_path: Path) -> None:
    model = {"kind": "multimodal", "backbone": "efficientnet-lite0", "layers": 1, "width": 32, "ffn": 64, "heads": 2}
    training = {"batch": "512 tokens", "updates": 6, "validation_bleu": False}
    shown = [{"beam": 1, **SHORT, "images": images} for images in ("right", "swapped")]
    table = {
        "caption": "A trial", "tests": ["test_ambiguous"], "figures": ["picture", "picture-words"],
        "systems": {"seeing": {**SYSTEM, "model": model, "training": training}},
        "rows": [{"label": decoding["images"], "system": "seeing", "decoding": decoding} for decoding in shown],
    }  # fmt: skip
    results = run(Project(tmp_path, {"trial": table}, limit=40, tracking={"live": False}))
    folders = list(results.glob("runs/trial/seeing/seed1/best/test_ambiguous/greedy-*"))
    assert len(folders) == 2
    for folder in folders:
        assert json.loads((folder / "scores.json").read_text())["tokenised"]["words"]["score"] <= 100
        made = json.loads((folder / "decoding.json").read_text())["images"]
        assert made["backbone"] == "efficientnet-lite0"
    assert "ambiguous words right (%), ours" in (results / "tables" / "trial.md").read_text()
    assert (results / "figures/trial/picture.png").stat().st_size > 0
    assert (results / "figures/trial/picture-words.png").stat().st_size > 0
    assert "Attention of the decoder over the picture" in (results / "tables" / "trial.html").read_text()


@pytest.mark.skipif("NMT_MIRROR" not in os.environ, reason="NMT_MIRROR (a folder with Multi30K) is not set")
def test_multi30k_cut_to_a_hundred_pairs(tmp_path: Path) -> None:
    system = {**SYSTEM, "corpus": "multi30k", "cleaning": {"characters": "latin"}, "subwords": {"size": 300}}
    what = {"systems": {"tiny": system}, "rows": [ROWS[0], ROWS[-1]], "figures": ["mask"]}
    table = {"caption": "A trial", "tests": ["test_2016_flickr"], **what}
    project = Project(tmp_path, {"trial": table}, limit=100, tracking={"live": False})
    project.env["BASH_FUNC_nmt%%"] = FORKED
    with (run(project) / "tables/trial.csv").open(newline="") as stream:
        ours, theirs = csv.DictReader(stream)
    assert theirs["label"] == "theirs" and 0 <= float(ours["tokenised_bleu"]) <= 100


def back_translating(corpus: str, text: str, test: str, **model: object) -> dict[str, Any]:
    """A table whose system is trained on what its other one translates back."""
    training = {"batch": "512 tokens", "updates": 6, "validation_bleu": False}
    system = {**SYSTEM, "corpus": corpus, "training": training}
    recipe = {"model": "trial/reverse", "at": "last", "text": text, "decoding": {"beam": 1, **SHORT}, "tag": "written"}
    forward = {**system, "back_translation": {**recipe, "copies": 2}, "model": {**SYSTEM["model"], **model}}
    return {
        "caption": "A trial", "tests": [test], "figures": [],
        "systems": {"reverse": {**system, "languages": "de-en"}, "forward": forward},
        "rows": [{"label": "ours", "system": "forward", "decoding": {"beam": 1, **SHORT}}],
    }  # fmt: skip


def mixed_text(results: Path) -> tuple[list[str], list[str], dict[str, Any]]:
    """The training text with back-translations, and its corpus.json."""
    (raw,) = results.glob("corpora/*-back-*/en-de/raw")
    source, target = ((raw / f"train.{language}").read_text().splitlines() for language in ("en", "de"))
    return source, target, json.loads((raw / "corpus.json").read_text())


@pytest.mark.long
def test_a_system_trained_on_what_another_translates_back(tmp_path: Path) -> None:
    tables = {"trial": back_translating("scenes", "mine", "test")}
    more = [f"Ein Hund sieht {number} Katzen." for number in range(60)]
    (tmp_path / "more.de").write_text("".join(f"{line}\n" for line in more))
    own = {"mine": {"train": {"de": "more.de"}}}  # no English, nothing to validate on
    results = run(Project(tmp_path, tables, limit=60, tracking={"live": False}, corpora=own))
    source, target, corpus = mixed_text(results)
    true = (results / "corpora/scenes-first60/en-de/raw/train.de").read_text().splitlines()
    assert target == true * 2 + more
    assert len(source) == 180 and all(line.split()[0] == "written" for line in source[120:])
    added = corpus["sources"]["train"][-1]
    assert added["pairs"] == 60 and added["back_translation"]["sentences_per_second"] > 0
    assert added["back_translation"]["provenance"]["corpus"] == "scenes" and "images" not in corpus
    assert "with back-translations" in (results / "tables" / "trial.md").read_text()


def test_back_translated_descriptions_share_the_pseudo_regions_of_their_images(tmp_path: Path) -> None:
    seeing = {"kind": "multimodal", "backbone": "descriptions", "regions": 4}
    table = back_translating("multi30k", "multi30k-descriptions", "test_2016_flickr", **seeing)
    planned = jobs(Project(tmp_path, {"trial": table}, limit=80).snakemake("-n").stdout)
    shared = {
        "download": 4,
        "lsa": 1,
        "pseudo_regions": 3,
        "translate_text": 1,
        "mix": 1,
    }  # text: both ways, theirs in English for the regions, and in German to be translated
    assert {rule: planned[rule] for rule in shared} == shared and planned["train"] == 2


def test_seeds_together_write_the_targets_of_a_taught_system(tmp_path: Path) -> None:
    table = back_translating("scenes", "scenes", "test")
    recipe = table["systems"]["forward"].pop("back_translation")
    teacher = {"teacher": {**table["systems"]["reverse"], "languages": "en-de", "seeds": [1, 2]}}
    table["systems"]["forward"]["forward_translation"] = recipe | {"model": "trial/teacher", "seed": "1-2"}
    table["systems"] |= teacher
    project = Project(tmp_path, {"trial": table}, limit=60)
    planned = jobs(project.snakemake("-n").stdout)
    shared = {"download": 2, "average": 3, "ensemble": 1, "translate_text": 1, "mix": 1}
    assert {rule: planned[rule] for rule in shared} == shared and planned["train"] == 3
    planned = jobs(project.snakemake("-n", "inputs_trial").stdout)
    assert planned["train"] == planned["average"] == 2 and planned["mix"] == planned["ensemble"] == 1, "the teachers"
    table["systems"]["forward"]["back_translation"] = recipe
    planned = jobs(Project(tmp_path / "both", {"trial": table}, limit=60).snakemake("-n").stdout)
    shared = {"download": 4, "average": 4, "ensemble": 1, "translate_text": 2, "mix": 2}
    assert {rule: planned[rule] for rule in shared} == shared and planned["train"] == 4
