"""What a system takes from the parent that it starts from, and which parents are refused."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from nmt.config.corpus.noise import Noise
from nmt.config.data import InheritedSubwords
from nmt.config.inherit import ModelFolder, merge, why_unfit
from nmt.config.models import ModelConfig, MultimodalConfig, RecurrentConfig, TransformerConfig
from nmt.config.system import System
from nmt.config.table import load_table
from nmt.config.training import Training
from nmt.config.yaml import parse
from nmt.plan.layout import Layout
from nmt.plan.systems import experiment, published_config
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, write_json

PARENT: dict[str, Any] = {
    "corpus": "multi30k",
    "languages": "en-fr",
    "cleaning": {"lowercase": False},
    "subwords": {"size": 4000},
    "model": {"layers": 3, "width": 64, "dropout": 0.3},
    "training": {"updates": 9},
}
CHILD: dict[str, Any] = {"corpus": "tatoeba-en-fr", "languages": "en-fr", "training": {"updates": 2}}
LAYOUT = Layout(Path("results"))


def write_tables(folder: Path, **tables: dict[str, Any]) -> None:
    """Write tables of the given systems; a key ``defaults`` is that of the table."""
    for name, systems in tables.items():
        defaults = systems.pop("defaults", {})
        rows = [{"label": system, "system": system} for system in systems]
        table = {"caption": "c", "tests": ["test"], "defaults": defaults, "systems": systems, "rows": rows}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(table))


def load(folder: Path, name: str, **tables: dict[str, Any]) -> dict[str, System]:
    write_tables(folder, **tables)
    return load_table(folder / f"{name}.yaml").systems


def write_folder(folder: Path, weights: str = "a" * 64) -> Path:
    """The JSON files of a model directory, of the parent above."""
    folder.mkdir(parents=True, exist_ok=True)
    parent = System.model_validate(PARENT)
    write_json(folder / "config.json", {"model": parent.model.model_dump(), "vocabulary": {"source": 9, "target": 9}})
    write_json(folder / "cleaning.json", {"cleaning": parent.cleaning.model_dump(), "languages": "en-fr"})
    learned = {"subwords": parent.subwords.model_dump(), "vocab_sha256": {"source": "b" * 64, "target": "b" * 64}}
    write_json(folder / "provenance.json", {"subwords": learned, "weights_sha256": weights})
    return folder


@pytest.mark.parametrize("named", ["parent", "one/parent"])
def test_cleaning_subwords_and_model_come_along_key_by_key(tmp_path: Path, named: str) -> None:
    stated = {"cleaning": {"max_words": 50}, "subwords": {"dropout": 0.1}, "model": {"layers": 4}}
    child = load(
        tmp_path, "one", one={"parent": PARENT, "child": {**CHILD, "initialise": {"system": named}, **stated}}
    )["child"]
    assert child.initialise and child.initialise.parent == ("one", "parent")
    assert child.cleaning.non_defaults() == {"lowercase": False, "max_words": 50}
    assert child.model == TransformerConfig(layers=4, width=64, dropout=0.3)
    assert (child.subwords.size, child.subwords.dropout) == (4000, 0.1)
    assert isinstance(child.subwords, InheritedSubwords)
    assert child.training == Training(updates=2)


def test_noise_is_of_the_parents_text_alone(tmp_path: Path) -> None:
    noisy = PARENT | {"cleaning": {"lowercase": False, "noise": {"names": 0.5}}}
    own = CHILD | {"initialise": {"system": "parent"}, "cleaning": {"noise": {"typos": 0.1}}}
    systems = load(
        tmp_path, "one", one={"parent": noisy, "child": CHILD | {"initialise": {"system": "parent"}}, "own": own}
    )
    assert systems["child"].cleaning.non_defaults() == {"lowercase": False}
    assert systems["own"].cleaning.noise == Noise(typos=0.1)
    folder = write_folder(tmp_path / "m")
    write_json(folder / "cleaning.json", {"cleaning": noisy["cleaning"], "languages": "en-fr"})
    child = load(tmp_path, "two", two={"child": CHILD | {"initialise": {"folder": str(folder)}}})["child"]
    assert child.cleaning.non_defaults() == {"lowercase": False}


def test_parents_of_other_tables_have_their_own_parents_and_defaults(tmp_path: Path) -> None:
    first = {"defaults": {"cleaning": {"punctuation": False}}, "old": PARENT}
    second = {"middle": {**CHILD, "initialise": {"system": "first/old"}, "model": {"layers": 5}}}
    third = {"new": {**CHILD, "initialise": {"system": "second/middle"}}}
    systems = load(tmp_path, "third", first=first, second=second, third=third)
    assert systems["new"].model == TransformerConfig(layers=5, width=64, dropout=0.3)
    assert systems["new"].cleaning.non_defaults() == {"lowercase": False, "punctuation": False}
    middle = load_table(tmp_path / "second.yaml").systems["middle"]
    assert LAYOUT.encoded(systems["new"]) == LAYOUT.encoded(middle)  # the same text and the same subwords


def test_two_tables_may_have_parents_in_each_other(tmp_path: Path) -> None:
    first = {"old": PARENT, "child": {**CHILD, "initialise": {"system": "second/old"}}}
    second = {"old": PARENT, "child": {**CHILD, "initialise": {"system": "first/old"}}}
    systems = load(tmp_path, "first", first=first, second=second)
    assert systems["child"].model == systems["old"].model
    assert re.fullmatch(r"bpe4000-from-[0-9a-f]{8}", LAYOUT.subwords(systems["child"]).name)


def test_text_is_encoded_once_for_all_that_have_the_same_subwords(tmp_path: Path) -> None:
    start = {"initialise": {"system": "parent"}}
    systems = {
        "parent": PARENT,
        "child": {**CHILD, **start},
        "sister": {**CHILD, **start, "model": {"layers": 1}},
        "same_text": {**PARENT, **start},
        "own": {**CHILD, "initialise": {"system": "parent", "own_subwords": True}},
        "alone": {**CHILD, **{key: PARENT[key] for key in ("cleaning", "subwords")}},
        "other": {**CHILD, **start, "subwords": {"size": 3000}},
    }
    paths = {name: LAYOUT.encoded(system) for name, system in load(tmp_path, "one", one=systems).items()}
    assert paths["child"] == paths["sister"] != paths["parent"]
    assert re.fullmatch(r"bpe4000-from-[0-9a-f]{8}", paths["child"].name)
    assert paths["same_text"] == paths["parent"]
    assert paths["own"] == paths["alone"] != paths["child"]
    assert re.fullmatch(r"bpe3000-[0-9a-f]{8}", paths["other"].name)


def test_a_model_directory_hands_down_the_same_and_is_named_by_its_checksums(tmp_path: Path) -> None:
    def child(folder: Path) -> System:
        return load(tmp_path, "one", one={"child": {**CHILD, "initialise": {"folder": str(folder)}}})["child"]

    here = child(write_folder(tmp_path / "here"))
    assert here.cleaning.non_defaults() == PARENT["cleaning"] and here.model == System.model_validate(PARENT).model
    moved, other = child(write_folder(tmp_path / "there")), child(write_folder(tmp_path / "other", "c" * 64))
    assert experiment(here) == experiment(moved) != experiment(other)
    assert LAYOUT.encoded(here) == LAYOUT.encoded(moved) == LAYOUT.encoded(other)  # the vocabularies are the same
    assert str(tmp_path) not in experiment(here) and "a" * 64 in experiment(here)
    assert published_config(here) == published_config(moved) != published_config(other)


@pytest.mark.parametrize(
    ("initialise", "message"),
    [
        (
            {"system": "parnet"},
            r"line 14: systems.child.initialise.system: .* has no system 'parnet'; did you mean 'parent'",
        ),
        ({"system": "two/parent"}, r"line 14: systems.child.initialise.system: .*two.yaml: no such file"),
        ({"system": "child"}, r"line 13: systems.child.initialise: .* a circle: one/child from one/child"),
        ({"system": "grandchild"}, r"got a circle: one/child from one/grandchild from one/child"),
        (
            {"folder": "nowhere"},
            r"line 14: systems.child.initialise.folder: nowhere: expected a model directory, got no such folder",
        ),
        ({}, r"line \d+: systems.child.initialise: expected either system or folder"),
        ({"system": "parent", "folder": "x"}, r"systems.child.initialise: expected either system or folder"),
        ({"folder": "x", "at": "best"}, r"a folder holds one model, so leave it out"),
        ({"system": "parent", "sha256": "a" * 64}, r"sha256 is for a folder"),
        ({"sistem": "parent"}, r"systems.child.initialise.sistem: unknown key; did you mean 'system'"),
        ("parent", r"systems.child.initialise: expected keys and their values"),
    ],
)
def test_parents_that_do_not_exist_are_told_with_their_place(tmp_path: Path, initialise: Any, message: str) -> None:
    systems = {
        "parent": PARENT,
        "child": {**CHILD, "initialise": initialise},
        "grandchild": {**CHILD, "initialise": {"system": "child"}},
    }
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, "one", one=systems)


@pytest.mark.parametrize(
    ("initialise", "message"),
    [
        (
            {"system": "parnet"},
            r"line 4: defaults\.initialise\.system: .* has no system 'parnet'; did you mean 'parent'",
        ),
        ({"folder": "no"}, r"line 4: defaults\.initialise\.folder: no: expected a model directory, got no such folder"),
    ],
)
def test_a_wrong_parent_of_all_systems_is_told_where_it_is_written(
    tmp_path: Path, initialise: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load(tmp_path, "one", one={"parent": PARENT, "child": CHILD, "defaults": {"initialise": initialise}})


FAULTY = """\
caption: c
tests: [test]
systems:
  parent:
    corpus: scenes
    languages: en-de
    cleaning: {lowercase: 7}
    model: {widht: 8}
    training: {updates: 9}
  child: {corpus: scenes, languages: en-de, training: {updates: 2}, initialise: {system: parent}, model: {layers: -1}}
  grandchild: {corpus: scenes, languages: en-de, training: {updates: 2}, initialise: {system: one/child}}
rows: [{label: r, system: child}]
"""


def test_faults_of_a_parent_are_told_once_where_they_are_written(tmp_path: Path) -> None:
    one = tmp_path / "one.yaml"
    one.write_text(FAULTY)
    with pytest.raises(ConfigError) as error:
        load_table(one)
    lowercase, width, layers = str(error.value).splitlines()
    assert lowercase == f"{one}, line 7: systems.parent.cleaning.lowercase: expected true or false, got 7"
    assert width.startswith(f"{one}, line 8: systems.parent.model.widht: unknown key")
    assert layers.startswith(f"{one}, line 10: systems.child.model.layers: expected ")
    with pytest.raises(ConfigError) as error:
        load(tmp_path, "two", two={"parent": PARENT, "new": {**CHILD, "initialise": {"system": "one/parent"}}})
    assert str(error.value).splitlines() == [lowercase, width]


@pytest.mark.parametrize(
    ("file", "change", "got"),
    [
        ("config", {"model": {"dropout": {"new": 1}}}, "the unknown key dropout.new"),
        ("config", {"model": {"activation": "new"}}, "activation: new"),
        ("cleaning", {"cleaning": {"new": 1}}, "the unknown key new"),
        ("provenance", {"subwords": {"subwords": {"new": 1}}}, "the unknown key new"),
    ],
)
def test_settings_of_a_newer_version_are_named_with_it(
    tmp_path: Path, file: str, change: dict[str, Any], got: str
) -> None:
    folder = write_folder(tmp_path / "model")
    for name, values in (("provenance", {"averaged_by": "abc123"}), (file, change)):
        write_json(folder / f"{name}.json", merge(read_json(folder / f"{name}.json"), values))
    with pytest.raises(DataError) as error:
        ModelFolder.read(folder)
    assert str(error.value) == (
        f"{folder}: expected settings that this nmt knows, got {got}; if a newer nmt wrote the folder (code abc123), "
        "use that one; else correct the setting"
    )


def test_folders_that_are_no_single_model_or_another_are_refused(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "model")
    child = {**CHILD, "initialise": {"folder": str(folder), "sha256": "d" * 64}}
    with pytest.raises(
        ConfigError, match=r"line \d+: systems.child.initialise.sha256: expected d{64}, got weights with a{64}"
    ):
        load(tmp_path, "one", one={"child": child})
    write_json(folder / "config.json", {"model": {}, "vocabulary": {}, "members": 2})
    with pytest.raises(ConfigError, match=r"child.initialise.folder: .*expected a model, got an ensemble"):
        load(tmp_path, "one", one={"child": {**CHILD, "initialise": {"folder": str(folder)}}})
    (folder / "cleaning.json").unlink()
    with pytest.raises(ConfigError, match=r"child.initialise.folder: .*cleaning.json: no such file"):
        load(tmp_path, "one", one={"child": {**CHILD, "initialise": {"folder": str(folder)}}})


RECURRENT = RecurrentConfig(kind="recurrent", width=64)


@pytest.mark.parametrize(
    ("model", "parent", "why"),
    [
        (TransformerConfig(layers=9, dropout=0.0), TransformerConfig(decoder_layers=2), None),
        (TransformerConfig(tied="none"), TransformerConfig(tied="all"), None),
        (RecurrentConfig(kind="recurrent", width=64, layers=3, teacher_forcing=0.5), RECURRENT, None),
        (MultimodalConfig(kind="multimodal"), MultimodalConfig(kind="multimodal", regions=1, images="blank"), None),
        (TransformerConfig(), RECURRENT, "expected a parent of kind transformer, got recurrent"),
        (MultimodalConfig(kind="multimodal"), TransformerConfig(), "expected a parent of kind multimodal"),
        (TransformerConfig(width=64), TransformerConfig(), "expected model.width: 512, as the parent has it, got 64"),
        (TransformerConfig(heads=4), TransformerConfig(), "expected model.heads: 8, as the parent has it, got 4"),
        (RecurrentConfig(kind="recurrent", width=64, cell="gru"), RECURRENT, "expected model.cell: lstm"),
        (TransformerConfig(tied="all"), TransformerConfig(), "expected model.tied: decoder, .* or less, got all"),
    ],
)
def test_only_what_leaves_the_meaning_of_the_weights_may_differ(
    model: ModelConfig, parent: ModelConfig, why: str | None
) -> None:
    found = why_unfit(model, parent)
    assert (found is None) if why is None else re.match(why, found or "")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("[encodr]", r"freeze.0: expected encoder, decoder or embeddings, got \"encodr\"; did you mean 'encoder'"),
        ("[encoder, encoder]", "expected different values"),
        ("[encoder, decoder, embeddings]", "nothing is left to train"),
    ],
)
def test_parts_to_freeze_are_known_and_leave_something_to_train(parts: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(Training, f"{{updates: 1, freeze: {parts}}}", "one.yaml")
