"""`nmt doctor`, and how a command sets up its threads."""

import os

import pytest
import torch
from commands import run

from nmt.system import machine
from nmt.system.platforms import torch_build
from nmt.system.platforms.torch_build import Build


@pytest.mark.integration
def test_doctor_prints_versions_and_hardware() -> None:
    code, output = run("doctor")
    assert code == 0 and "torch" in output and "threads" in output


@pytest.mark.integration
def test_doctor_says_which_pytorch_was_chosen_and_which_the_machine_needs_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_build, "recorded", lambda: Build("cpu", "no NVIDIA GPU"))
    monkeypatch.setattr(torch_build, "detect", lambda: Build("cu126", "V100: older than CUDA 13 supports"))
    _, output = run("doctor")
    assert "torch chosen   cpu (no NVIDIA GPU)" in output
    assert "torch advised  cu126 (V100: older than CUDA 13 supports)" in output
    monkeypatch.setattr(torch_build, "recorded", lambda: Build("cu126", "x"))
    assert "torch advised" not in run("doctor")[1]


def test_doctor_says_where_bfloat16_would_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its products could take minutes there, so it does not measure them."""
    measured: list[torch.dtype] = []
    monkeypatch.setattr(machine, "matrix_speed", lambda kind: measured.append(kind) or 100.0)
    monkeypatch.setattr(machine, "_capabilities", lambda: {"avx2": True})
    assert "bf16           no instructions for it" in run("doctor")[1] and measured == [torch.float32]
    monkeypatch.setattr(machine, "_capabilities", lambda: {"avx2": True, "amx_bf16": True})
    assert "bf16           100 GFLOP/s" in run("doctor")[1]


@pytest.mark.parametrize("policy", [None, "passive"])
def test_threads_soon_sleep_unless_the_user_chose_how_they_wait(
    monkeypatch: pytest.MonkeyPatch, policy: str | None
) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    }
    monkeypatch.setattr(os, "environ", environment | ({"OMP_WAIT_POLICY": policy} if policy else {}))
    run("schemas", "--help")
    assert os.environ.get("GOMP_SPINCOUNT") == (None if policy else "5000")
