"""Mutated files of somebody else, read in this process: taken or refused; `benchmarks.hostile` tries many more."""

import random
import time
from pathlib import Path

import pytest

from benchmarks.hostile import SECONDS, TARGETS, Material, Target, damaged_copy, make_material, outcome

INPUTS = 6


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return make_material(tmp_path_factory.mktemp("material") / "whole")


@pytest.mark.integration
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_mutated_files_are_taken_or_refused(material: Material, tmp_path: Path, target: Target) -> None:
    for number in range(INPUTS):
        folder = tmp_path / str(number)
        folder.mkdir()
        copy, path = damaged_copy(material, folder, target, random.Random(f"{target.name} {number}"))
        started = time.process_time()
        assert outcome(target.read, copy) in ("taken", "refused"), f"{path.name}, input {number}"
        assert time.process_time() - started < SECONDS


def test_an_error_of_ours_is_no_refusal(material: Material) -> None:
    def fail(_: Material) -> None:
        raise IndexError("list index out of range")

    assert outcome(fail, material) == "IndexError: list index out of range"
    assert all(outcome(target.read, material) == "taken" for target in TARGETS if "table" in target.name)
