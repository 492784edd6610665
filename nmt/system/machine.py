"""The machine a process runs on: device, threads, memory allocator, matrix kernels, and a description of it all."""

import ctypes
import gc
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from nmt.system.errors import ConfigError

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # glibc's malloc.h


def prepare(device: str, threads: int | None = None) -> torch.device:
    """Choose the device and set this process up for it; call once, before any large tensor exists.

    Raises:
        ConfigError: a GPU was asked for and there is none.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: expected a GPU, got none that PyTorch can use; set device: cpu (or auto)")
    if threads:
        torch.set_num_threads(threads)
    chosen = torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
    if chosen.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)  # slower for most shapes: benchmarks/RESULTS.md
    else:
        _keep_freed_memory()
        _keep_few_kernels()
        if "AMD" in _processor():
            # Selects oneDNN's AVX-512 fp32 kernels: the default, MKL, runs AVX2 there. On Intel's processors MKL is the
            # faster, 1.1 to 1.2 times in training and in beam search, and with AMX this would compute in bf16.
            torch.set_float32_matmul_precision("medium")
    return chosen


def _glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"


def _keep_freed_memory() -> None:
    """Stop malloc from giving large buffers back to the kernel, which costs page faults at every update."""
    if _glibc():
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(M_TOP_PAD, 64 * 2**20)


@contextmanager
def returning_memory() -> Iterator[None]:
    """Return freed memory to the operating system when this ends; `prepare` made malloc keep it.

    As a decorator it also frees what the function's local variables held. A process that goes on, such as a notebook,
    then holds no more than it uses.
    """
    try:
        yield
    finally:
        gc.collect()  # models and optimisers may be in reference cycles
        if _glibc():
            ctypes.CDLL(None).malloc_trim(0)


def _keep_few_kernels() -> None:
    """Keep oneDNN from remembering a kernel for each of a thousand shapes: between them, memory falls to pieces.

    Batches come in some hundred shapes. Of the small recipe in benchmarks/ the memory after 180 updates is 663 MiB
    instead of 2,350, at the same speed.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):  # oneDNN's own, and PyTorch's above it
        os.environ.setdefault(name, "16")


def pytorch_kernels(wanted: bool = True) -> AbstractContextManager[None]:
    """While this lasts, PyTorch's default matrix kernels on the CPU, if wanted.

    Where `prepare` chose oneDNN's, those are made for each new shape, of which a search has some at every step, and
    fused attention one for each sentence: of few rows that takes longer than to multiply (benchmarks/RESULTS.md).
    """
    chosen = torch.get_float32_matmul_precision()
    return _matmul_precision("highest", chosen) if wanted and chosen != "highest" else nullcontext()


@contextmanager
def _matmul_precision(meanwhile: str, after: str) -> Iterator[None]:
    torch.set_float32_matmul_precision(meanwhile)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(after)


def matrix_speed(kind: torch.dtype, seconds: float = 0.5, size: int = 2048, device: str = "cpu") -> float:
    """GFLOP/s of square matrix products, on the CPU with the threads and kernels that this process is set to."""
    a, b = (torch.randn(size, size).to(device, kind) for _ in range(2))
    (a @ b).sum().item()  # kernels are made for new shapes
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        a @ b
        if device == "cuda":
            torch.cuda.synchronize()
        count += 1
    return 2 * size**3 * count / (time.perf_counter() - started) / 1e9


def hardware(device: torch.device) -> dict[str, Any]:
    """What ran: processor, cores, memory in GiB, GPU."""
    found: dict[str, Any] = {"device": device.type, "processor": _processor(), "cores": os.cpu_count()}
    found["threads"] = torch.get_num_threads()
    found["memory_gib"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of what decides the result."""
    names = ["torch", "numpy", "sentencepiece"]
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in names}


@cache
def code_version() -> str:
    """Commit of the checkout this code runs from, ``+changes`` if it was edited since, else the package's version."""
    root = Path(__file__).parent.parent.parent
    try:
        described = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty=+changes", "--exclude=*"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return described.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return metadata.version("nmt")
