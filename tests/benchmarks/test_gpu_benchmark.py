"""The GPU benchmark's dry run on the CPU, and its records."""

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from benchmarks.gpu import search, training
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.records import Record, Records
from nmt.config.data import SpecialIds
from nmt.system import machine


def dry_run(folder: Path) -> tuple[list[Record], str]:
    out = folder / "results.jsonl"
    result = CliRunner().invoke(main, ["--dry-run", "--out", str(out)])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in out.read_text().splitlines()], result.output


@pytest.mark.integration
def test_a_dry_run_measures_both_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "code_version", lambda: "abc")  # would call git
    monkeypatch.setattr(training, "DRY", [*training.DRY, ("no such model", "8 sentences", "calls")])
    records, output = dry_run(tmp_path)
    assert records[0]["part"] == "environment" and records[0]["peak_tflops"] > 0
    searched = [record for record in records if record["part"] == "search"]
    assert {(record["beam"], record["batch"]) for record in searched} == {(1, 4), (5, 4), (1, 1), (5, 1)}
    assert sum("longest_kernels" in record for record in searched) == 2
    assert all(record["sentences/s"] > 0 and record["pieces/s"] > record["sentences/s"] for record in searched)
    trained = {record["model"]: record for record in records if record["part"] == "training"}
    for name in ("dry", "dry lstm"):
        found = trained[name]
        assert found["pieces/s"] > 0 and found["updates"] > 0 and found["kernels"] > 0
        assert found["tflops"] * 1e12 == pytest.approx(found["pieces/s"] * found["mflop_a_piece"] * 1e6)
        assert found["peak_share"] == pytest.approx(found["tflops"] / records[0]["peak_tflops"])
    assert "no such model" in trained["no such model"]["error"]
    assert "| dry | 100 tokens | graphs |" in output and "| no such model | 8 sentences | calls | KeyError" in output


def test_an_error_or_no_time_is_recorded_and_the_rest_goes_on(tmp_path: Path) -> None:
    def fails(limit: float) -> Record:
        raise torch.OutOfMemoryError(f"more than {limit:.0f}\nGiB")

    records = Records(tmp_path / "out")
    records.measure("a", [({"case": 1}, fails), ({"case": 2}, lambda limit: {"value": 1234.5, "limit": limit})], 10.0)
    records.measure("b", [({"case": 3}, fails)], -1.0)
    first, second, third = map(json.loads, (tmp_path / "out").read_text().splitlines())
    assert first["error"].startswith("OutOfMemoryError: more than 5")
    assert second["value"] == 1234.5 and second["limit"] == pytest.approx(10, abs=1) and "error" not in second
    assert third["skipped"] == "no time left"
    assert records.table("a", ["case", "value"]).splitlines()[2:] == [
        "| 1 | OutOfMemoryError: more than 5 |", "| 2 | 1,234 |"
    ]  # fmt: skip


def test_batches_hold_every_sentence_once() -> None:
    rows = search.random_rows(vocabulary=50, sentences=30)
    found = [row[row > 3].tolist() for batch in search.batches_of(rows, 7, SpecialIds()) for row in batch]
    assert sorted(found) == sorted(rows)


@pytest.mark.parametrize("batch", ["25000 tokens", "128 sentences"])
def test_synthetic_sentences_have_the_mean_length_asked_for(batch: str) -> None:
    for side in training.lengths_of(batch, mean=20):
        assert side.mean() == pytest.approx(20, rel=0.1) and 2 <= side.min() < 10 and 40 < side.max() <= 100


def test_a_model_needs_its_text(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--out", str(tmp_path / "out"), "--model", str(tmp_path)])
    assert result.exit_code == 2 and "--model and --text belong together" in result.output
