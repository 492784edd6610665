"""Search by CTranslate2 in place of PyTorch: the same translations, what falls back, and where it is cached."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import run
from copytask import copy_lines

from nmt.config.decoding import Decoding
from nmt.models.search import Hypothesis
from nmt.report.cells import search_settings
from nmt.serve.limits import Refused
from nmt.serve.models import load
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, write_text
from nmt.text.subwords import Vocabulary
from nmt.training.checkpoint import verified_weights, write_tensors
from nmt.translation.engines import fast
from nmt.translation.engines.choice import Engines
from nmt.translation.engines.fast import FastSearch
from nmt.translation.translator import Translator

pytest.importorskip("ctranslate2")
FAST, AUTO = ({"engine": engine} for engine in ("ctranslate2", "auto"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "nmt-converted"


@pytest.fixture
def translator(model: Path) -> Translator:
    return Translator.load(model, "cpu", 1)


def test_greedy_search_gives_the_same_translations_and_scores(translator: Translator) -> None:
    lines = [*copy_lines(100, 5), "", "w1 zebra w2", "w3"]
    ours, theirs = (translator.nbest(lines, Decoding(beam=1, **engine)) for engine in ({}, FAST))  # type: ignore[arg-type]
    assert [t.ids for (t,) in theirs] == [t.ids for (t,) in ours]
    assert [t.text for (t,) in theirs] == [t.text for (t,) in ours]
    assert [t.score for (t,) in theirs] == pytest.approx([t.score for (t,) in ours], abs=1e-4)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0])
def test_beam_search_differs_only_where_it_stops_earlier(translator: Translator, penalty: float) -> None:
    lines, decoding = copy_lines(100, 7), Decoding(beam=4, length_penalty=penalty)
    ours = [t for (t,) in translator.nbest(lines, decoding)]
    theirs = [t for (t,) in translator.nbest(lines, decoding.model_copy(update=AUTO))]
    for a, b in zip(ours, theirs, strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-4) if a.ids == b.ids else a.score > b.score - 1e-4
    equal = sum(a.ids == b.ids for a, b in zip(ours, theirs, strict=True))
    assert equal == 100 if penalty == 0 else equal > 60


def test_a_list_of_the_best_is_sorted_and_only_for_those_who_ask_for_it(translator: Translator) -> None:
    found = translator.nbest(copy_lines(5, 3), Decoding(beam=4, nbest=3, **FAST))  # type: ignore[arg-type]
    assert all(len(best) == 3 and sorted(best, key=lambda t: -t.score) == best for best in found)
    assert translator.engines.choose(Decoding(beam=4, nbest=3, engine="auto")) is None


def test_what_reaches_the_limit_ends_there(translator: Translator) -> None:
    """There CTranslate2 cuts a translation off, and ours forces its end, whose probability counts."""
    decoding, lines = Decoding(beam=1, length_factor=0.5, length_extra=1), copy_lines(30, 5)
    ours = translator.nbest(lines, decoding)
    assert any(len(t.ids) == len(line.split()) // 2 + 1 for (t,), line in zip(ours, lines, strict=True))
    for (a,), (b,) in zip(ours, translator.nbest(lines, decoding.model_copy(update=FAST)), strict=True):
        assert (a.ids, a.text) == (b.ids, b.text) and a.score == pytest.approx(b.score, abs=1e-4)
    nothing = Decoding(beam=1, length_factor=0.01, length_extra=0, **FAST)  # type: ignore[arg-type]
    assert translator.translate(["w1 w2"], nothing) == [""]


def test_batches_come_in_order_and_each_limit_is_its_own(translator: Translator) -> None:
    decoding = Decoding(beam=1, engine="auto", batch="3 sentences")
    done: list[int] = []
    lines = copy_lines(20, 2)
    found = translator.translate_clean(lines, decoding, done.append)
    assert sum(done) == 20 and len(done) == 7
    assert [t.ids for (t,) in found] == [t.ids for (t,) in translator.translate_clean(lines, Decoding(beam=1))]


def test_an_interruption_ends_between_two_batches(translator: Translator) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        translator.translate_clean(copy_lines(20, 2), Decoding(engine="auto", batch="2 sentences"), interrupt)
    assert translator.translate(["w1 w2"], Decoding(beam=1, engine="auto"))


def test_broken_weights_are_the_same_error(model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "broken")
    weights = {name: torch.full_like(weight, torch.nan) for name, weight in verified_weights(model).items()}
    write_tensors(weights, folder / "weights.safetensors")
    (folder / "provenance.json").unlink()
    with pytest.raises(DataError, match="not numbers"):
        Translator.load(folder, "cpu", 1).translate(["w1 w2"], Decoding(engine="ctranslate2"))


OPTIONS: list[dict[str, Any]] = [
    {"prefix": "w1"}, {"length_reward": 0.5}, {"coverage_penalty": 0.1}, {"no_repeat_ngram": 2}, {"min_length": 3},
    {"sampling": True, "beam": 1}, {"sampling": True, "beam": 1, "samples": 4, "mbr": "chrf"},
]  # fmt: skip
JUST_AUTO: list[dict[str, Any]] = [{"nbest": 2}, {"length_penalty": 2.0}, {"length_penalty": -0.5}]


@pytest.mark.parametrize("options", OPTIONS + JUST_AUTO, ids=str)
def test_auto_does_by_itself_what_ctranslate2_cannot(
    translator: Translator, options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = copy_lines(4, 3)
    expected = translator.nbest(lines, Decoding(**options))
    for _ in range(2):
        assert translator.nbest(lines, Decoding(**options, engine="auto")) == expected
    assert capsys.readouterr().err.count("auto takes torch, because CTranslate2 needs") == 1
    if options in OPTIONS:
        with pytest.raises(
            ConfigError, match=rf"engine: ctranslate2: expected greedy or beam .* got {next(iter(options))}"
        ):
            translator.nbest(lines, Decoding(**options, engine="ctranslate2"))


def test_other_models_and_devices_fall_back(translator: Translator, model: Path) -> None:
    def engines(count: int, device: str) -> Engines:
        members = translator.models * count
        return Engines(model, members, translator.source, translator.target, torch.device(device), 1)

    assert engines(1, "cpu").choose(Decoding(engine="auto"))
    for count, device, got in ((2, "cpu", "an ensemble"), (1, "cuda", "cuda")):
        assert engines(count, device).choose(Decoding(engine="auto")) is None
        with pytest.raises(ConfigError, match=f"got {got}; use engine: auto or torch"):
            engines(count, device).choose(Decoding(engine="ctranslate2"))


def test_without_the_package_the_message_names_what_installs_it(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    text = tmp_path / "text"
    write_text(text, "w1 w2\n")
    code, output = run("translate", model, text, "--engine", "ctranslate2")
    assert code == 1 and "needs the package ctranslate2" in output and "python3 envs/install.py run export" in output
    code, output = run("translate", model, text, "--engine", "auto")
    assert code == 0 and "the package ctranslate2 is not installed (python3 envs/install.py run export)" in output
    assert run("translate", model, text)[1].strip() in output.splitlines()


def test_a_converted_model_is_kept_whole(
    translator: Translator, model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, decoding = copy_lines(10, 3), Decoding(beam=1, engine="ctranslate2")
    expected = translator.translate(lines, decoding)
    [converted] = cache.iterdir()
    (converted / "model.bin").write_bytes(b"damaged")
    assert Translator.load(model, "cpu", 1).translate(lines, decoding) == expected
    assert list(cache.iterdir()) == [converted] and (converted / "model.bin").stat().st_size > 10_000

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(fast.specification, "specification", fail)
    assert Translator.load(model, "cpu", 1).translate(lines, decoding) == expected
    shutil.rmtree(converted)
    with pytest.raises(AssertionError):
        Translator.load(model, "cpu", 1).translate(lines, decoding)
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_not_needed(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_text(tmp_path / "file", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    lines = copy_lines(5, 3)
    found = Translator.load(model, "cpu", 1).translate(lines, Decoding(beam=1, engine="ctranslate2"))
    assert found == Translator.load(model, "cpu", 1).translate(lines, Decoding(beam=1))


def test_other_weights_are_converted_anew(model: Path, tmp_path: Path, cache: Path) -> None:
    folder = shutil.copytree(model, tmp_path / "other")
    write_tensors({n: w * 1.01 for n, w in verified_weights(model).items()}, folder / "weights.safetensors")
    (folder / "provenance.json").unlink()
    for place in (model, folder, model):
        assert Translator.load(place, "cpu", 1).translate(["w1 w2"], Decoding(engine="ctranslate2"))
    assert len(list(cache.iterdir())) == 2


def test_decoding_for_scores_records_the_engine(model: Path, tmp_path: Path) -> None:
    write_text(tmp_path / "source", "".join(f"{line}\n" for line in copy_lines(12, 3)))
    for engine in ("torch", "ctranslate2"):
        out = tmp_path / engine / "hypotheses"
        config = json.dumps({"beam": 1, "engine": engine})
        code, output = run("decode", model, tmp_path / "source", out, "--config", config, "--threads", 1)
        assert code == 0, output
        record = read_json(out.with_name("decoding.json"))
        assert record["engine"].startswith(f"{engine} ") and record["decoding"]["engine"] == engine
        assert read_json(out.with_name("alignments.json"), list)
    assert (tmp_path / "torch" / "hypotheses").read_text() == (tmp_path / "ctranslate2" / "hypotheses").read_text()


def test_a_table_names_the_engine_of_a_row() -> None:
    assert search_settings(Decoding(beam=1, engine="auto").model_dump()) == "greedy, engine auto"
    assert search_settings({"beam": 1, "length_penalty": 1.0}) == "greedy"


def test_a_text_of_many_sentences_a_line_goes_on_where_it_was(model: Path, tmp_path: Path) -> None:
    write_text(tmp_path / "text", "w1 w2. w3 w4.\n\nw5\n")
    found = []
    for engine in ("auto", "torch"):
        code, output = run("translate", model, tmp_path / "text", "--engine", engine, "--beam", 1, "--json")
        answers = [line for line in output.splitlines() if line.startswith("{")]  # the model does not know a full stop
        assert code == 0 and len(answers) == 3
        found.append([json.loads(answer) for answer in answers])
    scores = [[answer["translations"][0].pop("score") for answer in answers] for answers in found]
    assert found[0] == found[1] and scores[0] == pytest.approx(scores[1], abs=1e-5)


def test_served_models_use_the_engine(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [ours], [theirs], [auto] = (load([model], "cpu", 1, engine) for engine in ("torch", "ctranslate2", "auto"))  # type: ignore[arg-type]
    texts, decoding = [*copy_lines(5, 3), "", "w1\nw2"], Decoding(beam=1)
    expected = [text(answer) for answer in ours.translate_all(texts, decoding)]
    assert [text(answer) for answer in theirs.translate_all(texts, decoding)] == expected
    assert len(json.loads(theirs.translate("w1 w2", Decoding(nbest=5)))["translations"]) == 5
    with pytest.raises(Refused, match="wrong value: engine: ctranslate2"):
        theirs.translate("w1", Decoding(prefix="w1"))
    assert auto.translate("w1", Decoding(prefix="w1")) == ours.translate("w1", Decoding(prefix="w1"))
    assert "auto takes torch" in capsys.readouterr().err


def text(answer: bytes | Exception) -> object:
    if isinstance(answer, bytes):
        return [t["text"] for t in json.loads(answer)["translations"]]
    return type(answer)


def test_pieces_that_ours_never_writes_are_searched_again() -> None:
    class Engine:
        def translate_batch(self, rows: list[list[str]], **_: object) -> list[Any]:
            return [self.result(row) for row in rows]

        def result(self, row: list[str]) -> Any:
            found = type("Result", (), {"hypotheses": [row], "scores": [-1.0]})
            return type("Future", (), {"result": lambda self: found})()

    demo = Path(__file__).parents[2] / "demo"
    source, target = (Vocabulary(demo / f"{side}.model") for side in ("source", "target"))
    search = FastSearch(Engine(), source, target, 100, 1)
    rows, asked = [[10, 11], [target.ids.pad, 12], [13, target.ids.bos]], list[list[int]]()

    def again(indices: list[int]) -> list[list[Hypothesis]]:
        asked.append(indices)
        return [[Hypothesis([99], -2.0, -4.0)] for _ in indices]

    [found] = search.search(rows, [[2, 0, 1]], Decoding(beam=1), again)
    assert asked == [[2, 1]] and [best[0].ids for best in found] == [[99], [10, 11], [99]]
    assert found[1][0].log_probability == -3.0
    limited = Decoding(beam=2, length_factor=1e-9, length_extra=2)  # with a beam, what is cut off is searched again
    assert list(search.search(rows, [[0]], limited, again)) == [[[Hypothesis([99], -2.0, -4.0)]]]
