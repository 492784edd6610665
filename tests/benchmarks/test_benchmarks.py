"""The benchmarks' arithmetic and what they write; what they measure is not looked at."""

import re
from importlib import import_module
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from commands import parse
from torch.utils.flop_counter import FlopCounterMode

import benchmarks
from benchmarks import decoding, growth, measure, peers, stages, training
from benchmarks.__main__ import ALL
from benchmarks.faults import STAGES
from nmt.config.models import RecurrentConfig, TransformerConfig
from nmt.data.batches import Batch
from nmt.models.build import build
from nmt.system.errors import DataError

MODULES = (
    "__main__", "alignment", "architectures", "decoding", "equality", "export", "faults", "gpu", "gpu.comparison",
    "growth", "hostile",
    "kills", "loss", "measure", "peer_search", "peers", "serve", "stages", "training",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_can_be_imported(name: str) -> None:
    assert import_module(f"benchmarks.{name}").__doc__


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_that_is_disturbed_is_a_command(stage: str) -> None:
    parse(list(STAGES[stage][0]))


def batch(sentences: int, source: int, target: int) -> Batch:
    """Unpadded; lengths count BOS and EOS."""
    return Batch(
        torch.full((sentences, source), 5), torch.full((sentences, target), 5), torch.arange(sentences * (target - 1))
    )


@pytest.mark.integration
@pytest.mark.parametrize(
    "options", [{}, {"activation": "swiglu", "key_value_heads": 2, "positions": "rotary", "normalisation": "rms"}]
)
def test_matrix_products_of_a_transformer_are_those_that_torch_counts(options: dict[str, str | int]) -> None:
    sizes = {"layers": 3, "width": 16, "ffn": 40, "heads": 4} | options
    model = build(TransformerConfig.model_validate(sizes), 30, 50, 0)
    pairs = batch(4, 7, 9)
    with FlopCounterMode(display=False) as counter:
        scores = model.projection(model(pairs.source, pairs.target[:, :-1]))
        F.cross_entropy(scores.flatten(0, 1), pairs.target[:, 1:].flatten()).backward()
    assert training.flops(sizes, 50, [pairs]) * pairs.pieces == pytest.approx(counter.get_total_flops())


def test_padding_is_not_counted_as_arithmetic() -> None:
    sizes, short, long = {"layers": 1, "width": 8, "ffn": 8, "heads": 1}, batch(1, 5, 5), batch(1, 9, 9)
    padded = Batch(F.pad(short.source, (0, 4)), F.pad(short.target, (0, 4)), short.positions)
    both = Batch(torch.cat([padded.source, long.source]), torch.cat([padded.target, long.target]), torch.arange(12))
    assert training.flops(sizes, 20, [both]) == pytest.approx(training.flops(sizes, 20, [short, long]))


def test_the_plain_models_have_our_sizes() -> None:
    sizes = {"source": 40, "target": 60}
    for recipe, kind in (("small", TransformerConfig), ("lstm", RecurrentConfig)):
        m = training.RECIPES[recipe]["model"] | {"width": 32}
        ours = build(kind.model_validate(m), 40, 60, 0)
        theirs, loss = training.plain(m, sizes)
        assert loss(batch(2, 5, 6)).isfinite()
        bridge = 3 * 2 * 32 * 32 if recipe == "lstm" else 0  # ours has four matrices between the states, theirs one
        assert training.measured(ours, 1.0)["matrices"] == training.measured(theirs, 1.0)["matrices"] + bridge


def test_a_side_that_did_not_run_is_named_with_the_reason() -> None:
    run = {"speed": 100.0, "memory": 10.0, "matrices": 7, "parameters": 9}
    found = {"plain": [run, run | {"speed": 300.0}], "ours": [run | {"speed": 600.0}]}
    lines = training.rows("small", found, {"fairseq": "not installed: no wheel"}, 1e6, {"fp32": 3.0, "bf16": 9.0})
    assert lines[0][1:6] == ("plain", "9", "200", "100–300", "1.00")
    assert lines[1][5:7] == ("3.00", "20%")
    assert lines[2][:3] == ("small", "fairseq", "not installed: no wheel")
    assert {len(line) for line in lines} == {len(training.HEADINGS)}


def test_a_model_of_another_size_is_no_comparison() -> None:
    run = {"speed": 100.0, "memory": 10.0, "matrices": 7, "parameters": 9}
    with pytest.raises(AssertionError, match="eole"):
        training.rows("small", {"plain": [run], "eole": [run | {"matrices": 8}]}, {}, 1.0, {"fp32": 1.0, "bf16": 1.0})


def test_batches_by_length_give_translations_in_the_order_of_the_text() -> None:
    rows = [[7], [8, 9, 10], [11, 12]]
    translate = decoding.by_length(lambda source, beam: [[*row[row > 3].tolist(), 3, 0] for row in source])
    assert translate(rows, 1, 2) == rows


def test_decoding_compares_pieces_and_speed_with_ours() -> None:
    def side(speed: float, pieces: list[list[int]]) -> dict[str, object]:
        return {"greedy": {"alone": speed / 10, "best": speed, "pieces": pieces}, "memory": 5.0}

    found = {"ours": [side(100, [[4], [5]])], "CTranslate2": [side(200, [[4], [6]])]}
    ours, theirs, failed = decoding.table_rows("greedy", found, {"fairseq": "ended"})
    assert theirs[4:8] == ("200", "200–200", "2.00", "50.0%") and ours[7] == "100.0%"
    assert failed[:3] == ("greedy", "fairseq", "ended")
    assert len(failed) == len(ours) == len(decoding.HEADINGS)


@pytest.mark.integration
def test_growth_trains_on_sentences_of_the_length_asked_for(tmp_path: Path) -> None:
    point = growth.train(tokens=60, width=64, vocabulary=100, length=8, updates=1, threads=1)
    assert point["speed"] > 0 and point["memory"] > 10
    found = {name: [growth.FIXED | point, growth.FIXED | point | {name: 512}] for name in growth.GROWING}
    growth.draw(found, tmp_path / "growth")
    assert (tmp_path / "growth.png").is_file() and (tmp_path / "growth.svg").is_file()
    assert len(growth.rows(found)) == 8


def test_a_run_is_broken_down_by_stage(tmp_path: Path) -> None:
    for name, took in (("train/a/1.tsv", 6.0), ("train/a/2.tsv", 2.0), ("clean/b.tsv", 1.0)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"s\th:m:s\n{took}\t0:00:00\n")
    assert stages.breakdown(tmp_path, 16.0) == [
        ["clean", "1", "1.0", "6%"], ["train", "2", "8.0", "50%"], ["all, from start to end", "–", "16.0", "100%"]
    ]  # fmt: skip


def test_a_section_takes_the_place_of_the_one_with_its_title(tmp_path: Path) -> None:
    document = tmp_path / "RESULTS.md"
    for title, text in (("One", "old"), ("Two", "kept"), ("One", "new\n\n### part")):
        measure.section(document, "Speed", title, text)
    assert document.read_text() == "# Speed\n\n## One\n\nnew\n\n### part\n\n## Two\n\nkept\n\n"


def test_what_pip_says_is_cut_to_its_error() -> None:
    said = "  error: command 'g++' failed\n  note: This error originates from a subprocess\nERROR: Failed to build"
    assert peers.reason(said) == "error: command 'g++' failed"
    assert "make bench-peers" in peers.missing("no such peer")


def test_a_benchmark_without_its_corpus_says_so_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    benchmarks.say(DataError, DataError("train.en: the mirror has no such file; put it there"), None)
    assert capsys.readouterr().err == "benchmarks: train.en: the mirror has no such file; put it there\n"


def test_the_summary_is_short_and_its_links_lead_to_files() -> None:
    folder = Path(benchmarks.__file__).parent
    text = (folder / "RESULTS.md").read_text()
    assert len(text.splitlines()) <= 200
    for page in (folder / "RESULTS.md", *(folder / "archive").glob("*.md")):
        links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == []
    named = re.findall(r"`python -m benchmarks ([a-z]+)`", text)
    assert set(named) == set(ALL) - {"serve"}
