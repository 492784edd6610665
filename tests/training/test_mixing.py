"""Mixing of corpora: which sentences each update draws, against an order that is written out by hand."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from nmt.config.corpus.sources import CustomCorpus
from nmt.config.data import Cleaning, Subwords
from nmt.config.decoding import Decoding
from nmt.config.system import System
from nmt.config.table import Table, load_table
from nmt.config.training import Training
from nmt.config.workflow import Workflow
from nmt.corpora.catalogue import fetch
from nmt.data.batches import Parallel
from nmt.data.encode import encode_corpus
from nmt.data.encoded import read_meta
from nmt.data.sampling import by_name, weighted
from nmt.plan.checks import check_parts
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, sha256, write_json
from nmt.text.clean import clean
from nmt.text.subwords import learn
from nmt.training.checkpoint import Progress
from nmt.training.distributed import Processes
from nmt.training.experiment import Experiment
from nmt.training.train import train
from nmt.training.trainer import Trainer
from nmt.training.updates import Update, Updates
from nmt.translation.augment import mix

MIXING = {"web": {0: 3, 20: 1}, "news": 1}
MODEL = {"layers": 1, "width": 16, "ffn": 16, "heads": 2, "dropout": 0.1}
TRAINING: dict[str, Any] = {
    "batch": "12 sentences", "updates": 45, "mixing": MIXING, "checkpoint_every": "1 updates", "keep_last": 2,
    "validate_every": "100 updates", "validation_bleu": False, "schedule": {"peak": 0.01, "warmup": 5},
}  # fmt: skip

RESUMED = Experiment.model_validate(
    {"model": MODEL, "training": TRAINING | {"updates": 7, "mixing": {"web": {0: 3, 4: 1}, "news": 1}}}
)


def write(folder: Path, name: str, count: int) -> dict[str, Any]:
    """A source whose words begin with its name; the source side of every tenth line is empty, and cleaning drops it."""
    words = [" ".join(f"{name}{(n * k) % 7}" for k in range(1, n % 5 + 2)) for n in range(count)]
    lines = {"en": ["" if n % 10 == 3 else word for n, word in enumerate(words)], "de": words}
    for code, text in lines.items():
        (folder / f"{name}.{code}").write_text("".join(f"{line}\n" for line in text))
    return {"name": name} | {code: str(folder / f"{name}.{code}") for code in lines}


def declared(folder: Path) -> CustomCorpus:
    """Web text, then news, then web text again."""
    sources = [write(folder, "web", 200), write(folder, "news", 60), write(folder, "more", 100) | {"name": "web"}]
    return CustomCorpus.model_validate({"train": sources, "valid": write(folder, "valid", 20)})


def encode(raw: Path, folder: Path) -> Path:
    clean(raw, folder / "clean", Cleaning(lowercase=False, tokenize="none"), "en-de")
    learn(folder / "clean", folder / "subwords", "en-de", Subwords(kind="words", size=50))
    encode_corpus(folder / "clean", folder / "subwords", folder / "encoded", "en-de")
    return folder / "encoded"


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    fetch("mine", "en-de", folder / "raw", custom=declared(folder))
    return encode(folder / "raw", folder)


def corpora(encoded: Path) -> list[str]:
    """The corpus of each encoded sentence, read from its cleaned text."""
    lines = (encoded.parent / "clean/train.de").read_text().splitlines()
    return ["news" if line.startswith("news") else "web" for line in lines]


def updates(encoded: Path, rank: int = 0, size: int = 1, **changes: Any) -> Updates:
    config = Training.model_validate(TRAINING | changes)
    return Updates(Parallel(encoded, "train"), config, 5, torch.device("cpu"), Processes(rank, size))


def rows(update: Update) -> list[list[tuple[int, ...]]]:
    """The target pieces of each sentence of each batch."""
    return [[tuple(row[row > 3].tolist()) for row in batch.target] for batch in update.batches]


def by_hand(encoded: Path, seed: int, total: int) -> Iterator[list[int]]:
    """The sentences of each update of 12 sentences, with the weights 3:1 up to update 20 and 1:1 from there."""
    names, data, number = corpora(encoded), Parallel(encoded, "train"), 0
    lengths = [(len(data.target.pieces(i)), len(data.source.pieces(i))) for i in range(len(names))]
    for epoch in range(total):
        random, drawn = np.random.default_rng((seed, epoch)), list[int]()
        for name, share in {"web": 0.75, "news": 0.25}.items() if number < 20 else {"web": 0.5, "news": 0.5}.items():
            own = [i for i, each in enumerate(names) if each == name]
            quota = round(share * len(names))
            drawn += own * (quota // len(own))
            drawn += random.permutation(own)[: quota % len(own)].tolist()
        order = sorted(random.permutation(drawn).tolist(), key=lambda i: lengths[i])
        batches = [order[start : start + 12] for start in range(0, len(order), 12)]
        for place in random.permutation(len(batches)).tolist():
            yield batches[place]
            number += 1
            if number == 20:
                break


def test_the_encoded_text_knows_the_sentences_of_each_source(encoded: Path) -> None:
    raw = read_json(encoded.parent / "raw/corpus.json")
    assert raw["parts"] == [["web", 200], ["news", 60], ["web", 100]]
    assert read_meta(encoded)["parts"] == [["web", 180], ["news", 54], ["web", 90]]
    groups, names = Parallel(encoded, "train").groups, corpora(encoded)
    assert {name: [i for i, each in enumerate(names) if each == name] for name in groups} == {
        name: group.tolist() for name, group in groups.items()
    }


def test_updates_draw_the_order_that_is_written_out_by_hand(encoded: Path) -> None:
    data, found = Parallel(encoded, "train"), list(updates(encoded).after(Progress()))
    expected = list(islice(by_hand(encoded, 5, 45), 45))
    assert len(found) == 45
    for update, indices in zip(found, expected, strict=True):
        assert rows(update) == [[tuple(data.target.pieces(i)) for i in indices]]
    assert [update.number for update in found if update.batch == 0] == [20]
    assert found[19].epoch == found[19].epoch_fraction == 1 and found[20].epoch_fraction == pytest.approx(1 + 1 / 27)


def test_shares_are_the_weights_and_change_at_the_update(encoded: Path) -> None:
    found = list(updates(encoded, updates=1000, mixing={"web": {"0": 3, "500": 1}, "news": 1}).after(Progress()))
    target = Parallel(encoded, "train").target
    news = {tuple(target.pieces(i)) for i in news_of(encoded)}
    counts = [sum(row in news for batch in rows(update) for row in batch) for update in found]
    sizes = [update.sentences for update in found]
    for part, share in ((slice(0, 500), 0.25), (slice(500, 1000), 0.5)):
        drawn, deviation = sum(sizes[part]), np.sqrt(share * (1 - share) * sum(sizes[part]))
        assert abs(sum(counts[part]) - share * drawn) < 4 * deviation
    windows = [sum(counts[i : i + 50]) / sum(sizes[i : i + 50]) for i in (400, 450, 500, 550)]
    assert max(windows[:2]) < 0.35 and min(windows[2:]) > 0.4


def news_of(encoded: Path) -> list[int]:
    return [i for i, name in enumerate(corpora(encoded)) if name == "news"]


def test_an_epoch_has_each_share_within_one_sentence_and_uses_a_corpus_evenly(encoded: Path) -> None:
    data, news = Parallel(encoded, "train"), news_of(encoded)
    drawn = Counter(np.concatenate(data.batches("12 sentences", (1, 0), weights={"news": 2, "web": 1})).tolist())
    assert drawn.total() == 324 and sum(drawn[i] for i in news) == 216
    assert {drawn[i] for i in news} == {4} and max(drawn[i] for i in range(180)) == 1


def test_processes_share_the_updates_of_one_process(encoded: Path) -> None:
    whole, first, second = (
        list(updates(encoded, *place, accumulate=2).after(Progress())) for place in ((0, 1), (0, 2), (1, 2))
    )
    for one, two, three in zip(whole, first, second, strict=True):
        together = [sorted(a + b) for a, b in zip(rows(two), rows(three), strict=True)]
        assert together == [sorted(batch) for batch in rows(one)] and one.pieces == two.pieces == three.pieces


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.fixture(scope="module")
def whole(encoded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    train(encoded, folder, RESUMED, 1, "cpu", 1, "mixed")
    return folder


@pytest.mark.integration
@pytest.mark.parametrize("last", [3, 4, 5])
def test_a_training_resumes_bit_identical_before_at_and_after_a_change(
    encoded: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    train_on = Trainer.train_on

    def killed(self: Trainer, update: Update) -> None:
        if update.number > last:
            raise Killed
        train_on(self, update)

    monkeypatch.setattr(Trainer, "train_on", killed)
    with pytest.raises(Killed):
        train(encoded, tmp_path, RESUMED, 1, "cpu", 1, "mixed")
    monkeypatch.setattr(Trainer, "train_on", train_on)
    train(encoded, tmp_path, RESUMED, 1, "cpu", 1, "mixed")
    one, other = (load_file(run / "state/checkpoints/update-00000007/weights.safetensors") for run in (whole, tmp_path))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_trial_knows_the_lines_that_each_source_gives(tmp_path: Path) -> None:
    fetch("mine", "en-de", tmp_path / "raw", custom=declared(tmp_path), limit=90)
    assert read_json(tmp_path / "raw/corpus.json")["parts"] == [["web", 30], ["news", 30], ["web", 30]]


def test_text_without_names_is_described_as_before(tmp_path: Path) -> None:
    sources = [{key: value for key, value in write(tmp_path, "web", 30).items() if key != "name"}] * 2
    custom = CustomCorpus.model_validate({"train": sources, "valid": write(tmp_path, "valid", 20)})
    fetch("mine", "en-de", tmp_path / "raw", custom=custom)
    meta = read_meta(encode(tmp_path / "raw", tmp_path))
    assert "parts" not in read_json(tmp_path / "raw/corpus.json") and "parts" not in meta
    assert "mixing" not in Training(updates=1).model_dump()
    assert {name: len(group) for name, group in Parallel(tmp_path / "encoded", "train").groups.items()} == {"mine": 54}


def test_translated_text_is_a_part_of_its_own(tmp_path: Path) -> None:
    fetch("mine", "en-de", tmp_path / "raw", custom=declared(tmp_path))
    write(tmp_path, "added", 40)
    fetch("more", "de", tmp_path / "text", custom=CustomCorpus.model_validate({"train": {"de": tmp_path / "added.de"}}))
    (tmp_path / "made").mkdir()
    (tmp_path / "made/translations.txt").write_text("".join(f"added{n % 7}\n" for n in range(40)))
    decoding = {"languages": "de-en", "text_sha256": sha256(tmp_path / "text/train.de"), "model": "m"}
    write_json(tmp_path / "made/decoding.json", decoding | {"decoding": Decoding().model_dump()})
    mix(tmp_path / "raw", tmp_path / "text", tmp_path / "made", tmp_path / "mixed", "en-de", 2, None)
    data = Parallel(encode(tmp_path / "mixed", tmp_path), "train")
    assert {name: len(group) for name, group in data.groups.items()} == {
        "web": 540, "news": 108, "back_translation": 40
    }  # fmt: skip
    lines = (tmp_path / "clean/train.de").read_text().splitlines()
    assert {lines[i][:5] for i in data.groups["back_translation"]} == {"added"}
    assert {lines[i][:4] for i in data.groups["news"]} == {"news"}


def test_text_that_is_encoded_several_times_has_the_parts_of_each_round() -> None:
    groups = by_name(np.array([0, 1, 3, 4, 5, 7]), [("a", 1), ("b", 2), ("a", 1)], rounds=2)
    assert {name: group.tolist() for name, group in groups.items()} == {"a": [0, 3, 4, 7], "b": [1, 5]}


@pytest.mark.parametrize(
    ("mixing", "message"),
    [
        ({"web": 0}, r"mixing\.web: expected more than 0, got 0"),
        ({"web": {0: -1}}, r"mixing\.web\.0: expected more than 0, got -1"),
        ({"web": {5: 1}, "news": 1}, r"line 8: .*mixing\.web: expected a weight from the start, got none for update 0"),
        ({"web": {}, "news": 1}, r"mixing\.web: expected a weight from the start"),
        ({"web": {0: 1, 45: 2}, "news": 1}, r"web: expected changes before the end, updates: 45, got one at 45"),
        ({"web": "much"}, r"mixing\.web: expected a number"),
        ({"web": {"soon": 1}}, r"mixing\.web\.soon: expected a whole number"),
        ({"web": {-1: 1}}, "the key -1, which YAML reads as a number"),
        ({"a b": 1}, r"mixing\.a b: expected letters, digits"),
        ({"wbe": 1, "news": 1}, r"one\.training\.mixing: no corpus 'wbe'; did you mean 'web'\?; expected .* web, news"),
        ({"web": 1}, r"training\.mixing: expected a weight of news too, got none; add it"),
    ],
)
def test_weights_that_cannot_be_are_named(tmp_path: Path, mixing: dict[str, Any], message: str) -> None:
    def flow(value: Any) -> str:
        return (
            f"{{{', '.join(f'{k}: {flow(v)}' for k, v in value.items())}}}" if isinstance(value, dict) else str(value)
        )

    path = tmp_path / "t.yaml"
    path.write_text(
        "caption: c\ntests: [valid]\nsystems:\n  one:\n    corpus: mine\n    languages: en-de\n    training:\n"
        f"      mixing: {flow(mixing)}\n      updates: 45\nrows: [{{label: a, system: one}}]\n"
    )
    settings = Workflow(tables=["t"], corpora={"mine": declared(tmp_path)})
    with pytest.raises(ConfigError, match=message):
        check_parts("t", load_table(path), settings)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"epochs": 3}, "give updates in place of epochs"),
        ({"updates": 9, "pair_temperature": 5}, "mixing and pair_temperature: 5 exclude each other"),
    ],
)
def test_what_does_not_go_with_weights_is_refused(training: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Training.model_validate({"mixing": {"web": 1}, **training})


def test_a_system_of_several_pairs_mixes_its_pairs() -> None:
    several = {"corpus": "multi30k", "languages": ["en-de", "en-fr"]}
    System.model_validate(several | {"training": {"updates": 9, "mixing": {"en-fr": 1, "en-de": 2}}})
    with pytest.raises(ValueError, match=r"no corpus 'en-df'; did you mean 'en-..'.* expected weights of en-de, en-fr"):
        System.model_validate(several | {"training": {"updates": 9, "mixing": {"en-df": 1, "en-fr": 2}}})


def test_translated_text_and_the_corpus_itself_have_names() -> None:
    added = {"model": "t/other", "text": "more"}
    system = {"corpus": "multi30k", "languages": "en-de", "back_translation": added}
    for mixing in ({"multi30k": 1, "back_translation": 2}, {"multi30k": 1}):
        training = {"updates": 9, "mixing": mixing}
        table = Table.model_construct(systems={"one": System.model_validate(system | {"training": training})})
        if len(mixing) == 2:
            check_parts("t", table, Workflow(tables=["t"]))
        else:
            with pytest.raises(ConfigError, match="expected a weight of back_translation too"):
                check_parts("t", table, Workflow(tables=["t"]))


def test_a_training_by_hand_is_refused_too(encoded: Path, copy_corpus: Path) -> None:
    with pytest.raises(ConfigError, match="no corpus 'wbe'; did you mean 'web'"):
        updates(encoded, mixing={"wbe": 1, "news": 1})
    with pytest.raises(ConfigError, match="no corpus 'web'; expected weights of copy"):
        updates(copy_corpus)
    with pytest.raises(DataError, match="news: got the weight 1e-05, but an epoch would have no sentence of it"):
        updates(encoded, mixing={"web": 1, "news": 1e-5})
    with pytest.raises(DataError, match="news: got the weight 1, but no sentence of it fits the model"):
        weighted({"web": np.arange(3), "news": np.arange(0)}, {"web": 1, "news": 1})
    meta = read_meta(encoded)
    (encoded.parent / "other").mkdir()
    for file in encoded.iterdir():
        (encoded.parent / "other" / file.name).write_bytes(file.read_bytes())
    write_json(encoded.parent / "other/meta.json", meta | {"parts": [["web", 100], ["news", 54]]})
    with pytest.raises(DataError, match=r"expected parts of 324 sentences, got 154; run `nmt encode` again"):
        updates(encoded.parent / "other")


def test_shares_and_repetitions_are_told(encoded: Path) -> None:
    assert list(updates(encoded).describe_mixing()) == [
        f"mixing after {start} updates: web {web} times an epoch), news {news} times an epoch)"
        for start, web, news in (
            (0, "75.0% (270 pairs, 0.9", "25.0% (54 pairs, 1.5"),
            (20, "50.0% (270 pairs, 0.6", "50.0% (54 pairs, 3"),
        )
    ]
