"""Arrays of indices, e.g. of sentences, lines and pictures, and large arrays in files.

The system keeps the pages of a file in memory only while it has room.
"""

import mmap
import tempfile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nmt.system.errors import DataError

Indices = NDArray[np.integer[Any]]

HELD = 2**24
"""Bytes of the largest array that is held in memory."""
TAKEN = 64
"""Numbers of a larger array that are looked up at a time; each may bring up to a megabyte of its file into memory."""


def evenly(total: int, count: int) -> Indices:
    """Return ``count`` evenly spaced numbers from 0 to ``total - 1``; all of them if ``total`` is smaller."""
    return np.linspace(0, total - 1, min(count, total), dtype=np.int64)


def scratch(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of ``count`` numbers; a large one is in a file that vanishes with the array.

    Raises:
        DataError: the folder for temporary files has no room for it.
    """
    size = count * np.dtype(dtype).itemsize
    if size <= HELD:
        return np.zeros(count, dtype)
    try:
        with tempfile.TemporaryFile() as file:
            for start in range(0, size, 2**20):  # a file with holes would end the process when the disk is full
                file.write(bytes(min(2**20, size - start)))
            return np.memmap(file, dtype, "r+", shape=count)
    except OSError as error:
        raise DataError(
            f"{tempfile.gettempdir()}: expected room for a temporary file of {size / 1e6:,.0f} MB, got: "
            f"{error.strerror}; set TMPDIR to a folder with more room"
        ) from None


def release(array: NDArray[Any]) -> None:
    """Drop a mapped array's pages from the memory of the process; its file, or the system's cache, still has them."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and array.nbytes > HELD:
        base.madvise(mmap.MADV_DONTNEED)


def take(array: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers at these places (N,); of a large array without keeping its pages in memory."""
    if array.nbytes <= HELD:
        return np.asarray(array[places])
    result = np.empty(len(places), array.dtype)
    for start in range(0, len(places), TAKEN):
        result[start : start + TAKEN] = array[places[start : start + TAKEN]]
        release(array)
    return result
