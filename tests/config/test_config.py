"""Configuration: what is wrong is named by file, line, key, what is allowed and the nearest word."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from nmt.config.data import Cleaning, Images, Subwords
from nmt.config.decoding import Decoding
from nmt.config.models import MultimodalConfig, RecurrentConfig, TransformerConfig
from nmt.config.selection import check_selection, why_not_kept
from nmt.config.system import System
from nmt.config.table import OVERLAYS, Table, load_table
from nmt.config.training import Consistency, Training
from nmt.config.types import amount
from nmt.config.workflow import Workflow
from nmt.config.yaml import parse
from nmt.plan.layout import Layout
from nmt.system.errors import ConfigError
from nmt.system.files import digest

TABLE = """caption: A table
tests: [test_2016_flickr]
defaults:
  corpus: multi30k
  languages: en-de
  model: {layers: 2, width: 128, heads: 2}
systems:
  one:
    training: {epochs: 3}
  two:
    model: {width: 64}
    training: {updates: 10, batch: 64 sentences}
rows:
  - {label: One, system: one, at: epoch 3}
  - {label: Quoted, published: {bleu: 34.2}}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_defaults_lie_under_each_system(tmp_path: Path) -> None:
    table = load_table(write(tmp_path, TABLE))
    assert table.systems["one"].model == TransformerConfig(layers=2, width=128, heads=2)
    assert table.systems["two"].model == TransformerConfig(layers=2, width=64, heads=2)
    assert table.systems["two"].training.batch == "64 sentences"
    assert table.rows[1].system is None


def test_an_empty_mapping_takes_a_default_back_and_only_models_are_replaced_whole(tmp_path: Path) -> None:
    lines = "  word_vectors: {source: glove}\n  training: {optimizer: {epsilon: 1.0e-8}, schedule: {warmup: 7}}\n"
    text = TABLE.replace("systems:\n", f"{lines}systems:\n")
    text = text.replace("{epochs: 3}", "{epochs: 3, optimizer: {kind: adamw}}\n    word_vectors: {}")
    text = text.replace("{width: 64}", "{kind: recurrent, width: 64}").replace("{layers", "{kind: transformer, layers")
    one, two = load_table(write(tmp_path, text)).systems.values()
    assert one.word_vectors == {} and two.word_vectors == {"source": "glove"}
    assert (one.training.optimizer.kind, one.training.optimizer.epsilon, one.training.schedule.warmup) == (
        "adamw",
        1e-8,
        7,
    )
    assert two.model == RecurrentConfig(kind="recurrent", width=64)
    two = load_table(write(tmp_path, text.replace("{kind: transformer, layers", "{layers"))).systems["two"]
    assert two.model == RecurrentConfig(kind="recurrent", width=64), "a default without a kind is a Transformer's"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("{kind: recurrent}", "needs subwords.kind: words"),
        ("{kind: recurrent, attention: {kind: none}}\n    subwords: {kind: words}", "needs a model with attention"),
    ],
)
def test_unknown_words_are_replaced_only_where_a_model_of_words_looks(tmp_path: Path, given: str, why: str) -> None:
    text = TABLE.replace("{width: 64}", given).replace("{layers", "{kind: transformer, layers")
    text = text.replace("system: one, at: epoch 3", "system: two, decoding: {replace_unknown: true}")
    with pytest.raises(ConfigError, match=f"row 'One': decoding.replace_unknown {why}"):
        load_table(write(tmp_path, text))


@pytest.mark.parametrize(
    ("at", "training", "why"),
    [
        ("best", {"epochs": 9, "keep_best": 0, "keep_last": 2}, "keep_best is 0; raise it to 1"),
        ("average best 2", {"epochs": 9}, None),
        ("average best 2", {"epochs": 9, "validate_every": "10 updates"}, "keep_best is 1; raise it to 2"),
        ("epoch 16", {"epochs": 28, "keep_last": 5}, "keep_last is 5; raise it to 13"),
        ("epoch 24", {"epochs": 28, "keep_last": 5}, None),
        ("epoch 16", {"epochs": 28, "keep_last": 4, "checkpoint_every": "4 epochs"}, None),
        ("epoch 16", {"epochs": 28, "keep_last": 3, "checkpoint_every": "4 epochs"}, "keep_last is 3; raise it to 4"),
        ("epoch 9", {"epochs": 9, "keep_last": 1, "checkpoint_every": "4 epochs"}, None),
        ("epoch 2", {"epochs": 28, "updates": 100, "keep_last": 1}, None),  # nobody knows which epoch ends it
        ("update 40", {"updates": 30}, "ends after 30 updates"),
        ("update 15", {"updates": 30, "checkpoint_every": "10 updates"}, "choose a divisor of 15"),
        ("update 10", {"updates": 30, "checkpoint_every": "10 updates", "keep_last": 2}, "raise it to 3"),
        ("average 3", {"updates": 30, "keep_last": 2}, "raise it to 3"),
        ("average 11", {"epochs": 10}, "10 epochs with training.checkpoint_every: 1 epochs leave 10"),
        ("average 3", {"epochs": 10, "checkpoint_every": "4 epochs"}, None),
        ("average best 5", {"epochs": 3}, "3 epochs with training.validate_every: 1 epochs leave 3"),
        ("average best 5", {"updates": 9, "validate_every": "2 updates", "keep_best": 5}, None),
        (
            "average best 5",
            {"updates": 8, "validate_every": "2 updates", "keep_best": 5},
            "validate_every: 2 updates leave 4",
        ),
        ("last", {"updates": 30, "keep_last": 1}, None),
        ("average 3 and start", {"updates": 30, "keep_last": 2}, "raise it to 3"),
    ],
)
def test_checkpoints_that_no_training_keeps(at: str, training: dict[str, Any], why: str | None) -> None:
    found = why_not_kept(at, Training.model_validate(training))
    assert found is None if why is None else found and why in found


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "layers: 2",
            "layrs: 2",
            r"mine\.yaml, line 6: defaults\.model\.layrs: unknown key; did you mean 'layers'\?",
        ),
        ("width: 64", "wdth: 64", r"line 11: systems\.two\.model\.wdth: unknown key; did you mean 'width'\?"),
        (
            "64 sentences",
            "64 sentence",
            r"line 12: systems\.two\.training\.batch: expected .*64 sentences.*\"64 sentence\"",
        ),
        ("epochs: 3", "epochs: 0", r"line 9: systems\.one\.training\.epochs: expected 1 or more, got 0"),
        ("epochs: 3", "epochs: 9007199254740992", r"epochs: expected less than 9,007,199,254,740,992, got 90071"),
        ("epochs: 3", "epochs: 3, clip: .inf", r"clip: expected a finite number, got Infinity"),
        (
            "epochs: 3",
            "epochs: 3, optimizer: {betas: [0, 0, 0]}",
            r"betas: expected a list of at most 2, got \[0, 0, 0",
        ),
        ("caption: A table", "caption: 5", r"line 1: caption: expected text, got 5; put it in quotes"),
        ("caption: A", f"title: {'a' * 81}\ncaption: A", r"title: expected at most 80 characters, got \"aaa"),
        ("epochs: 3", "epochs: true", r"line 9: systems\.one\.training\.epochs: expected a number, got true"),
        ("updates: 10, ", "", r"systems\.two\.training: epochs or updates must be given"),
        (
            "system: one",
            "system: oen",
            r"mine\.yaml, line 14: rows\.0: row 'One' names system 'oen'; expected one of one, two",
        ),
        (
            "at: epoch 3",
            "at: epoch 4",
            r"row 'One' asks for 'epoch 4', which is not kept: training ends after 3",
        ),
        ("epochs: 3", "epochs: 3, epochs: 4", r"line 9: expected YAML, got key 'epochs' twice"),
        ("Quoted, published: {bleu: 34.2}", "Quoted", r"row 'Quoted' has no system, no hypotheses and no published"),
        (
            "system: one,",
            "system: one, against: Quoted,",
            r"row 'One': against: no other trained row of its test set is called 'Quoted'; it has no other",
        ),
        (
            "published: {bleu: 34.2}",
            "published: {bleu: 34.2}, against: One",
            r"line 15: rows\.1: row 'Quoted' has no system, so nothing",
        ),
        ("tests: [test_2016_flickr]", "tests: [test_2016_flickr, valid]", r"tests\.1: no row is scored on valid"),
        ("tests: [test_2016_flickr]", "tests: [a, a]", r"tests: expected different values, got 'a' twice"),
        (
            "{epochs: 3}",
            "{epochs: 3}\n    seeds: [2, 2]",
            r"line 10: .*seeds: expected different values, got '2' twice",
        ),
        (
            "at: epoch 3}",
            "at: epoch 3}\n  - {label: One, system: one, at: epoch 3}",
            r"line 15: rows\.1: row 'One' occurs twice",
        ),
        (
            "at: epoch 3}",
            "at: epoch 3}\n  - {label: One, system: one, at: epoch 2}",
            r"line 15: rows\.1: row 'One': another row of its test set has this label",
        ),
        ("system: one", "system: oen", r"expected one of one, two; did you mean 'one'\?"),
        ("batch: 64 sentences", "batch: 64", r"line 12: .*batch: expected .*64 sentences"),
        ("system: one", "system: a b", r"line 14: rows\.0\.system: expected letters, digits, _ \. -, got \"a b\""),
        ("tests: [test_2016_flickr]", "tests: [a b]", r"line 2: tests\.0: expected letters, digits, _ \. -"),
        ("rows:\n", "rows: 3\nnothing:\n", r"rows: .*got 3"),
        (
            "    training: {epochs: 3}",
            "    training: 3",
            r"line 9: systems\.one\.training: expected keys and their values",
        ),
        (
            "caption: A table",
            "no: A table",
            r"line 1: expected YAML, got the key no, which YAML reads as true",
        ),
        ("caption: A table", "2016: A table", r"line 1: 2016: unknown key; allowed here: caption, "),
        ("caption: A table", "0x10: A table", r'got the key 0x10, which YAML reads as a number; .* quotes: "0x10"'),
        (
            "caption: A table",
            "samples: 010",
            r"line 1: expected YAML, got 010, which YAML reads as 8; write it",
        ),
        ("caption: A table", "caption: {{ A }}", r"line 1: expected YAML, got a key that is not one word"),
        ("at: epoch 3", "at: epoch3", r"line 14: rows\.0\.at: expected last \| best \| epoch 16 .* got \"epoch3\""),
        ("caption: A table\n", "", r"caption: required key is missing"),
        (
            "defaults:\n  corpus: multi30k\n  languages: en-de\n  model: {layers: 2, width: 128, heads: 2}",
            "defaults: [a]",
            r"line 3: defaults: expected keys and their values, got \[\"a\"\]",
        ),
        (
            "published: {bleu: 34.2}",
            "published: {bleu: 342}",
            r"line 15: rows\.1\.published\.bleu: expected 100 or less, got 342",
        ),
        ("published: {bleu: 34.2}", "published: {}", r"line 15: rows\.1\.published: expected a figure, got none"),
        ("epochs: 3}", "epochs: 3}\n    cleaning: {filters: [equal]}", r"filters\.0: expected .*{kind: equal}"),
        ("heads: 2", "norm: pst", r"line 6: .*norm: expected post or pre, got \"pst\"; did you mean 'post'\?"),
        ("heads: 2", "heads: 3", r"width must be a multiple of heads, got 128 and 3"),
        ("one:\n", "'a; rm -rf x':\n", r"systems\.a; rm -rf x: expected letters, digits, _ \. -"),
        ("caption: A", "caption: [A", r"mine\.yaml, line \d+: expected YAML"),
        ("caption: A", "caption: A: B", r"line 1: expected YAML, got a colon in a value.*put the value in quotes"),
        ("caption: A table", "caption: 'it's'", r"line 1: expected YAML, got text after a closing quote"),
        ("  two:", "   two:", r"line 10: expected YAML, got a line with another indentation"),
        ("    training: {ep", "\ttraining: {ep", r"line 9: expected YAML, got a tab; indent by spaces"),
        ("languages: en-de", "languages: english", r"line 5: .*languages: expected source-target, e\.g\. en-de"),
        ("training: {epochs: 3}", "epochs: 3", r"one\.epochs: unknown key; it belongs below 'training'; allowed here"),
        ("epochs: 3}", "epochs: 3}\n    seeds: 3", r"seeds: expected a list, got 3; put its values in brackets: \[3\]"),
        ("epochs: 3}", "epochs: 3}\n    seeds:\n      1\n      2", r"put its values in brackets: \[1, 2\]"),
        ("rows:\n", "rows: {label: a}\nx:\n", r"rows: expected a list, got {.*; begin each of its parts with a dash"),
        ("rows:\n  - {", "rows:\n  {", r"got a line with a dash among keys; all parts of a list begin with a dash"),
        ("epochs: 3}", "epochs: 10k}", r'epochs: expected a whole number, in digits alone, got "10k"'),
        ("epochs: 3}", "epochs: 3, clip: '0,1'}", r'clip: expected a number, without a comma, got "0,1"'),
        ("tests: [test_2016_flickr]", "tests: []", r"line 2: tests: expected a list of at least 1, got \[\]"),
        ("system: one", "system: 1", r"line 14: .*expected letters, digits, _ \. -, got 1; put it in quotes"),
        ("    training: {epochs: 3}", "    subwords: 8", r"subwords: expected keys .*, got 8; keys: kind, size"),
        ("systems:\n", "systems\n", r"line 8: .* got a line without a colon here or just before"),
        ("caption: A table", 'caption: "A\\d"', r"line 1: .* got a backslash in double quotes; use single"),
        ("caption: A table", 'caption: "A', r"got the end of the file inside quotes; close them"),
        ("caption: A table", "caption: [A", r"got a colon inside brackets, whose end may be missing before"),
        ("bleu: 34.2}}", "bleu: 34.2}", r"got the end of the file inside brackets; close them"),
        ("system: one", "hypotheses: 5", r"line 14: rows.0.hypotheses: expected a path, got 5"),
        ("caption: A table", "caption: %A", r"got a value that begins with a special character; put .* in quotes"),
        ("caption: A table", "caption: *A", r"got a value that begins with \*; put the value in quotes"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TABLE
    with pytest.raises(ConfigError, match=message):
        load_table(write(tmp_path, TABLE.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("dropout: 0.1", r"systems\.one\.dropout: unknown key; it belongs below 'subwords' or 'model'; allowed"),
        ("layers: 2", r"systems\.one\.layers: unknown key; it belongs below 'model'; allowed"),
        (
            "decoding: {}",
            r"unknown key; it belongs below 'back_translation' or 'forward_translation' or 'rows'; allowed",
        ),
        ("cleaning: {filters: [{share: 1}]}", r"filters\.0: kind: expected language, .* opusfilter, got none"),
        (
            "model: {dropout: '0,1'}",
            r'dropout: expected a number, without a comma, or keys and their values, got "0,1"',
        ),
        ("training: {epochs: 1, optimizer: {betas: [0.9]}}", r"betas\.1: required value is missing; add it"),
        ("<<: {model: {width: 0}}", r"line 9: systems\.one\.model\.width: expected 1 or more, got 0"),
        ("updats: 9", r"systems\.one\.updats: unknown key; allowed"),
        (
            "training.clip: 9",
            r"one\.training\.clip: unknown key; write 'clip' below 'training', without a dot; allowed",
        ),
        (
            "back_translation: {model: a/b, text: c, seed: 1.5}",
            r"back_translation\.seed: expected a whole number, in digits alone, or seeds of an ensemble, 1-2-3",
        ),
    ],
)
def test_one_message_says_where_a_key_belongs_and_all_types_of_a_value(
    tmp_path: Path, given: str, message: str
) -> None:
    table = TABLE.replace("    training: {epochs: 3}\n", "", 1) if given.startswith("training:") else TABLE
    with pytest.raises(ConfigError, match=message) as refusal:
        load_table(write(tmp_path, table.replace("one:\n", f"one:\n    {given}\n", 1)))
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("defaults:", "defualts:", r"line 3: defualts: unknown key; did you mean 'defaults'\?"),
        (
            TABLE[TABLE.index("systems:") : TABLE.index("rows:")],
            "systems: [a]\n",
            r"line 7: systems: expected keys and their values, got \[\"a\"\]",
        ),
        ("systems:\n", "sistems:\n", r"line 7: sistems: unknown key; did you mean 'systems'\?"),
        ("[test_2016_flickr]", "[test_2016_flickr, b]", r"line 2: tests\.1: no row is scored on b; leave it out"),
        ("caption:", "published_curves: {c: [[1, 2]]}\ncaption:", r"line 1: published_curves\.c: no system 'c'"),
        ("caption:", '"a\\nb": 1\ncaption:', r"line 1: a b: unknown key; allowed"),
    ],
)
def test_a_fault_of_the_whole_table_has_one_message_and_its_line(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refusal:
        load_table(write(tmp_path, TABLE.replace(old, new, 1)))
    assert len(str(refusal.value).splitlines()) == 1, str(refusal.value)


def test_a_fault_of_the_defaults_is_said_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load_table(write(tmp_path, TABLE.replace("layers: 2", "layrs: 2")))
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("training: {epochs: 3}", "updates: 10", r"systems\.one\.updates: unknown key; it belongs below 'training'"),
        ("training: {epochs: 3}", "warmup: 10", r"one\.warmup: unknown key; it belongs below 'training\.schedule'"),
        ("training: {epochs: 3}", "trainin: {epochs: 3}", r"systems\.one\.trainin: .* did you mean 'training'"),
        ("caption: A table", "captoin: A table", "captoin: .* did you mean 'caption'"),
    ],
)
def test_a_misplaced_or_misspelt_key_is_not_said_to_be_missing_too(
    tmp_path: Path, old: str, new: str, key: str
) -> None:
    with pytest.raises(ConfigError, match=key) as refusal:
        load_table(write(tmp_path, TABLE.replace(old, new, 1)))
    assert len(str(refusal.value).splitlines()) == 1


def test_a_row_is_compared_only_when_all_rows_name_systems(tmp_path: Path) -> None:
    later = "against: Two}\n  - {label: Two, system: two}\n  - {label: Three, system: three}"
    with pytest.raises(ConfigError, match=r"line 16: rows\.2: row 'Three' names system 'three'"):
        load_table(write(tmp_path, TABLE.replace("at: epoch 3}", f"at: epoch 3, {later}", 1)))


@pytest.mark.parametrize("settings", ["results: ''", "results:", "comet: {python: ''}"])
def test_a_path_is_not_empty(settings: str) -> None:
    with pytest.raises(ConfigError, match=r"line 2: (results|comet\.python): expected a path, got nothing"):
        parse(Workflow, f"tables: [one]\n{settings}\n", "config.yaml")
    assert parse(Workflow, "tables: [one]\nmirror:\n", "config.yaml").mirror is None


@pytest.mark.parametrize("value", ["clip: true", "label_smoothing: false", "schedule: {peak: true}"])
def test_true_and_false_are_no_numbers(value: str) -> None:
    with pytest.raises(ConfigError, match=f"expected a number, got {value.rstrip('}').split()[-1]}"):
        parse(Training, f"{{epochs: 1, {value}}}", "mine.yaml")


def test_a_file_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, TABLE)
    with pytest.raises(ConfigError, match="did you mean 'mine'"):
        load_table(tmp_path / "mien.yaml")


@pytest.mark.parametrize(
    ("model", "value", "message"),
    [
        (System, {"corpus": "c", "languages": "en-de", "training": {"epochs": 1}, "model": {"tied": "all"},
                  "subwords": {"joint": False}}, "needs subwords.joint: true"),
        (Decoding, {"beam": 2, "nbest": 3}, "nbest must not exceed beam"),
        (Subwords, {"ids": {"pad": 1}}, "pad, unk, bos and eos must be 0, 1, 2 and 3"),
        (Subwords, {"kind": "words", "dropout": 0.1}, "leaves out BPE merges, but kind: words has none"),
        (Subwords, {"segmentations": 4}, "segmentations: 4 would all be the same without dropout"),
        (System, {"corpus": "c", "languages": "en-de", "training": {"epochs": 1, "train_bleu": 9},
                  "subwords": {"dropout": 0.1}}, r"train_bleu does not work with subwords\.dropout"),
        (Workflow, {"tables": []}, "a list of at least 1, got"),
        (Subwords, {"kind": "bbpe", "size": 259}, r"needs size: 260 or more .*got 259"),
        (TransformerConfig, {"width": 15, "heads": 3, "positions": "learned", "context": "gru"}, "needs an even width"),
        (MultimodalConfig, {"kind": "multimodal", "fusion": "gate"}, "expected queries, concatenation or gated"),
        (Images, {"folder": "a", "features": "b"}, "expected either folder with lists, or features"),
        (Cleaning, {"characters": "latn"}, "expected any or latin"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_together(model: Any, value: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(model, str(value).replace("'", '"').replace("False", "false"), "here")


def test_one_number_sets_the_usual_dropouts() -> None:
    found = parse(TransformerConfig, "dropout: 0.3", "here").dropout
    assert (found.embedding, found.residual, found.attention, found.activation) == (0.3, 0.3, 0.0, 0.0)


@pytest.mark.parametrize("at", ["last", "best", "epoch 16", "update 4000", "average 10", "average best 5"])
def test_selections(at: str) -> None:
    check_selection(at)


def test_a_selection_that_is_none() -> None:
    with pytest.raises(ConfigError, match="expected last, best, epoch N"):
        check_selection("epoch sixteen")


def test_amounts() -> None:
    assert amount("4096 tokens") == (4096, "tokens")


def test_paths_follow_what_determines_the_content() -> None:
    layout = Layout(Path("results"))
    base = System.model_validate({"corpus": "c", "languages": "en-de", "training": {"epochs": 1}})
    dropout = base.model_copy(update={"model": TransformerConfig(dropout=0.5)})  # type: ignore[arg-type]
    recased = base.model_copy(update={"cleaning": Cleaning(lowercase=False)})
    bigger = base.model_copy(update={"subwords": Subwords(size=100)})
    assert layout.encoded(base) == layout.encoded(dropout)
    assert layout.raw(base) == layout.raw(recased) and layout.clean(base) != layout.clean(recased)
    assert layout.clean(base) == layout.clean(bigger) and layout.encoded(base) != layout.encoded(bigger)
    assert Layout(Path("results"), 100).raw(base) != layout.raw(base)


def test_defaults_are_part_of_what_paths_and_states_leave_out() -> None:
    """A path or a training's identity holds only what differs from the defaults, so that a key added later changes none
    of them. The price: a default must never change its value. A new key needs a new line here, and nothing else.
    """
    defaults = {
        "Cleaning": "23b6f5ba", "Subwords": "da40fff7", "TransformerConfig": "f180357e",
        "RecurrentConfig": "81062fc1", "Training": "3fe5516c", "MultimodalConfig": "e3c6724e", "Decoding": "ed7fdb91",
        "Consistency": "bfaff4a9",
    }  # fmt: skip
    models = [
        Cleaning(), Subwords(), TransformerConfig(), RecurrentConfig(kind="recurrent"), Training(epochs=1), Decoding(),
        MultimodalConfig(kind="multimodal"), Consistency(),
    ]  # fmt: skip
    assert {type(m).__name__: digest(m.model_dump(mode="json")) for m in models} == defaults
    assert Cleaning().slug("clean") == Cleaning(lowercase=True).slug("clean") != Cleaning(lowercase=False).slug("clean")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("{kind: recurent}", r"kind: expected transformer, recurrent or multimodal, got 'recurent'; did you mean"),
        ("{kind: recurrent, widht: 8}", r"model.widht: unknown key; did you mean 'width'\?; allowed here: kind, cell"),
        ("{kind: recurrent, attention: {kind: local}}", r"attention.kind: expected none, global, local-p or local-m"),
        ("{kind: recurrent, bidirectional: true, attention: {score: dot}}", "the same width, got bidirectional"),
        ("{kind: recurrent, input_feeding: true, attention: {kind: none}}", "needs an attention, got kind: none"),
        ("5", "model: expected keys and their values"),
        ("{dropout: 1.5}", r"model.dropout: expected a number from 0 to below 1, got 1.5"),
        ("{kind: recurrent, dropout: -1}", r"model.dropout: expected a number from 0 to below 1, got -1"),
    ],
)  # fmt: skip
def test_another_kind_of_model_is_checked_as_such(model: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"here, line 4: .*{message}"):
        parse(System, f"corpus: x\nlanguages: en-de\ntraining: {{epochs: 1}}\nmodel: {model}", "here")


@pytest.mark.parametrize(
    ("change", "found"),
    [({}, "two"), ({"fusion": "gated"}, None), ({"backbone": "descriptions"}, None), ({"images": "blank"}, None)],
)
def test_a_picture_is_drawn_over_by_the_first_row_that_looks_at_one(change: dict[str, str], found: str | None) -> None:
    data = {"corpus": "c", "languages": "en-de", "training": {"updates": 1}}
    systems = {"text": data, "seeing": {**data, "model": {"kind": "multimodal", **change}}}
    rows = [
        {"label": "one", "system": "text"},
        {"label": "blank", "system": "seeing", "decoding": {"images": "blank"}},
        {"label": "other", "system": "seeing", "test": "b"},
        {"label": "two", "system": "seeing"},
    ]
    table = {"caption": "c", "tests": ["a", "b"], "systems": systems, "rows": rows, "figures": ["loss"]}
    looking = Table.model_validate(table).region_row
    assert (looking and looking.label) == found
    if not found:
        for figure in OVERLAYS:
            with pytest.raises(ValidationError, match=f"figures: {figure} needs a multimodal system"):
                Table.model_validate({**table, "figures": [figure]})
