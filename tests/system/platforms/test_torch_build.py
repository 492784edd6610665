"""Which build of PyTorch is chosen for which machine, and the command line that follows."""

import subprocess
from pathlib import Path

import pytest

from nmt.system.platforms import torch_build
from nmt.system.platforms.torch_build import Build, Gpu, choose

H100 = Gpu("NVIDIA H100 80GB HBM3", 9.0, 580)
B200 = Gpu("NVIDIA B200", 10.0, 580)
RTX_5090 = Gpu("NVIDIA GeForce RTX 5090", 12.0, 570)
T4 = Gpu("Tesla T4", 7.5, 580)
V100 = Gpu("Tesla V100-SXM2-16GB", 7.0, 580)
P100 = Gpu("Tesla P100-PCIE-16GB", 6.0, 550)
GTX_1080 = Gpu("NVIDIA GeForce GTX 1080", 6.1, 535)
K80 = Gpu("Tesla K80", 3.7, 525)


@pytest.mark.parametrize(
    ("found", "build", "why"),
    [
        (None, "cpu", "no NVIDIA GPU"),
        ([], "cpu", "lists none"),
        ([H100], "cu130", "NVIDIA H100 80GB HBM3, compute capability 9.0, driver 580"),
        ([B200], "cu130", "B200"),
        ([T4, H100], "cu130", "Tesla T4"),
        ([Gpu("H100", 9.0, 550)], "cu126", "CUDA 13 needs driver 580"),
        ([V100], "cu126", "older than CUDA 13 supports"),
        ([P100], "cu126", "CUDA 13 needs driver 580"),
        ([GTX_1080, P100], "cu126", "P100"),
        ([K80], "cpu", "no build has kernels below 5.0"),
        ([Gpu("H100", 9.0, 470)], "cpu", "update it for the GPU"),
        ([RTX_5090], "cpu", "needs CUDA 13, which needs driver 580"),
        ([RTX_5090, Gpu("B200", 10.0, 570)], "cpu", "needs CUDA 13"),
        ([V100, B200], "cu126", "NVIDIA B200 needs CUDA 13"),
        ([Gpu("An old driver names no capability", None, 530)], "cu126", "compute capability unknown"),
    ],
)
def test_the_build_fits_the_oldest_gpu_and_the_driver(found: list[Gpu] | None, build: str, why: str) -> None:
    got = choose("auto", "Linux", found)
    assert got.name == build and why in got.why


def test_macos_takes_the_registrys_build_and_a_name_is_obeyed() -> None:
    assert choose("auto", "Darwin", None).name == "pypi"
    assert choose("cu128", "Linux", None) == Build("cu128", "TORCH=cu128 was given")
    with pytest.raises(ValueError, match="expected auto, cpu, cu126, cu130, pypi or none, got cuda"):
        choose("cuda", "Linux", None)


def test_the_command_line_names_the_builds_own_index() -> None:
    assert Build("cpu", "").pip_arguments() == [
        "torch==2.13.0", "--index-url", "https://download.pytorch.org/whl/cpu",
    ]  # fmt: skip
    assert Build("cu126", "").pip_arguments()[2].endswith("/whl/cu126")
    assert Build("pypi", "").pip_arguments() == ["torch==2.13.0"]
    assert Build("none", "").pip_arguments() == []


def test_what_nvidia_smi_prints_is_read() -> None:
    def prints(text: str) -> object:
        return lambda *_, **__: subprocess.CompletedProcess([], 0, text, "")

    lines = "Tesla V100-SXM2-16GB, 7.0, 580.65.06\nNVIDIA A100, 80GB, 8.0, 580.65.06\n"
    assert torch_build.gpus(prints(lines)) == [V100, Gpu("NVIDIA A100, 80GB", 8.0, 580)]  # type: ignore[arg-type]
    assert torch_build.gpus(prints("GTX, [N/A], 390.1\n")) == [Gpu("GTX", None, 390)]  # type: ignore[arg-type]

    def fails(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        raise subprocess.CalledProcessError(9, "nvidia-smi")

    def is_missing(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        raise FileNotFoundError("nvidia-smi")

    assert torch_build.gpus(fails) is None and torch_build.gpus(is_missing) is None


def test_an_environment_keeps_the_choice(tmp_path: Path) -> None:
    assert torch_build.recorded(tmp_path) is None
    torch_build.record(Build("cu126", "V100"), tmp_path)
    assert torch_build.recorded(tmp_path) == Build("cu126", "V100")
    (tmp_path / torch_build.RECORD).write_text("{")
    assert torch_build.recorded(tmp_path) is None
