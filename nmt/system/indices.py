"""Arrays of indices, as sentences, lines and pictures are numbered by."""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def evenly(total: int, count: int) -> Indices:
    """Choose ``count`` of the numbers from 0 to ``total - 1``, spread evenly; all of them if there are fewer."""
    return np.linspace(0, total - 1, min(count, total), dtype=np.int64)
