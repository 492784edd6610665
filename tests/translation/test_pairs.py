"""Scores of pairs by models of both directions, against their definition."""

import gzip
import math
from pathlib import Path

import pytest
from commands import run
from test_forced import random_model

from nmt.system.errors import ConfigError
from nmt.system.files import read_json, write_json
from nmt.translation import pairs
from nmt.translation.forced import score_pairs
from nmt.translation.pairs import score_text
from nmt.translation.translator import Translator


def test_the_score_is_minus_the_dual_cross_entropy(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "PART", 2)
    forward, backward = (random_model(model, tmp_path / str(seed), "transformer", seed) for seed in (1, 2))
    recipe = read_json(backward / "cleaning.json")
    write_json(backward / "cleaning.json", recipe | {"languages": "-".join(recipe["languages"].split("-")[::-1])})
    sources, targets = ["w1 w2 w3", "w4", "", "w5 w6"], ["w3 w2 w1", "w4 w4 w4 w4", "w1", "w1 " * 200]
    (tmp_path / "a.src.gz").write_bytes(gzip.compress("".join(f"{line}\n" for line in sources).encode()))
    (tmp_path / "a.tgt").write_text("".join(f"{line}\n" for line in targets))
    files = [str(tmp_path / name) for name in ("a.src.gz", "a.tgt", "scores.txt")]
    run("score-pairs", *files, "--forward", str(forward), "--backward", str(backward), "--threads", "1")
    written = [float(line) for line in (tmp_path / "scores.txt").read_text().split()]
    there, back = (Translator.load(folder, "cpu", 1) for folder in (forward, backward))
    h1 = [-found.score() if found else math.inf for found in score_pairs(there, sources, targets)]
    h2 = [-found.score() if found else math.inf for found in score_pairs(back, targets, sources)]
    expected = [-abs(a - b) - (a + b) / 2 for a, b in zip(h1[:3], h2[:3], strict=True)]
    assert written[:3] == pytest.approx(expected, abs=1e-4) and written[3] == -math.inf
    run("score-pairs", *files, "--forward", str(forward), "--threads", "1")
    alone = [float(line) for line in (tmp_path / "scores.txt").read_text().split()]
    assert alone[:3] == pytest.approx([-value for value in h1[:3]], abs=1e-4)
    with pytest.raises(ConfigError, match="--backward: expected a model for de-en, got one for en-de"):
        score_text([there, there], *map(Path, files))


def test_a_model_of_the_other_direction_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.de.gz").write_bytes(gzip.compress(b"w1\n"))
    (tmp_path / "a.en").write_text("w1\n")
    code, said = run("score-pairs", tmp_path / "a.de.gz", tmp_path / "a.en", tmp_path / "out", "--forward", model)
    assert code == 1 and "a.de.gz: expected text in 'en', as the model translates en-de" in said
    assert not (tmp_path / "out").exists()


def test_cut_sources_are_told(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.src").write_text("w1\n" + "w1 " * 200 + "\n")
    (tmp_path / "a.tgt").write_text("w2\nw3\n")
    files = [str(tmp_path / name) for name in ("a.src", "a.tgt", "scores.txt")]
    code, said = run("score-pairs", *files, "--forward", str(random_model(model, tmp_path / "m", "transformer", 1)))
    assert code == 0 and "a.src: 1 of 2 sources were cut to" in said, said
