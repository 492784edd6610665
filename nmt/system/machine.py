"""The machine of a process: device, threads, memory allocator, matrix kernels, and a description for the log."""

import ctypes
import gc
import os
import platform
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from nmt.system.errors import ConfigError
from nmt.system.platforms.version import code_version as code_version  # beside the other facts of a record

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4  # glibc's malloc.h


def prepare(device: str, threads: int | None = None) -> torch.device:
    """Choose the device and set this process up for it; call once, before any large tensor exists.

    Raises:
        ConfigError: ``device`` is cuda, but PyTorch can use no GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device: expected a GPU, got none that PyTorch can use; set device: cpu (or auto)")
    if threads:
        torch.set_num_threads(threads)
    chosen = torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
    if chosen.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)  # slower for most shapes: benchmarks/archive/gpu.md
    else:
        _keep_freed_memory()
        _limit_kernel_cache()
        if "AMD" in _processor():
            # This selects oneDNN's AVX-512 fp32 kernels. On AMD, MKL, the default, uses only AVX2. On Intel, MKL is 1.1
            # to 1.2 times faster in training and beam search, and with AMX this setting would compute in bf16.
            torch.set_float32_matmul_precision("medium")
    return chosen


def _has_glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"


def _keep_freed_memory() -> None:
    """Stop malloc from returning large buffers to the kernel, which costs page faults at every update."""
    if _has_glibc():
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_MAX, 0)
        libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(M_TOP_PAD, 64 * 2**20)


@contextmanager
def returning_memory() -> Iterator[None]:
    """Return freed memory to the operating system at the end of the block; `prepare` made malloc keep it.

    As a decorator it also frees the memory of the function's local variables. A process that goes on, such as a
    notebook, then holds no more than it uses.
    """
    try:
        yield
    finally:
        gc.collect()  # models and optimisers may be in reference cycles
        if _has_glibc():
            ctypes.CDLL(None).malloc_trim(0)


def has_amx() -> bool:
    """Whether the processor multiplies matrices of bfloat16 by AMX, for which oneDNN compiles a kernel in 1 to 5 ms."""
    return bool(_capabilities().get("amx_bf16"))


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device has instructions that multiply bfloat16 numbers.

    Without them PyTorch converts each number. On a processor with AVX2 alone, products of matrices then take 8 to 160
    times as long as in float32.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    capabilities = _capabilities()
    return not capabilities or any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"))


def _capabilities() -> dict[str, Any]:
    """Return the instruction sets of the processor; empty in older versions of PyTorch."""
    return dict(getattr(torch.cpu, "get_capabilities", dict)())


def _limit_kernel_cache() -> None:
    """Limit oneDNN's cache of kernels, one per shape, which fragments the memory.

    Batches have several hundred shapes. With the small recipe in benchmarks/, memory after 180 updates falls from 2,350
    to 663 MiB, at the same speed. An update has about 60 shapes, which all layers share. So with AMX, where compiling
    is slow, as many kernels are kept.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):  # oneDNN's cache, and PyTorch's above it
        os.environ.setdefault(name, "64" if has_amx() else "16")


def pytorch_kernels(wanted: bool = True) -> AbstractContextManager[None]:
    """Use PyTorch's default matrix kernels on the CPU inside the block, if wanted.

    `prepare` may have chosen oneDNN, which compiles a kernel for each new shape. Search has new shapes at every step,
    fused attention for every sentence. With few rows, compiling takes longer than multiplying
    (benchmarks/archive/decoding.md).
    """
    if not wanted or (current := torch.get_float32_matmul_precision()) == "highest":
        return nullcontext()
    return _MatmulPrecision("highest", current)


class _MatmulPrecision(AbstractContextManager[None]):
    """Sets the precision of matrix products inside a block; a generator would take several times as long."""

    def __init__(self, meanwhile: str, after: str) -> None:
        self.meanwhile, self.after = meanwhile, after

    def __enter__(self) -> None:
        torch.set_float32_matmul_precision(self.meanwhile)

    def __exit__(self, *_: object) -> None:
        torch.set_float32_matmul_precision(self.after)


def matrix_speed(kind: torch.dtype, seconds: float = 0.5, size: int = 2048, device: str = "cpu") -> float:
    """Measure square matrix products in GFLOP/s; on the CPU with the current threads and kernels of this process.

    Args:
        kind: number format of the matrices.
        seconds: duration of the measurement.
        size: rows and columns.
        device: ``cpu`` or ``cuda``.
    """
    a, b = (torch.randn(size, size).to(device, kind) for _ in range(2))
    (a @ b).sum().item()  # warm up: a kernel is compiled for a new shape
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        a @ b
        if device == "cuda":
            torch.cuda.synchronize()
        count += 1
    return 2 * size**3 * count / (time.perf_counter() - started) / 1e9


def hardware(device: torch.device) -> dict[str, Any]:
    """Describe the hardware: device, processor, cores, threads, memory in GiB, and the GPU's name if it is used."""
    description: dict[str, Any] = {"device": device.type, "processor": _processor(), "cores": os.cpu_count()}
    description["threads"] = torch.get_num_threads()
    if hasattr(os, "sysconf"):  # Windows has none
        description["memory_gib"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    if device.type == "cuda":
        description["gpu"] = torch.cuda.get_device_name(device)
    return description


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that affect results."""
    names = ["torch", "numpy", "sentencepiece"]
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in names}
