"""What degrades a result is said last, noted in its table, and tried again or gone in the next run."""

import itertools
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import run
from snakes import Project, jobs
from stages import FORKED

from nmt.plan import commands
from nmt.plan.plan import Plan
from nmt.plan.systems import as_json
from nmt.reproduce.runs import Run

LINES = [(f"A dog sees {n} cats in the park.", f"狗 在 公园 里 看见 {n} 只 猫 。") for n in range(40)]
TOKENISED = ("Two dogs &apos; see one cat .", "两 只 狗 看见 一 只 猫 。")
LONG = (" ".join(["A dog sees a cat in the park."] * 20), "狗 看见 猫 。")
SYSTEM: dict[str, Any] = {
    "corpus": "mine", "languages": "en-zh", "subwords": {"size": 90},
    "model": {"layers": 1, "width": 16, "ffn": 16, "heads": 1, "max_positions": 60},
    "training": {"batch": "512 tokens", "updates": 1, "schedule": {"warmup": 1}},
}  # fmt: skip
ROW = {"label": "tiny", "system": "tiny", "decoding": {"beam": 1, "length_factor": 1, "length_extra": 2}}
TABLE = {"caption": "c", "tests": ["news"], "systems": {"tiny": SYSTEM}, "rows": [ROW], "figures": []}


def degraded(folder: Path) -> Project:
    """A project whose training text is tokenised in one line, and whose test set has a line that is too long."""
    splits = {"train": [*LINES, TOKENISED], "valid": LINES[:2], "news": [*LINES[:3], LONG]}
    for split, pairs in splits.items():
        for side, language in enumerate(("en", "zh")):
            lines = "".join(f"{pair[side]}{split}\n" for pair in pairs)  # no pair is in two splits
            (folder / f"{split}.{language}").write_text(lines, encoding="utf-8")
    files = {split: {language: f"{split}.{language}" for language in ("en", "zh")} for split in splits}
    corpus = {"train": files["train"], "valid": files["valid"], "tests": {"news": files["news"]}}
    tracking = {"uri": f"sqlite:///{folder}/store.db?timeout=0.1", "live": False}
    return Project(folder, {"one": TABLE}, corpora={"mine": corpus}, tracking=tracking)


def warnings(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith("warning  ")]


def build_row(project: Project) -> None:
    """Make all that the table is made of by the stages' commands, in this process."""
    plan = Plan.load(yaml.safe_load((project.folder / "config.yaml").read_text()), "config.yaml")
    system, layout, training = plan.system("one", "tiny"), plan.layout, Run(plan, "one", "tiny", 1)
    raw, clean, pieces = layout.raw(system), layout.clean(system), layout.subwords(system)
    options = plan.raw_text(str(raw)).options
    both, settings = {"languages": system.languages}, as_json(system.subwords)
    stages = [
        commands.download(system.corpus, system.languages, raw, *options),
        commands.clean(raw, clean, **both, config=as_json(system.cleaning), jobs=1),
        commands.subwords(clean, pieces, **both, config=settings, threads=1),
        commands.encode(clean, pieces, layout.encoded(system), **both),
        training.training("cpu", 1),
    ]
    for _, *arguments in itertools.chain(stages, training.scoring(training.rows[0], "cpu", 1)):
        code, output = run(*arguments)
        assert code == 0, output


@pytest.mark.integration
def test_three_degradations_are_said_last_noted_and_mended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    build_row(project := degraded(tmp_path))
    project.env["BASH_FUNC_nmt%%"] = FORKED
    with sqlite3.connect(tmp_path / "store.db", isolation_level=None) as store:
        store.execute("BEGIN EXCLUSIVE")
        first = project.snakemake()
    store.close()
    assert first.returncode == 0 and jobs(first.stdout) == {"report": 1, "track": 1, "track_table": 1, "all": 1}, (
        first.stdout
    )
    tokenised, cut, lost, *_ = warnings(first.stdout)
    assert re.search(r"/raw/train\.en: 1 of 41 lines have marks of a tokeniser.*; give raw text", tokenised)
    assert re.search(r"/news\.en: 1 of 4 sources were cut to 58 pieces.*; split long lines", cut)
    assert re.search(r"MLflow lacks this run: .*; nothing else is lost; once the store works, run the work", lost)
    assert "\nMLflow   " not in first.stdout
    notes = ["1 of 41 lines have marks of a tokeniser", "1 of 4 sources were cut"]
    for kind in ("md", "html", "json"):
        text = (tmp_path / f"results/tables/one.{kind}").read_text()
        assert all(note in text for note in notes) and "MLflow" not in text
    assert [w["count"] for w in json.loads(text)["rows"][0]["warnings"]] == [1, 1]
    second = project.snakemake()  # the store is free now
    again = {"track": 1, "track_table": 1, "all": 1}
    assert second.returncode == 0 and jobs(second.stdout) == again, second.stdout
    assert warnings(second.stdout) == [tokenised, cut] and "\nMLflow   sqlite:///" in second.stdout
    third = project.snakemake("--config", "strict=true")
    assert "Nothing to be done" in third.stdout and warnings(third.stdout) == [tokenised, cut]
    told = "snakemake: strict: true: expected results without warnings, got the 2 above; do what they say"
    assert third.returncode == 1 and third.stdout.splitlines()[-1].startswith(told)
