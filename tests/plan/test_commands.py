"""The command line of every stage: `nmt` accepts it, and the workflow's rules run what `nmt reproduce` runs."""

import inspect
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from snakes import ROOT, Project

from nmt.cli.main import main
from nmt.config.corpus.sources import CustomCorpus
from nmt.config.data import Images, Subwords
from nmt.config.system import AddedText
from nmt.config.workflow import Tracking
from nmt.plan import commands
from nmt.plan.plan import Plan
from nmt.reproduce.budget import with_parents
from nmt.reproduce.runs import Run

VALUES: dict[str, object] = {
    "at": "average best 2", "config": "{}", "count": 5, "device": "cpu", "jobs": 2, "languages": "en-de", "seed": 1,
    "name": "table/system", "out": "tracking.json", "threads": 2, "width": 300, "test": "test", "backbone": "resnet50",
}  # fmt: skip
OPTIONS: dict[str, list[str]] = {
    "download": commands.download_options(5, CustomCorpus.model_validate({"train": {"en": "a.en"}})),
    "translate_text": commands.direction_options("de-en"),
    "mix": commands.mix_options(AddedText(model="table/system", text="scenes", copies=2, tag="bt")),
    "score_pairs": commands.score_pairs_options(["my model", "reverse"]),
    "clean": ["--shard", "1/2"],
    "inherit_subwords": commands.inherit_subwords_options(Subwords(dropout=0.1, segmentations=2)),
    "encode": ["--shard", "1/2"],
    "draw": ["--limit", "5"],
    "features": commands.features_options(5, Images.model_validate({"folder": "pictures", "weights": "w.pt"})),
    "train": [
        *commands.train_options(["features/train.npy"], {"source": Path("my glove.txt")}, Path("my model")),
        "--tracking",
        "t",
    ],
    "decode": [*commands.decode_options(["features/test.npy"], [254]), "--shard", "1/2"],
    "score": commands.score_options(["bleu1", "meteor"]),
    "score_output": commands.score_options(["bleu1"]),
    "track_table": commands.track_table_options(Tracking(models=False, register="translator")),
}
STAGES = [
    name for name, stage in vars(commands).items()
    if inspect.isfunction(stage) and not name.startswith("_") and not name.endswith("_options")
    and stage.__module__ == commands.__name__
]  # fmt: skip


def example(stage: Callable[..., list[str]]) -> list[str]:
    """A stage's words, its arguments made up by their names."""
    parameters = inspect.signature(stage).parameters.values()
    value = lambda name: VALUES.get(name, f"some/{name}")  # noqa: E731
    positional = [value(p.name) for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    several = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    positional += OPTIONS[stage.__name__] if several == ["options"] else [f"some/{name}" for name in several]
    return stage(*positional, **{p.name: value(p.name) for p in parameters if p.kind is p.KEYWORD_ONLY})


@pytest.mark.parametrize("name", STAGES)
def test_nmt_accepts_the_words_of_every_stage(name: str) -> None:
    program, *words = example(getattr(commands, name))
    assert program == "nmt" and name.replace("_", "-").startswith(words[0])
    command: click.Command = main
    with click.Context(main) as context:
        while isinstance(command, click.Group):
            stage, command, words = command.resolve_command(context, words)
            assert command is not None, stage
        command.make_context(command.name, words, parent=context)


SYSTEM: dict[str, Any] = {"corpus": "scenes", "languages": "en-de", "training": {"updates": 2}}
SEEING = {"kind": "multimodal", "backbone": "efficientnet-lite0"}
TABLE: dict[str, Any] = {
    "caption": "One system that starts from word vectors, one from a model, one that sees pictures, as an ensemble too",
    "tests": ["test", "valid"],
    "systems": {
        "vectors": {**SYSTEM, "word_vectors": {"source": "glove"}},
        "parent": {**SYSTEM, "seeds": [3]},
        "tuned": {**SYSTEM, "corpus": "multi30k", "initialise": {"system": "parent", "at": "last"}},
        "seeing": {**SYSTEM, "model": SEEING, "seeds": [1, 2]},
    },
    "rows": [
        {"label": "vectors", "system": "vectors", "at": "average best 2"},
        {"label": "tuned", "system": "tuned", "test": "valid"},
        {"label": "before", "system": "tuned", "test": "valid", "at": "start"},
        {"label": "half", "system": "tuned", "test": "valid", "at": "best and start"},
        {"label": "seeing", "system": "seeing", "decoding": {"beam": 2}},
        {"label": "both", "system": "seeing", "ensemble": True},
    ],
    "metrics": ["bleu", "bleu1"],
}


def of_rules(output: str) -> set[tuple[str, ...]]:
    """The commands that a dry run of Snakemake prints, without what surrounds them."""
    lines = re.findall(r"^Shell command: (?:trap '' TERM USR1; )?(nmt .*?) (?:> |2>&1)", output, re.MULTILINE)
    return {tuple(shlex.split(line)) for line in lines}


@pytest.mark.integration
def test_rules_and_reproduce_run_the_same_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = tmp_path / "my glove.txt"
    vectors.write_text("a 1 2\n")
    settings = {"word_vectors": {"glove": vectors.name}, "tracking": {"live": False}}
    project = Project(tmp_path, {"one": TABLE}, **settings)
    done = project.snakemake("--dry-run", "--printshellcmds")
    assert done.returncode == 0, done.stdout
    monkeypatch.chdir(tmp_path)
    plan = Plan.load({"tables": ["one"], "device": "cpu", **settings}, "config.yaml")
    runs = with_parents([Run(plan, "one", *run) for run in (*plan.runs("one"), *plan.ensembles("one"))])
    trained = {tuple(run.training("cpu", 2)) for run in runs if not run.members}
    scored = {tuple(command) for run in runs for row in run.rows for command in run.scoring(row, "cpu", 2)}
    report = tuple(commands.report("workflow/tables/one.yaml", config=plan.report_settings(["one"])))
    parents = {tuple(command) for run in runs for command in run.parent_model()}
    made = trained | scored | parents | {report}
    stages = {"train", "average", "ensemble", "decode", "score", "report"}
    assert {command[1] for command in made} == stages
    assert {command for command in of_rules(done.stdout) if command[1] in stages} == made


def test_the_table_of_stages_names_every_rule_command_and_module() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = [re.findall(r"`(.+?)`", row) for row in re.findall(r"^\| `.*$", text, re.MULTILINE)]
    files = {path.stem: path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk")}
    rules = {(stage, rule) for stage, text in files.items() for rule in re.findall(r"^rule (\w+):", text, re.MULTILINE)}
    assert {(stage, rule) for stage, rule, _, _ in table} == rules and len(table) == len(rules)
    for _, rule, command, module in table:
        assert shlex.join(example(getattr(commands, rule))).startswith(f"{command} ")
        assert (ROOT / module).exists(), module
