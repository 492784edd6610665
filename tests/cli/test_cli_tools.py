"""`nmt doctor`."""

import pytest
from commands import run

from nmt.system.platforms import torch_build
from nmt.system.platforms.torch_build import Build


def test_doctor_prints_versions_and_hardware() -> None:
    code, output = run("doctor")
    assert code == 0 and "torch" in output and "threads" in output


def test_doctor_says_which_pytorch_was_chosen_and_which_the_machine_needs_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_build, "recorded", lambda: Build("cpu", "no NVIDIA GPU"))
    monkeypatch.setattr(torch_build, "detect", lambda: Build("cu126", "V100: older than CUDA 13 supports"))
    _, output = run("doctor")
    assert "torch chosen   cpu (no NVIDIA GPU)" in output
    assert "torch advised  cu126 (V100: older than CUDA 13 supports)" in output
    monkeypatch.setattr(torch_build, "recorded", lambda: Build("cu126", "x"))
    assert "torch advised" not in run("doctor")[1]
