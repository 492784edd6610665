"""Which build of PyTorch a machine needs. ``envs/install.py`` installs it, and ``nmt doctor`` prints the choice.

The registry's Linux build contains CUDA and takes several GB. PyTorch's own indexes have a small build without CUDA,
and builds for older GPUs and drivers. This module is read before anything is installed, so it uses the standard library
only.
"""

import json
import platform
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

VERSION = "2.13.0"
"""The version whose results are published; another one may give other bits."""
INDEX = "https://download.pytorch.org/whl/"
RECORD = "nmt-environment.json"
"""File of an environment (`sys.prefix`) that says which build was chosen, and why."""
BUILDS = re.compile(r"auto|cpu|cu\d{3}|rocm[\d.]+|xpu|pypi|none")
QUERY = ("nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")

CUDA_13_DRIVER, CUDA_12_DRIVER = 580, 525  # smallest Linux drivers: NVIDIA, CUDA Compatibility, table 1
CUDA_13_CAPABILITY = 7.5  # CUDA 13.0 release notes: Maxwell, Pascal and Volta are no longer supported
CUDA_126_CAPABILITIES = (5.0, 9.9)  # CUDA 12.6 has no Blackwell


@dataclass(frozen=True)
class Build:
    """A build of PyTorch: ``cpu``, ``cu126``, …, or ``pypi`` for the registry's, or ``none`` to install nothing."""

    name: str
    why: str

    def pip_arguments(self) -> list[str]:
        """Return the arguments of ``pip install`` for it; empty if nothing is to be installed."""
        if self.name == "none":
            return []
        requirement = f"torch=={VERSION}"
        return [requirement] if self.name == "pypi" else [requirement, "--index-url", f"{INDEX}{self.name}"]


@dataclass(frozen=True)
class Gpu:
    """A GPU as ``nvidia-smi`` lists it."""

    name: str
    capability: float | None
    driver: int


def gpus(run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> list[Gpu] | None:
    """Return the NVIDIA GPUs of this machine, or None if ``nvidia-smi`` is missing or fails."""
    try:
        lines = run(QUERY, capture_output=True, text=True, timeout=30, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [[field.strip() for field in line.rsplit(",", 2)] for line in lines if line.count(",") >= 2]
    return [Gpu(name, _number(capability), int(_number(driver) or 0)) for name, capability, driver in rows]


def _number(text: str) -> float | None:
    match = re.match(r"\d+(\.\d+)?", text)
    return float(match[0]) if match else None


def choose(wanted: str, system: str, found: Sequence[Gpu] | None) -> Build:
    """Choose a build.

    Args:
        wanted: ``auto`` or a name of a build.
        system: `platform.system`: Linux, Darwin or Windows.
        found: the GPUs, or None if they cannot be listed.

    Raises:
        ValueError: no build has such a name.
    """
    if not BUILDS.fullmatch(wanted):
        raise ValueError(f"TORCH: expected auto, cpu, cu126, cu130, pypi or none, got {wanted}")
    if wanted != "auto":
        return Build(wanted, f"TORCH={wanted} was given")
    if system == "Darwin":
        return Build("pypi", "macOS: the registry's build has no CUDA")
    if not found:
        return Build("cpu", "no NVIDIA GPU: nvidia-smi is missing or lists none")
    return _for_gpus(found)


def _for_gpus(found: Sequence[Gpu]) -> Build:
    """Choose by the oldest GPU, so that all of them work where one build has kernels for all."""
    oldest = min(found, key=lambda gpu: gpu.capability or 0)
    newest = max(found, key=lambda gpu: gpu.capability or 0)
    capability, driver = oldest.capability, oldest.driver
    facts = f"{oldest.name}, compute capability {capability or 'unknown'}, driver {driver}"
    if driver < CUDA_12_DRIVER:
        return Build("cpu", f"{facts}: CUDA 12.6 needs driver {CUDA_12_DRIVER} or newer; update it for the GPU")
    low, high = CUDA_126_CAPABILITIES
    if capability is not None and capability < low:
        return Build("cpu", f"{facts}: no build has kernels below {low}")
    if capability is not None and capability >= CUDA_13_CAPABILITY and driver >= CUDA_13_DRIVER:
        return Build("cu130", facts)
    if newest.capability is not None and newest.capability > high:
        lacking = f"{newest.name} needs CUDA 13, which needs driver {CUDA_13_DRIVER} and GPUs from {CUDA_13_CAPABILITY}"
        return Build("cu126" if (capability or 0) <= high else "cpu", f"{facts}; {lacking}")
    reason = "older than CUDA 13 supports" if driver >= CUDA_13_DRIVER else f"CUDA 13 needs driver {CUDA_13_DRIVER}"
    return Build("cu126", f"{facts}: {reason}")


def detect(wanted: str = "auto") -> Build:
    """Choose the build for this machine."""
    return choose(wanted, platform.system(), gpus() if wanted == "auto" else None)


def record(build: Build, prefix: Path) -> None:
    """Write into an environment which build it has, and why."""
    (prefix / RECORD).write_text(json.dumps({"torch": asdict(build)}) + "\n", encoding="utf-8")


def recorded(prefix: Path | None = None) -> Build | None:
    """Return what `record` wrote into an environment, by default this one; None without or with another file."""
    try:
        return Build(**json.loads(((prefix or Path(sys.prefix)) / RECORD).read_text(encoding="utf-8"))["torch"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
