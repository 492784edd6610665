"""Pairs that a model wrote one side of, beside the true ones, and the images that they are of."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run

from nmt.config.data import Cleaning
from nmt.config.decoding import Decoding
from nmt.config.models import MultimodalConfig
from nmt.config.system import AddedText
from nmt.config.table import Table
from nmt.config.workflow import Workflow
from nmt.data.batches import Parallel
from nmt.plan.checks import check_added_text, check_table
from nmt.plan.helpers import check_own_files
from nmt.plan.plan import Plan
from nmt.system.errors import ConfigError, DataError
from nmt.system.warnings import read_warnings, recorded
from nmt.text.clean import clean
from nmt.text.sample import sample
from nmt.translation.augment import seconds, translate_text
from nmt.translation.translator import Translator


def corpus(folder: Path, pairs: list[tuple[str, str]], **more: object) -> Path:
    """A raw corpus with the same text in every split."""
    folder.mkdir()
    for side, language in enumerate(("en", "de")):
        for split in ("train", "valid", "test"):
            (folder / f"{split}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    facts = {language: {"lines": len(pairs), "sha256": "", "url": "u"} for language in ("en", "de")}
    splits = dict.fromkeys(("train", "valid", "test"), facts)
    known = {"corpus": folder.name, "languages": "en-de", "licence": f"of {folder.name}", "synthetic": False}
    sources = {"train": [{"url": {"en": "u", "de": "v"}, "licence": "l", "pairs": len(pairs), "dropped": 0}]}
    (folder / "corpus.json").write_text(json.dumps({**known, "splits": splits, "sources": sources, **more}))
    return folder


def translations(folder: Path, lines: list[str], languages: str = "de-en") -> Path:
    folder.mkdir()
    (folder / "translations.txt").write_text("".join(f"{line}\n" for line in lines))
    making = {"languages": languages, "model": "a model", "sentences": len(lines), "sentences_per_second": 9.0}
    making |= {"seconds": 4.5, "provenance": {"training_seconds": 20.0}}
    making["text_sha256"] = hashlib.sha256("".join(f"Satz {n}\n" for n in range(4)).encode()).hexdigest()
    (folder / "decoding.json").write_text(json.dumps(making))
    return folder


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    true = corpus(tmp_path / "true", [("a dog", "ein Hund"), ("a cat", "eine Katze")])
    text = corpus(tmp_path / "more", [("-", f"Satz {n}") for n in range(4)], together=True)
    return [true, text, translations(tmp_path / "back", [f"sentence {n}" for n in range(4)])]


def test_true_pairs_first_as_often_as_asked_then_the_tagged_ones(parts: list[Path], tmp_path: Path) -> None:
    code, output = run("mix", *parts, tmp_path / "out", "--languages", "en-de", "--copies", 2, "--tag", "mt")
    assert code == 0, output
    source, target = ((tmp_path / "out" / f"train.{one}").read_text().splitlines() for one in ("en", "de"))
    assert source == ["a dog", "a cat"] * 2 + [f"mt sentence {n}" for n in range(4)]
    assert target == ["ein Hund", "eine Katze"] * 2 + [f"Satz {n}" for n in range(4)]
    for split in ("valid", "test"):
        assert (tmp_path / "out" / f"{split}.en").read_text() == (parts[0] / f"{split}.en").read_text()
    made = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert made["corpus"] == "true with back-translations" and made["licence"] == "of true; of more"
    assert [one["pairs"] for one in made["sources"]["train"]] == [2, 2, 4] and made["images"] == 2
    assert seconds(made) == 24.5 and seconds(json.loads((parts[0] / "corpus.json").read_text())) is None
    urls = [made["splits"]["train"][language]["url"] for language in ("en", "de")]
    assert urls == ["u translated by a model", "v more's training text"]
    assert made["splits"]["train"]["de"]["lines"] == 8 and made["splits"]["valid"]["de"]["lines"] == 2


@pytest.mark.parametrize("noise", ["tags", "upper", "typos"])
def test_noise_leaves_the_tag_of_added_text_as_it_is(parts: list[Path], tmp_path: Path, noise: str) -> None:
    code, output = run("mix", *parts, tmp_path / "out", "--languages", "en-de", "--tag", "mt")
    assert code == 0, output
    recipe = Cleaning.model_validate({"lowercase": False, "tokenize": "none", "noise": {noise: 1}})
    clean(tmp_path / "out", tmp_path / "clean", recipe, "en-de")
    sample(tmp_path / "out", tmp_path / "clean", tmp_path / "sample", "en-de", 100)
    for file in (tmp_path / "clean/train.en", tmp_path / "sample/raw/train_sample.en"):
        *_, added = file.read_text().splitlines()
        assert added.startswith("mt ")


def test_what_was_translated_forward_is_the_target_of_true_sources(parts: list[Path], tmp_path: Path) -> None:
    text = corpus(tmp_path / "english", [(f"Satz {n}", "-") for n in range(4)])
    written = translations(tmp_path / "forward", [f"written {n}" for n in range(4)], "en-de")
    code, output = run("mix", parts[0], text, written, tmp_path / "out", "--languages", "en-de", "--tag", "mt")
    assert code == 0, output
    source, target = ((tmp_path / "out" / f"train.{one}").read_text().splitlines() for one in ("en", "de"))
    assert source == ["a dog", "a cat"] + [f"mt Satz {n}" for n in range(4)]
    assert target == ["ein Hund", "eine Katze"] + [f"written {n}" for n in range(4)]
    made = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert made["corpus"] == "true with forward-translations"
    more = made["sources"]["train"][-1]
    assert more["url"] == {"en": "english's training text", "de": "translated by a model"}
    assert more["forward_translation"]["languages"] == "en-de" and "back_translation" not in more


def test_text_that_is_of_no_images_in_their_order_is_said_to_be_of_none(parts: list[Path], tmp_path: Path) -> None:
    made = json.loads((parts[1] / "corpus.json").read_text())
    (parts[1] / "corpus.json").write_text(json.dumps({**made, "together": False}))
    run("mix", *parts, tmp_path / "out", "--languages", "en-de")
    assert "images" not in json.loads((tmp_path / "out" / "corpus.json").read_text())


def test_text_added_to_added_text_is_of_the_same_images_if_all_of_it_is(parts: list[Path], tmp_path: Path) -> None:
    true, text, written = parts
    apart = corpus(tmp_path / "apart", [("-", f"Satz {n}") for n in range(4)], together=False)
    for first, second, images in ((text, text, 2), (text, apart, None), (apart, text, None)):
        folder = tmp_path / f"{first.name}-{second.name}"
        for raw, more, out in ((true, first, folder / "once"), (folder / "once", second, folder / "twice")):
            code, output = run("mix", raw, more, written, out, "--languages", "en-de", "--copies", 2)
            assert code == 0, output
        made = json.loads((folder / "twice" / "corpus.json").read_text())
        assert made.get("images") == images and made["splits"]["train"]["en"]["lines"] == (2 * 2 + 4) * 2 + 4
        assert made["corpus"] == "true with back-translations with back-translations"
        assert seconds(made) == 24.5  # one model wrote both


def test_translations_that_do_not_fit_are_refused(parts: list[Path], tmp_path: Path) -> None:
    few = translations(tmp_path / "few", ["one"])
    code, output = run("mix", *parts[:2], few, tmp_path / "out", "--languages", "en-de")
    assert code == 1 and "has 1" in output and "has 4" in output
    making = json.loads((parts[2] / "decoding.json").read_text())
    (few / "decoding.json").write_text(json.dumps(making | {"text_sha256": "0"}))
    (few / "translations.txt").write_text("one\n" * 4)
    code, output = run("mix", *parts[:2], few, tmp_path / "out", "--languages", "en-de")
    assert code == 1 and "train.de, got those of another text" in output
    code, output = run("mix", *parts, tmp_path / "out", "--languages", "en-de", "--tag", "a\nb")
    assert code == 1 and "--tag: expected letters, got 'a\\nb'" in output
    wrong = translations(tmp_path / "wrong", ["x"] * 4, "de-fr")
    code, output = run("mix", *parts[:2], wrong, tmp_path / "out", "--languages", "en-de")
    assert code == 1 and "expected translations de-en or en-de, got de-fr" in output and not (tmp_path / "out").exists()


def test_a_mixture_does_not_replace_what_it_is_made_of(parts: list[Path]) -> None:
    before = (parts[0] / "train.en").read_text()
    code, output = run("mix", *parts, parts[0], "--languages", "en-de")
    assert code == 1 and "got one of its inputs" in output and (parts[0] / "train.en").read_text() == before


def test_each_pair_has_the_image_of_its_line_whatever_was_dropped(parts: list[Path], tmp_path: Path) -> None:
    (parts[2] / "translations.txt").write_text("one\n\nthree\nfour\n")  # an empty source is dropped
    for command in (
        ["mix", *parts, tmp_path / "raw"], ["clean", tmp_path / "raw", tmp_path / "clean"],
        ["subwords", tmp_path / "clean", tmp_path / "words", "--config", "{kind: words, size: 99}"],
        ["encode", tmp_path / "clean", tmp_path / "words", tmp_path / "encoded"],
    ):  # fmt: skip
        code, output = run(*command, "--languages", "en-de")
        assert code == 0, output
    found: dict[str, Any] = {}

    def note(split: str, lines: np.ndarray, total: int) -> Any:
        found[split] = lines.tolist(), total

    for split in ("train", "valid"):
        Parallel(tmp_path / "encoded", split, pictures=note)
    assert found == {"train": ([0, 1, 0, 0, 1], 2), "valid": ([0, 1], 2)}


def test_a_raw_file_is_translated_line_by_line(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "back" / "cleaned.txt"  # whatever it is called, it stays
    text.parent.mkdir()
    text.write_text("W1 w2\n\nw3\n")
    out = tmp_path / "back" / "hypotheses.txt"
    code, output = run("translate-text", model, text, out, "--config", "{beam: 1}", "--device", "cpu")
    assert code == 0, output
    lines = out.read_text().splitlines()
    assert len(lines) == 3 and not lines[1]
    code, output = run("translate", model, text, "--beam", 1, "--device", "cpu")
    assert output.splitlines()[-3:] == lines
    making = json.loads((out.parent / "decoding.json").read_text())
    assert (making["sentences"], making["languages"]) == (3, "en-de") and making["sentences_per_second"] > 0
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "alignments.json", "cleaned.txt", "decoding.json", "hypotheses.txt"
    ]  # fmt: skip


def test_translated_text_is_not_translated_again_when_it_could_not_be_written(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "back" / "translations.txt"
    text.write_text("w1 w2\nw3\n")
    with monkeypatch.context() as patch:
        patch.setattr("nmt.translation.augment.restore", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            translate_text(model, text, out, Decoding(beam=1), "cpu", 1)
    assert not out.exists()
    monkeypatch.setattr("nmt.translation.translator.Translator.translate_clean", None)  # would be called to search
    translate_text(model, text, out, Decoding(beam=1), "cpu", 1)
    assert len(out.read_text().splitlines()) == 2


def test_a_model_of_unknown_origin_is_refused_before_it_translates(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(model, tmp_path / "model")
    (folder / "provenance.json").unlink()
    (text := tmp_path / "text.txt").write_text("w1 w2\n")
    monkeypatch.setattr("nmt.translation.decode_file.decode_file", None)  # would be called to translate
    with pytest.raises(DataError, match=r"provenance\.json: no such file"):
        translate_text(folder, text, tmp_path / "out.txt", Decoding(beam=1), "cpu", 1)


def test_sentences_that_are_too_long_are_counted_over_all_chunks(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nmt.translation.decode_file.CHUNK", 2)
    text, out = tmp_path / "text.txt", tmp_path / "out.txt"
    long = "w3 " * 600
    text.write_text(f"w1 w2\n{long}\nw1\n{long}\n{long}\n")

    def translate(interrupt: bool) -> None:
        with recorded("translate-text", out), monkeypatch.context() as patch:
            if interrupt:  # after the chunks are done
                patch.setattr("nmt.translation.augment.restore", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            translate_text(model, text, out, Decoding(beam=1, length_factor=1), "cpu", 1)

    with pytest.raises(KeyboardInterrupt):
        translate(interrupt=True)
    assert read_warnings(out) == []  # there is no output
    translate(interrupt=False)
    [warning] = read_warnings(out)
    assert (warning.stage, warning.file, warning.count) == ("translate-text", str(text), 3)
    assert f"warning: {text}: 3 of 5 sources were cut to 510 pieces" in capfd.readouterr().err


@pytest.mark.parametrize("line", ["w1 \udcff", "w1 \ud800"])
def test_a_sentence_that_is_no_utf_8_is_refused(model: Path, line: str) -> None:
    with pytest.raises(
        DataError, match=r"character 4 of the sentence: expected UTF-8, got .* set the terminal to UTF-8"
    ):
        Translator.load(model, "cpu").translate([line])


def test_the_vocabulary_of_a_model_is_its_own(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model/source.model").write_bytes((model / "source.model").read_bytes().replace(b"w1", b"x1"))
    code, output = run("translate", tmp_path / "model", "--device", "cpu", text="w1\n")
    assert code == 1 and "source.model: expected the pieces that were learned" in output


def test_what_is_translated_is_not_overwritten(model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("w1 w2\n")
    for command in (["translate-text", model, text, text], ["translate", model, text, "--out", text]):
        code, output = run(*command, "--device", "cpu")
        assert code == 1 and "text.txt: expected an output file, got the input" in output
    for source, out, message in (
        (text, "decoding.json", "expected another name than those of the files beside it"),
        (tmp_path / "nbest.tsv", "out.txt", "nbest.tsv: expected an output file, got the input"),
    ):
        source.write_text("w1 w2\n")
        code, output = run("decode", model, source, tmp_path / out, "--device", "cpu")
        assert code == 1 and message in output and source.read_text() == "w1 w2\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nbest.tsv", "text.txt"]


def table(way: str = "back", **recipe: object) -> Table:
    system = {"corpus": "multi30k", "languages": "en-de", "training": {"updates": 1, "keep_last": 2}}
    back = {"model": "one/reverse", "text": "multi30k-descriptions", **recipe}
    systems = {
        "reverse": {**system, "languages": "de-en"},
        "plain": system,
        "more": {**system, f"{way}_translation": back},
    }
    rows = [{"label": name, "system": name} for name in ("plain", "more")]
    return Table.model_validate({"caption": "c", "tests": ["test_2016_flickr"], "systems": systems, "rows": rows})


def test_translations_are_shared_by_all_that_agree_on_them_and_mixtures_by_those_that_agree_on_all() -> None:
    plans = [Plan(Workflow(tables=["one"]), {"one": table(**recipe)}) for recipe in ({}, {"copies": 2}, {"at": "last"})]
    systems = [plan.system("one", "more") for plan in plans]
    assert len({plan.layout.translations(one) for plan, one in zip(plans, systems, strict=True)}) == 2
    assert len({plan.layout.raw(one) for plan, one in zip(plans, systems, strict=True)}) == 3
    plan, system = plans[1], systems[1]
    mixture = plan.mixture(str(plan.layout.raw(system)))
    assert mixture.raw == plan.layout.raw(plan.system("one", "plain")) and mixture.options == ["--copies=2"]
    made = plan.translation(str(mixture.translations))
    assert str(made.model) == "results/runs/one/reverse/seed1/best/model" and made.language == "de"
    assert made.text.parts[-3:] == ("multi30k-descriptions", "de", "raw")
    assert plan.tested("one", "more", "flores200_dev").back_translation is None


def test_an_ensemble_translates_text_of_the_source_language_forward() -> None:
    recipe = {"model": "one/plain", "at": "average 2", "seed": "1-2-3"}
    plan = Plan(Workflow(tables=["one"]), {"one": table("forward", **recipe)})
    check_added_text("one", plan.tables, plan.settings)
    system = plan.system("one", "more")
    mixture = plan.mixture(str(plan.layout.raw(system)))
    made = plan.translation(str(mixture.translations))
    assert str(made.model) == "results/runs/one/plain/seed1-2-3/average-2/model" and made.language == "en"
    assert mixture.translations.parent.name == "forward-translated" and "-forward-" in str(plan.layout.raw(system))


def test_back_translations_are_added_to_what_has_forward_ones() -> None:
    tables = {"one": table(copies=2)}
    forward = AddedText(model="one/plain", at="best", text="multi30k-descriptions", copies=3)
    system = tables["one"].systems["more"].model_copy(update={"forward_translation": forward})
    tables["one"].systems["more"] = system
    plan, (both, taught) = Plan(Workflow(tables=["one"]), tables), system.mixtures
    outer, inner = (plan.mixture(str(plan.layout.raw(one))) for one in (both, taught))
    assert outer.raw == plan.layout.raw(taught) and outer.options == ["--copies=2"]
    assert inner.raw == plan.layout.raw(plan.system("one", "plain")) and inner.options == ["--copies=3"]
    assert [one.translations.parent.name for one in (outer, inner)] == ["back-translated", "forward-translated"]
    assert re.fullmatch(r"multi30k-forward-\w{8}-back-\w{8}", plan.layout.raw(system).parts[-3])
    assert plan.tested("one", "more", "flores200_dev").mixtures == []
    check_added_text("one", tables, plan.settings)
    wrong = system.model_copy(update={"forward_translation": forward.model_copy(update={"model": "one/more"})})
    tables["one"].systems["more"] = wrong
    with pytest.raises(ConfigError, match=r"more.forward_translation.model: expected a system that does without more"):
        check_added_text("one", tables, plan.settings)


def test_text_to_translate_is_of_one_language_and_needs_no_other(tmp_path: Path) -> None:
    (tmp_path / "own.en").write_text("one\ntwo\n")
    settings = Workflow.model_validate({"tables": ["one"], "corpora": {"mine": {"train": {"en": tmp_path / "own.en"}}}})
    french = {"corpus": "multi30k", "languages": "en-fr", "training": {"updates": 1, "keep_last": 2}}
    for text, own in (("multi30k-descriptions", []), ("mine", [str(tmp_path / "own.en")])):
        recipe = {"model": "one/plain", "text": text}
        systems = {"plain": french, "taught": {**french, "forward_translation": recipe}}
        rows = [{"label": "taught", "system": "taught"}]
        found = {"caption": "c", "tests": ["test_2016_flickr"], "systems": systems, "rows": rows}
        plan = Plan(settings, {"one": Table.model_validate(found)})
        check_added_text("one", plan.tables, settings)
        check_own_files(plan.tables["one"].systems.values(), settings)
        made = plan.translation(str(plan.layout.translations(plan.system("one", "taught"))))
        assert made.text.parts[-3:] == (text, "en", "raw") and made.language == "en"
        assert plan.raw_text(str(made.text)).own_files == own
    (tmp_path / "own.en").unlink()
    with pytest.raises(ConfigError, match=r"corpora.mine.train.en: .*own.en: no such file"):
        check_own_files(plan.tables["one"].systems.values(), settings)


@pytest.mark.parametrize("corpus", ["sceens", "mine"])
def test_the_text_of_a_translator_in_another_table_is_looked_for_before_the_work(corpus: str, tmp_path: Path) -> None:
    files = dict.fromkeys(("en", "de"), tmp_path / "none.txt")
    settings = Workflow.model_validate({"tables": ["one"], "corpora": {"mine": {"train": files, "valid": files}}})
    system = {"languages": "en-de", "training": {"updates": 1, "keep_last": 2}}
    recipe = {"model": "two/reverse", "text": "scenes"}
    one = {"small": {**system, "corpus": "scenes", "back_translation": recipe}}
    two = {"reverse": {**system, "corpus": corpus, "languages": "de-en"}}
    tables = {
        name: Table.model_validate({
            "caption": "c", "tests": ["test"], "systems": systems,
            "rows": [{"label": "a", "system": next(iter(systems))}],
        })
        for name, systems in (("one", one), ("two", two))
    }  # fmt: skip
    message = (
        "unknown corpus: 'sceens'; did you mean" if corpus == "sceens" else r"corpora\.mine\.train\.en: .*no such file"
    )
    with pytest.raises(ConfigError, match=rf"tables/two\.yaml: systems\.reverse: {message}"):
        check_table("one", tables, settings)


def test_a_seed_writes_once() -> None:
    with pytest.raises(ValueError, match="expected different seeds, got 1-2-1; name each once"):
        table("forward", model="one/plain", seed="1-2-1")


def test_who_looks_at_pictures_translates_no_text_without_them() -> None:
    one = table()
    looking = one.systems["reverse"].model_copy(update={"model": MultimodalConfig(kind="multimodal")})
    one = one.model_copy(update={"systems": one.systems | {"reverse": looking}})
    with pytest.raises(ConfigError, match=r"got one/reverse, which is shown pictures, and the text has none"):
        check_added_text("one", {"one": one}, Workflow(tables=["one"]))


def test_text_added_to_what_sees_pictures_describes_them(tmp_path: Path) -> None:
    own = {split: {code: str(tmp_path / f"{split}.{code}") for code in ("en", "de")} for split in ("train", "valid")}
    settings = Workflow.model_validate({"tables": ["one"], "corpora": {"mine": own}})

    def checked(corpus: str, text: str, shown: str = "right") -> None:
        made = table(text=text).model_dump()
        made["systems"]["more"] |= {"corpus": corpus, "model": {"kind": "multimodal", "images": shown}}
        check_added_text("one", {"one": Table.model_validate(made)}, settings)

    for corpus in ("multi30k", "mine"):
        checked(corpus, "multi30k-descriptions")
        checked(corpus, "mine", shown="blank")
        with pytest.raises(ConfigError, match=rf"more\.back_translation\.text: .*pictures of {corpus}, .* got mine"):
            checked(corpus, "mine")
    with pytest.raises(ConfigError, match=r"expected descriptions of the pictures of scenes, .* leave the added text"):
        checked("scenes", "multi30k-descriptions")


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"way": "forward", "model": "one/more"}, "expected a system that does without more, got one/more"),
        ({"way": "forward"}, r"forward_translation.model: expected a system for en-de, got one/reverse"),
        ({"model": "two/reverse"}, "no table 'two'"),
        ({"model": "one/revers"}, "did you mean 'reverse'"),
        ({"model": "one/plain"}, "expected a system for de-en, got one/plain, which translates en-de"),
        ({"at": "average 3"}, "'average 3' is not kept"),
        ({"decoding": {"replace_unknown": True}}, r"decoding: one/reverse: .* needs subwords.kind: words"),
        ({"text": "multi30k-description"}, r"back_translation.text: unknown .*did you mean 'multi30k-descriptions'"),
        ({"text": "tatoeba-en-fr"}, r"back_translation.text: unknown language of corpus 'tatoeba-en-fr': 'de'"),
        ({"text": "flores200"}, r"back_translation.text: corpus 'flores200' has test sets only"),
    ],
)
def test_a_model_or_text_that_there_is_not_is_refused(recipe: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_added_text("one", {"one": table(**recipe)}, Workflow(tables=["one"]))
