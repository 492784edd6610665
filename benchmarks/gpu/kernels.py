"""The kernels of some work on a GPU, by PyTorch's profiler."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from benchmarks.gpu.records import Record

LONGEST = 12
NAME = 160  # characters of a kernel's name to keep


def kernels(work: Callable[[], Any], device: torch.device, count: int, took: float, by_name: bool) -> Record:
    """Profile some work that ends with all its kernels done.

    On the CPU, operators take the place of kernels.

    Args:
        work: what to profile.
        device: where it runs.
        count: number of its updates or steps.
        took: milliseconds that one of them takes without the profiler.
        by_name: whether to list the kernels that take the longest.

    Returns:
        Kernels in an update or step, the time in them as a share of ``took``, and the longest ones.
    """
    on_gpu = device.type == "cuda"
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as profiler:
        work()
    kind = torch.autograd.DeviceType.CUDA if on_gpu else torch.autograd.DeviceType.CPU
    calls, times = defaultdict[str, int](int), defaultdict[str, float](float)
    for event in profiler.events() or []:
        if event.device_type == kind and not event.is_user_annotation:
            calls[event.name] += 1
            times[event.name] += (event.time_range.elapsed_us() if on_gpu else event.self_cpu_time_total) / 1e3
    total = sum(times.values())
    record: Record = {"kernels": sum(calls.values()) / count, "busy": total / count / took}
    if by_name:
        record["longest_kernels"] = [
            {"name": name[:NAME], "calls": calls[name] / count, "ms": ms / count, "share": ms / total}
            for name, ms in sorted(times.items(), key=lambda item: -item[1])[:LONGEST]
        ]
    return record
