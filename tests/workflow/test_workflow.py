"""The rules: what runs for which target, what runs again after which change, and what wrong settings say."""

import copy
import functools
import json
import operator
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import run
from jsonschema import Draft202012Validator
from snakes import ROOT, SYSTEM, TABLE, Project, jobs

from nmt.config.corpus.sources import CustomCorpus
from nmt.config.table import load_table
from nmt.corpora.catalogue import fetch

AFTER_TRAINING = {"average": 1, "decode": 1, "score": 1, "report": 1, "track": 1, "track_table": 1, "all": 1}


def stubbed(folder: Path) -> Project:
    """Runs a stand-in for `nmt`, which writes each stage's files at once."""
    made = Project(folder, {"one": TABLE})
    made.env["BASH_FUNC_nmt%%"] = f'() {{ "{sys.executable}" "{ROOT}/tests/helpers/stub.py" "$@"; }}'
    return made


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return stubbed(tmp_path)


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder where everything is made, and what Snakemake said."""
    done = stubbed(tmp_path_factory.mktemp("built")).snakemake()
    assert done.returncode == 0, done.stdout
    return Path(done.args[done.args.index("--directory") + 1]), done.stdout


@pytest.fixture
def built(first_run: tuple[Path, str], tmp_path: Path) -> Project:
    """A copy of that folder, times included, whose configuration is still that of the run."""
    project = stubbed(tmp_path)
    shutil.copytree(first_run[0], tmp_path, dirs_exist_ok=True)
    return project


@pytest.mark.parametrize("name", ["cluster", "config", "table"])
def test_schemas_are_those_of_the_models(name: str, tmp_path: Path) -> None:
    assert run("schemas", tmp_path)[0] == 0
    written, committed = (folder / f"{name}.schema.json" for folder in (tmp_path, ROOT / "workflow" / "schemas"))
    assert json.loads(written.read_text()) == json.loads(committed.read_text()), "run: make schemas"
    assert not {'"ge":', '"lt":'} & set(committed.read_text().split()), "bounds that no editor knows"


def faults(table: dict[str, Any]) -> list[str]:
    """What an editor underlines."""
    schema = json.loads((ROOT / "workflow" / "schemas" / "table.schema.json").read_text())
    return ["/".join(map(str, fault.absolute_path)) for fault in Draft202012Validator(schema).iter_errors(table)]


@pytest.mark.parametrize("path", sorted((ROOT / "workflow" / "tables").glob("*.yaml")), ids=lambda path: path.stem)
def test_an_editor_finds_no_fault_in_any_table(path: Path) -> None:
    assert faults(yaml.safe_load(path.read_text())) == []


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("defaults/training", {"updates": 2, "label_smoothign": 0.1}),
        ("systems/small/model", {"kind": "recurrent", "heads": 2}),
        ("systems/small/subwords/kind", "bqe"),
    ],
)
def test_an_editor_finds_wrong_keys_of_systems(place: str, wrong: Any) -> None:
    table = {"defaults": {"training": {}}, **copy.deepcopy(TABLE)}
    table["systems"]["small"] |= {"model": {}, "subwords": {}}
    *path, last = place.split("/")
    functools.reduce(operator.getitem, path, table)[last] = wrong
    assert faults(table) == [place]


@pytest.mark.integration
def test_every_table_can_be_asked_for_by_name(tmp_path: Path) -> None:
    tables = {path.stem: load_table(path) for path in (ROOT / "workflow" / "tables").glob("*.yaml")}
    project = Project(tmp_path, {"one": TABLE})
    for name in tables:
        text = (ROOT / "workflow" / "tables" / f"{name}.yaml").read_text()
        (tmp_path / "workflow" / "tables" / f"{name}.yaml").write_text(text)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "records").symlink_to(ROOT / "results" / "records")  # a table scores translations of there
    for split in ("train", "valid", "test_2016_flickr"):  # what a user must have for multi30k_images
        (tmp_path / f"{split}.npy").touch()
    own = {"images": {"multi30k": {"features": "."}}, "word_vectors": {"glove": "none"}}
    project.write("config.yaml", {"tables": ["one"], **own})
    done = project.snakemake("--dry-run", *(f"table_{name}" for name in tables))
    assert done.returncode == 0, done.stdout
    said = re.findall(r"^rule train:.*?wildcards: table=(\S+), system=(\S+), seed=(\d+)", done.stdout, re.DOTALL | re.M)
    systems = {(name, row.system or "") for name, table in tables.items() for row in table.rows if row.system}
    added = (system.back_translation for table in tables.values() for system in table.systems.values())
    systems |= {(text.table, text.system) for text in added if text}
    parents = (system.initialise for table in tables.values() for system in table.systems.values())
    systems |= {parent.parent for parent in parents if parent and parent.system}
    assert set(said) == {(name, one, str(seed)) for name, one in systems for seed in tables[name].seeds_of(one, [1])}
    assert jobs(done.stdout)["train"] == len(said)


@pytest.mark.integration
def test_systems_share_their_data_and_rows_their_training(project: Project) -> None:
    done = project.snakemake("--dry-run")
    data = {"download": 1, "clean": 1, "subwords": 1, "encode": 1}
    rows = {"average": 3, "decode": 3, "score": 3}
    assert jobs(done.stdout) == {**data, "train": 2, **rows, "track": 2, "track_table": 1, "report": 1, "all": 1}


SEEING = {**SYSTEM, "model": {"kind": "multimodal", "backbone": "efficientnet-lite0"}}
PICTURED: dict[str, Any] = {
    "caption": "A system that sees pictures, and one that does not",
    "tests": ["test"],
    "systems": {
        "text": SYSTEM,
        "seeing": SEEING,
        "blind": {**SEEING, "model": {"kind": "multimodal", "images": "blank"}},
    },
    "rows": [
        {"label": "text", "system": "text"},
        {"label": "seeing", "system": "seeing"},
        {"label": "seeing others", "system": "seeing", "decoding": {"images": "random"}},
        {"label": "blind", "system": "blind"},
    ],
}


@pytest.mark.integration
def test_pictures_are_drawn_and_seen_where_systems_look_at_them(tmp_path: Path) -> None:
    project = stubbed(tmp_path)
    project.write("workflow/tables/one.yaml", PICTURED)
    said = project.snakemake("--dry-run").stdout
    assert {rule: jobs(said)[rule] for rule in ("draw", "features", "train")} == {"draw": 1, "features": 3, "train": 3}
    folder = "results/features/scenes/efficientnet-lite0"
    assert f"--images {folder} --tracking" in said and said.count("--images") == 3  # one training, two translations
    assert said.count(f"--images {folder}/test.npy") == 2
    assert project.snakemake().returncode == 0
    assert "Nothing to be done" in project.snakemake().stdout


@pytest.mark.integration
def test_pictures_and_features_of_the_users_own(tmp_path: Path) -> None:
    project = stubbed(tmp_path)
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_text("1.jpg\n")
    project.write("workflow/tables/one.yaml", PICTURED)
    images: dict[str, Any] = {"folder": "photos", "lists": {name: f"{name}.txt" for name in ("train", "valid", "test")}}
    project.write("config.yaml", {"tables": ["one"], "images": {"scenes": {**images, "missing": "blank"}}})
    said = project.snakemake("--dry-run").stdout
    assert jobs(said)["features"] == 3 and "draw" not in jobs(said) and "nmt features photos valid.txt" in said
    assert "--missing=blank" in said
    assert project.snakemake().returncode == 0
    assert "Nothing to be done" in project.snakemake("--dry-run").stdout
    project.write(
        "config.yaml", {"tables": ["one"], "images": {"scenes": {**images, "missing": "blank", "folder": "others"}}}
    )
    assert jobs(project.snakemake("--dry-run").stdout)["features"] == 3
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.npy").write_text("")
    project.write("config.yaml", {"tables": ["one"], "images": {"scenes": {"features": "."}}})
    said = project.snakemake("--dry-run").stdout
    assert "features" not in jobs(said) and "--images test.npy" in said
    del images["lists"]["test"]
    project.write("config.yaml", {"tables": ["one"], "images": {"scenes": images}})
    message = "row 'seeing': expected pictures of scenes's test, got none; "
    message += "give them, or features made of them, under images: scenes:"
    assert message in project.snakemake("--dry-run").stdout


@pytest.mark.integration
def test_seeds_and_limit_from_the_command_line(project: Project) -> None:
    done = project.snakemake("--dry-run", "--config", "seeds=[1, 2, 3]", "limit=5", "results=elsewhere")
    assert jobs(done.stdout)["train"] == 6
    assert "elsewhere/corpora/scenes-first5/en-de/raw --limit=5" in done.stdout


@pytest.mark.integration
def test_a_second_run_has_nothing_to_do(first_run: tuple[Path, str], built: Project) -> None:
    assert "results/tables/one.html" in first_run[1]
    assert "Nothing to be done" in built.snakemake().stdout


SHARDED = ["--config", "shards={clean: 2, encode: 3, decode: 2}"]


@pytest.mark.integration
def test_shards_are_jobs_of_their_own(project: Project) -> None:
    said = project.snakemake(*SHARDED)
    assert said.returncode == 0, said.stdout
    ran = jobs(said.stdout)
    assert {rule: ran[rule] for rule in ("clean", "clean_shard", "encode_shard", "decode_shard", "decode")} == {
        "clean": 1, "clean_shard": 2, "encode_shard": 3, "decode_shard": 6, "decode": 3,
    }  # fmt: skip
    assert "--shard 3/3" in said.stdout and not list(project.folder.glob("results/**/*.shard-*-of-?"))
    assert "Nothing to be done" in project.snakemake("--dry-run", *SHARDED).stdout


def changed(path: str, value: object) -> dict[str, Any]:
    """The table with one value changed at a dotted path."""
    table = copy.deepcopy(TABLE)
    *parents, last = path.split(".")
    at = table
    for part in parents:
        at = at.setdefault(part, {})
    at[last] = value
    return table


CHANGES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "caption": (changed("caption", "Another"), {"report": 1, "track_table": 1, "all": 1}),
    "dropout": (
        changed("systems.large.model.dropout", 0.3),
        {"train": 1, **AFTER_TRAINING},
    ),
    "subwords": (
        changed("systems.large.subwords", {"size": 99}),
        {"subwords": 1, "encode": 1, "train": 1, **AFTER_TRAINING},
    ),
}


@pytest.mark.integration
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_again_only_what_depends_on_it(built: Project, change: str) -> None:
    table, expected = CHANGES[change]
    built.write("workflow/tables/one.yaml", table)
    assert jobs(built.snakemake("--dry-run").stdout) == expected


@pytest.mark.integration
def test_where_things_run_and_new_tables_make_nothing_again(built: Project) -> None:
    elsewhere = ["--config", "device=auto", "mirror=/nowhere"]
    assert "Nothing to be done" in built.snakemake("--dry-run", *elsewhere).stdout
    built.write("workflow/tables/two.yaml", TABLE)
    assert "Nothing to be done" in built.snakemake("--dry-run").stdout


@pytest.mark.integration
def test_a_killed_training_is_tried_again_and_finds_its_state(project: Project) -> None:
    project.env["STUB_FAILURES"] = "2"
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    state = project.folder / "results/runs/one/small/seed1/state/attempts"
    assert len(state.read_text()) == 3


@pytest.mark.integration
def test_a_report_that_fails_leaves_the_last_one(built: Project) -> None:
    tables = built.folder / "results/tables"
    (tables / "one.md").write_text("the last one\n")
    built.write("workflow/tables/one.yaml", changed("caption", "Another"))
    built.env["STUB_FAILS"] = "report"
    assert built.snakemake().returncode == 1
    assert (tables / "one.md").read_text() == "the last one\n"
    assert {path.suffix for path in tables.iterdir()} == {".md", ".csv", ".json", ".html"}
    assert (built.folder / "results/figures/one/loss.png").exists()


@pytest.mark.integration
def test_the_backup_of_a_report_that_was_killed_is_no_obstacle(built: Project) -> None:
    (built.folder / ".snakemake/backups/results/figures/one").mkdir(parents=True)
    built.write("workflow/tables/one.yaml", changed("caption", "Another"))
    done = built.snakemake()
    assert done.returncode == 0, done.stdout


@pytest.mark.integration
def test_users_files_are_watched(project: Project) -> None:
    for name in ("a.en", "a.de"):
        (project.folder / name).write_text("x\n")
    pair = {"en": "a.en", "de": "a.de"}
    settings = {"tables": ["one"], "corpora": {"mine": {"train": pair, "valid": pair, "tests": {"test": pair}}}}
    table = copy.deepcopy(TABLE)
    for system in table["systems"].values():
        system["corpus"] = "mine"
    project.write("workflow/tables/one.yaml", table)
    project.write("config.yaml", settings)
    first = project.snakemake()
    assert first.returncode == 0, first.stdout
    text = project.folder / "a.de"
    text.touch()
    assert "Nothing to be done" in project.snakemake("--dry-run").stdout
    text.write_text("y\n")
    os.utime(text, (0, 0))  # older than the text before, as `cp -p` and `unzip` leave it
    assert jobs(project.snakemake("--dry-run").stdout)["download"] == 1


@pytest.mark.integration
def test_shared_text_of_the_same_content_is_used_whatever_the_dates_of_ones_files(project: Project) -> None:
    for name in ("a.en", "a.de"):
        (project.folder / name).write_text("x\n")
    pair = {code: str(project.folder / f"a.{code}") for code in ("en", "de")}
    corpus = {"train": pair, "valid": pair, "tests": {"test": pair}}
    fetch("mine", "en-de", project.folder / "shared/corpora/mine/en-de/raw", custom=CustomCorpus(**corpus))
    os.utime(pair["de"], (2e9, 2e9))  # newer than the shared text, as a copy is
    project.write("config.yaml", {"tables": ["one"], "corpora": {"mine": corpus}, "shared_results": "shared"})
    table = copy.deepcopy(TABLE)
    for system in table["systems"].values():
        system["corpus"] = "mine"
    project.write("workflow/tables/one.yaml", table)
    planned = jobs(project.snakemake("--dry-run").stdout)
    assert planned["clean"] == 1 and "download" not in planned


@pytest.mark.integration
def test_a_system_is_never_trained_without_the_text_that_it_adds(project: Project) -> None:
    """Where a file of the translator is missing, the plain corpus does not take the place of one with added pairs."""
    table = copy.deepcopy(TABLE)
    table["systems"]["large"]["back_translation"] = {"model": "two/back", "text": "scenes"}
    project.write("workflow/tables/one.yaml", table)
    back = {**SYSTEM, "languages": "de-en", "alignments": "missing.txt"}
    back["training"] = {**SYSTEM["training"], "guided_alignment": {}}
    rows = [{"label": "back", "system": "back"}]
    project.write("workflow/tables/two.yaml", {"caption": "", "tests": ["a"], "systems": {"back": back}, "rows": rows})
    done = project.snakemake("--dry-run")
    assert done.returncode == 1 and "missing.txt" in done.stdout, done.stdout
    assert "results/corpora/scenes-back-" not in done.stdout


@pytest.mark.integration
def test_another_side_of_the_same_word_vectors_trains_again(project: Project) -> None:
    (project.folder / "vectors.txt").write_text("a 1\n")
    project.write("config.yaml", {"tables": ["one"], "word_vectors": {"mine": "vectors.txt"}})

    def planned(*sides: str) -> dict[str, int]:
        project.write("workflow/tables/one.yaml", changed("systems.small.word_vectors", dict.fromkeys(sides, "mine")))
        return jobs(project.snakemake("--dry-run").stdout)

    project.write("workflow/tables/one.yaml", changed("systems.small.word_vectors", {"source": "mine"}))
    assert project.snakemake().returncode == 0
    assert planned("source") == {} and planned("target")["train"] == 1
    for file in (project.folder / ".snakemake/metadata").rglob("*"):
        if file.is_file():  # as of a training from before sides were compared
            record = json.loads(file.read_text())
            kept = [value for value in record["params"] if not value.startswith("'word vectors ")]
            file.write_text(json.dumps(record | {"params": kept}))
    training = project.folder / "results/runs/one/small/seed1/training.json"
    date = training.stat().st_mtime_ns
    training.write_text(json.dumps({"word_vectors": {"source": {}}}))
    os.utime(training, ns=(date, date))
    assert planned("source") == {} and planned("target")["train"] == 1


@pytest.fixture
def declared(project: Project) -> Callable[..., None]:
    """Write the settings of a project whose systems have a corpus of their own, with changes to its declaration."""
    for name in ("a.en", "a.de", "a.fr"):
        (project.folder / name).write_text("x\n")
    table = copy.deepcopy(TABLE)
    for system in table["systems"].values():
        system["corpus"] = "mine"
    project.write("workflow/tables/one.yaml", table)
    pair = {"files": {"en": "a.en", "de": "a.de"}}

    def write(**changes: Any) -> None:
        corpus = {"train": [pair], "valid": [pair], "tests": {"test": [pair]}} | changes
        project.write("config.yaml", {"tables": ["one"], "corpora": {"mine": corpus}})

    write()
    return write


DECLARATIONS: dict[str, dict[str, Any]] = {
    "licence": {"licence": "CC0"},
    "disjoint": {"disjoint": True},
    "lines": {"train": [{"files": {"en": "a.en", "de": "a.de"}, "lines": [0, 1]}]},
    "test set": {"tests": {name: [{"source": "sacrebleu:wmt14", "languages": ["en", "de"]}] for name in ("test", "b")}},
}


@pytest.mark.integration
def test_a_changed_declaration_of_a_corpus_makes_its_text_again(
    project: Project, declared: Callable[..., None]
) -> None:
    assert project.snakemake().returncode == 0
    assert "Nothing to be done" in project.snakemake("--dry-run").stdout
    for change in DECLARATIONS.values():
        declared(**change)
        assert jobs(project.snakemake("--dry-run").stdout).get("download") == 1, change
    files = {"en": "a.en", "de": "a.de"}
    declared(train=[{"files": files | {"fr": "a.fr"}}, {"source": "sacrebleu:wmt14", "languages": ["en", "fr"]}])
    assert "Nothing to be done" in project.snakemake("--dry-run").stdout  # the languages are still en-de


@pytest.mark.integration
def test_text_from_before_declarations_were_compared_stays_as_far_as_they_are_known_to_be_equal(
    project: Project, declared: Callable[..., None]
) -> None:
    assert project.snakemake().returncode == 0
    for file in (project.folder / ".snakemake/metadata").rglob("*"):
        if file.is_file():
            record = json.loads(file.read_text())
            kept = [value for value in record["params"] if not value.startswith("'declaration ")]
            file.write_text(json.dumps(record | {"params": kept}))
    declared(disjoint=True)
    assert "Nothing to be done" in project.snakemake("--dry-run").stdout  # nothing says what it was
    raw = project.folder / "results/corpora/mine/en-de/raw"
    settings = yaml.safe_load((project.folder / "config.yaml").read_text())
    custom = CustomCorpus.model_validate(settings["corpora"]["mine"])
    (raw / "corpus.json").write_text(json.dumps({"declared": custom.fingerprint}))
    assert "Nothing to be done" in project.snakemake("--dry-run").stdout
    declared()
    assert jobs(project.snakemake("--dry-run").stdout).get("download") == 1


WRONG = {
    "key": (["--config", "limt=3"], "--config, line 1: limt: unknown key; did you mean 'limit'?"),
    "value": (["--config", "device=gpu"], 'device: expected auto, cpu or cuda, got "gpu"'),
    "table": (["--config", "tables=[onee]"], "workflow/tables/onee.yaml: no such file"),
    "target": (["table_onee"], "no target 'table_onee'; did you mean 'table_one'?"),
    "target of inputs": (["inputs_onee"], "no target 'inputs_onee'; did you mean 'inputs_one'?"),
    "target of COMET": (["comet_onee"], "no target 'comet_onee'; did you mean 'comet_one'?"),
    "system": (
        ["results/runs/one/smal/seed1/training.json"],
        "workflow/tables/one.yaml: no system 'smal'; did you mean 'small'?",
    ),
}


FILES = {
    "not YAML": ("config.yaml", "tables: [\n", "config.yaml, line 2: expected YAML"),
    "other bytes": ("config.yaml", "tables: [one]\n# caf\xe9\n", "config.yaml, line 2: expected UTF-8"),
    "nothing": ("config.yaml", "", "config.yaml: expected keys and their values, got none"),
    "key": ("config.yaml", "tables: [one]\nlimt: 3\n", "config.yaml, line 2: limt: unknown key"),
    "own text": (
        "config.yaml",
        "tables: [one]\ncorpora: {scenes2: {train: &a {en: a, de: b}, valid: *a, tests: {test: *a}}}\n",
        "config.yaml, line 2: corpora.scenes2.train.en: a: no such file",
    ),
    "corpus": ("workflow/tables/one.yaml", None, "workflow/tables/one.yaml: systems.small: unknown corpus: 'scenes2'"),
}


@pytest.mark.integration
@pytest.mark.parametrize("case", FILES)
def test_wrong_files_are_said_once_and_alone(project: Project, case: str) -> None:
    name, text, message = FILES[case]
    if case in ("own text", "corpus"):
        table = copy.deepcopy(TABLE)
        for system in table["systems"].values():
            system["corpus"] = "scenes2"
        project.write("workflow/tables/one.yaml", table)
    if text is not None:
        (project.folder / name).write_bytes(text.encode("latin-1"))
    done = project.snakemake("--dry-run")
    assert done.returncode == 1
    assert done.stdout.count(f"snakemake --directory {project.folder}: {message}") == 1
    assert "Traceback" not in done.stdout


@pytest.mark.integration
def test_a_wrong_table_that_nobody_asked_for_is_left_out(project: Project) -> None:
    project.write("workflow/tables/draft.yaml", {"x": 1})
    project.write("workflow/tables/environment.yaml", TABLE)
    done = project.snakemake("--dry-run")
    assert "environment.yaml: expected another name, because comet_environment installs COMET" in done.stdout
    assert done.returncode == 0 and "draft.yaml, line 1: x: unknown key" in done.stdout
    asked = project.snakemake("--dry-run", "table_draft")
    assert asked.returncode == 1 and "draft.yaml, line 1: x: unknown key" in asked.stdout
    other = project.snakemake("--dry-run", "comet_environment")
    assert other.returncode == 0 and jobs(other.stdout) == {"comet_environment": 1}, other.stdout


@pytest.mark.integration
def test_an_ensemble_of_one_seed_stops_no_other_table(project: Project) -> None:
    row = {"label": "together", "system": "small", "at": "best", "ensemble": True}
    project.write("workflow/tables/ensemble.yaml", {**TABLE, "rows": [row]})
    others = project.snakemake("--dry-run")
    assert others.returncode == 0, others.stdout
    for target in ("table_ensemble", "comet_ensemble"):
        asked = project.snakemake("--dry-run", target)
        assert asked.returncode == 1 and "ensemble.yaml: row 'together': expected at least two seeds" in asked.stdout


@pytest.mark.integration
@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_are_said_once_and_alone(project: Project, case: str) -> None:
    arguments, message = WRONG[case]
    done = project.snakemake("--dry-run", *arguments)
    assert done.returncode == 1
    assert done.stdout.count(message) == 1
    assert "Traceback" not in done.stdout


@pytest.mark.integration
def test_lint(tmp_path: Path) -> None:
    done = Project(tmp_path, {"one": TABLE}).snakemake("--lint")
    assert done.returncode == 0, done.stdout
