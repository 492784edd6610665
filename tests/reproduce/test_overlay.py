"""A shared results folder: what is complete and the same is linked, all else is made, and nothing is written there."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt.corpora.catalogue import fetch
from nmt.plan.layout import DECODED, SCORED
from nmt.plan.plan import Plan
from nmt.plan.systems import experiment
from nmt.reproduce import overlay
from nmt.reproduce.overlay import link_shared
from nmt.reproduce.runs import Run
from nmt.system.errors import ConfigError
from nmt.system.files import sha256
from nmt.training.experiment import Experiment
from nmt.training.train import claim_state

SYSTEM: dict[str, Any] = {"corpus": "scenes", "languages": "en-de", "training": {"updates": 2}}
TABLE: dict[str, Any] = {
    "caption": "c", "tests": ["test"], "systems": {"one": SYSTEM}, "rows": [{"label": "one", "system": "one"}],
}  # fmt: skip


def load(folder: Path, table: dict[str, Any] = TABLE, **settings: object) -> Plan:
    (folder / "workflow/tables").mkdir(parents=True, exist_ok=True)
    (folder / "workflow/tables/t.yaml").write_text(yaml.safe_dump(table))
    values = {"tables": ["t"], "shared_results": str(folder / "shared"), **settings}
    (folder / "config.yaml").write_text(yaml.safe_dump(values))
    return Plan.load(values, "config.yaml")


def write(folder: Path, *names: str, text: str = "{}") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(text)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A plan, and all its files as another workflow has left them in the shared folder."""
    monkeypatch.chdir(tmp_path)
    return finished(tmp_path, TABLE)


def finished(folder: Path, table: dict[str, Any], **settings: object) -> Plan:
    """A plan of a table, and all files of its systems and rows in the shared folder."""
    made = load(folder, table, results="shared", shared_results=None, **settings)
    for system, seed in made.runs("t"):
        finish(Run(made, "t", system, seed))
    for row in made.table("t").rows:
        for model in made.table("t").models_of(row, made.settings.seeds):
            for part in (*str(model).split("-"), model):
                write(made.layout.model("t", row, part), "weights.safetensors")
            write(made.layout.scores("t", row, "test", model), *DECODED, *SCORED, text="[]")
    write(made.layout.results / "tables", "t.json", "t.html")
    return load(folder, table, **settings)


def finish(run: Run) -> None:
    """Write the files of a training and of its text."""
    for one in run.system.by_pair:
        write(run.layout.raw(one), "corpus.json", "train.en")
        write(run.layout.clean(one), "file")
    for folder in (run.layout.subwords(run.system), run.folder / "state/checkpoints"):
        write(folder, "file")
    write(run.encoded, "meta.json", text='{"splits": {"train": 1}, "subwords": {"size": 2}}')
    config = Experiment.model_validate_json(experiment(run.system)).model_dump(mode="json")
    record = {"config": config, "data": {"train": 1}, "subwords": {"size": 2}}
    write(run.folder, "training.json", "log.jsonl", text=json.dumps(record))
    write(run.folder / "state", "identity.json", text='{"identity": 1}')


def links(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink()}


def test_what_is_complete_is_linked_with_its_date(plan: Plan, tmp_path: Path) -> None:
    link_shared(plan, ["t"])
    run, row = Run(plan, "t", "one", 1), plan.table("t").rows[0]
    linked = [plan.layout.raw(run.system), plan.layout.clean(run.system), plan.layout.subwords(run.system), run.encoded]
    linked += [run.folder / name for name in ("state", "training.json", "log.jsonl")]
    linked += [plan.layout.model("t", row, 1)]
    linked += [plan.layout.scores("t", row, "test", 1) / name for name in (*DECODED, *SCORED)]
    assert links(Path("results")) == {str(path.relative_to("results")) for path in linked}
    assert all(path.lstat().st_mtime_ns == path.stat().st_mtime_ns for path in linked)
    assert not (tmp_path / "results/tables").exists(), "a table is made of one's own"


def test_a_system_with_several_pairs_is_linked_with_the_text_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    system = {**SYSTEM, "languages": ["en-de", "en-fr"], "subwords": {"joint": True}}
    plan = finished(tmp_path, {**TABLE, "systems": {"one": system}})
    link_shared(plan, ["t"])
    texts = [*map(plan.layout.raw, plan.system("t", "one").by_pair), plan.layout.encoded(plan.system("t", "one"))]
    scores = [plan.layout.scores("t", row, "test", 1) / "scores.json" for row in plan.table("t").rows]
    assert len(scores) == 2 and all(path.is_symlink() for path in (*texts, *scores))
    Path("shared/corpora/scenes/en-fr/raw/corpus.json").unlink()
    link_shared(plan, ["t"])
    assert {name.split("/")[0] for name in links(Path("results"))} == {"corpora"}, "a part of the text is missing"


@pytest.mark.parametrize("missing", [None, "runs/t/back/seed2/training.json", "runs/t/back/seed1-2/best/model"])
def test_text_translated_by_an_ensemble_is_linked_with_all_its_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    added = {"model": "t/back", "seed": "1-2", "text": "scenes"}
    systems = {"one": {**SYSTEM, "back_translation": added}, "back": {**SYSTEM, "languages": "de-en", "seeds": [1, 2]}}
    rows = [*TABLE["rows"], {"label": "back", "system": "back", "ensemble": True}]
    plan = finished(tmp_path, {**TABLE, "systems": systems, "rows": rows}, seeds=[1])
    one = plan.system("t", "one")
    write(Path("shared/corpora/scenes/en-de/raw"), "corpus.json")
    write(Path("shared/corpora/scenes/de/raw"), "corpus.json")
    write(Path("shared") / plan.layout.translations(one).relative_to("results"), *overlay.TRANSLATED)
    if missing:
        Path("shared", missing).rename("away")
    link_shared(plan, ["t"])
    training = plan.layout.run("t", "one", 1) / "training.json"
    assert {plan.layout.raw(one).is_symlink(), training.is_symlink()} == {missing is None}
    assert plan.layout.selected("t", "back", 1, "best").is_symlink()


def test_another_training_is_ones_own_and_so_is_all_that_follows(plan: Plan, tmp_path: Path) -> None:
    link_shared(plan, ["t"])
    other = load(tmp_path, {**TABLE, "systems": {"one": {**SYSTEM, "training": {"updates": 3}}}})
    link_shared(other, ["t"])
    assert {name.split("/")[0] for name in links(Path("results"))} == {"corpora", "subwords", "encoded"}


@pytest.mark.parametrize("missing", ["corpora/scenes/en-de/raw/corpus.json", "runs/t/one/seed1/log.jsonl"])
def test_what_is_made_of_an_incomplete_part_is_not_used(plan: Plan, missing: str) -> None:
    Path("shared", missing).unlink()
    link_shared(plan, ["t"])
    assert not {name for name in links(Path("results")) if name.startswith("runs")}


def test_what_one_has_oneself_is_kept_and_nothing_made_of_the_other_is_mixed_with_it(plan: Plan) -> None:
    system = Run(plan, "t", "one", 1).system
    write(plan.layout.clean(system), "mine")
    link_shared(plan, ["t"])
    assert links(Path("results")) == {"corpora/scenes/en-de/raw"}
    assert (plan.layout.clean(system) / "mine").is_file()


def test_an_own_corpus_is_the_same_only_with_the_same_declaration_and_text(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    pair = {"en": "a.txt", "de": "a.txt"}
    train = [{"en": "a.txt", "fr": "a.txt"}, pair]  # the first is not read for this pair of languages
    corpora = {"mine": {"train": train, "valid": pair, "tests": {"test": pair}}}
    table = {**TABLE, "systems": {"one": {**SYSTEM, "corpus": "mine"}}}
    own = load(tmp_path, table, corpora=corpora)
    system = own.system("t", "one")
    made = {"url": pair, "sha256": dict.fromkeys(pair, sha256(tmp_path / "a.txt"))}
    declared = own.settings.corpora["mine"].fingerprint
    record = {"declared": declared, "sources": {split: [made] for split in ("train", "valid", "test")}}
    write(Path("shared/corpora/mine/en-de/raw"), "corpus.json", text=json.dumps(record))
    link_shared(own, ["t"])
    assert own.layout.raw(system).is_symlink()
    changed = load(tmp_path, table, corpora={"mine": {**corpora["mine"], "disjoint": True}})
    link_shared(changed, ["t"])
    assert not own.layout.raw(system).exists()
    link_shared(own, ["t"])
    (tmp_path / "a.txt").write_text("another\n")
    link_shared(own, ["t"])
    assert not own.layout.raw(system).exists()


def test_an_own_corpus_is_the_same_only_with_the_file_of_slice_by(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n" * 200)
    (tmp_path / "id.txt").write_text("".join(f"{number}\n" for number in range(200)))
    files = {"en": "a.txt", "de": "a.txt", "fr": "id.txt"}
    train = [{"files": files, "slice": {"by": "fr", "per_mille": [0, 500]}}]
    corpora = {"mine": {"train": train, "valid": files, "tests": {"test": files}}}
    own = load(tmp_path, {**TABLE, "systems": {"one": {**SYSTEM, "corpus": "mine"}}}, corpora=corpora)
    raw = own.layout.raw(own.system("t", "one"))
    fetch("mine", "en-de", Path("shared", *raw.parts[1:]), custom=own.settings.corpora["mine"])
    link_shared(own, ["t"])
    assert raw.is_symlink()
    (tmp_path / "id.txt").write_text("".join(f"{number}\n" for number in range(200, 400)))
    link_shared(own, ["t"])
    assert not raw.exists()


def test_text_that_a_file_of_scores_has_filtered_is_never_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    filters = [{"kind": "scores", "file": "scores.txt", "minimum": 0}]  # theirs may have other scores in this file
    scored = finished(tmp_path, {**TABLE, "systems": {"one": {**SYSTEM, "cleaning": {"filters": filters}}}})
    link_shared(scored, ["t"])
    assert links(Path("results")) == {"corpora/scenes/en-de/raw"}


def test_a_training_never_writes_into_a_linked_state(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    link_shared(plan, ["t"])
    state = Run(plan, "t", "one", 1).folder / "state"
    claim_state(state, {"seed": 1}, {})
    assert f"was a link to {Path('shared/runs/t/one/seed1/state').resolve()}" in capsys.readouterr().err
    assert not state.is_symlink() and json.loads((state / "identity.json").read_text())["identity"] == {"seed": 1}
    assert Path("shared/runs/t/one/seed1/state/identity.json").read_text() == '{"identity": 1}'


def test_a_wrong_folder_is_refused(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="shared_results: nowhere: expected a results folder, got none"):
        link_shared(load(tmp_path, shared_results="nowhere"), ["t"])
    with pytest.raises(ConfigError, match="expected another folder than results: shared"):
        link_shared(load(tmp_path, results="shared"), ["t"])
    monkeypatch.setenv(overlay.VARIABLE, "absent")
    with pytest.raises(ConfigError, match="NMT_SHARED_RESULTS: absent: expected a results folder"):
        link_shared(load(tmp_path, shared_results=None), ["t"])
