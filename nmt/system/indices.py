"""Arrays of indices, e.g. of sentences, lines and pictures."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.integer[Any]]


def evenly(total: int, count: int) -> Indices:
    """Return ``count`` evenly spaced numbers from 0 to ``total - 1``; all of them if ``total`` is smaller."""
    return np.linspace(0, total - 1, min(count, total), dtype=np.int64)
