"""Near-equal training pairs: bands of their signatures are compared on disk, one band and some buckets at a time."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nmt.corpora.near import BANDS, BINS, Bands, Signatures, similarity

ROWS = 2**22
"""Most rows that are sorted at a time."""
BLOCK = 2**16
"""Signatures compared at a time."""


class Sketches:
    """Signatures and bands of all training pairs, in files of a scratch folder."""

    def __init__(self, folder: Path) -> None:
        self._signatures, self._bands = folder / "signatures", [folder / f"band-{band}" for band in range(BANDS)]
        for path in (self._signatures, *self._bands):
            path.touch()

    def add(self, signatures: Signatures, bands: Bands) -> None:
        """Append those of some pairs."""
        with self._signatures.open("ab") as stream:
            stream.write(signatures.tobytes())
        for path, column in zip(self._bands, bands.T, strict=True):
            with path.open("ab") as stream:
                stream.write(column.tobytes())

    def repeats(self, chosen: NDArray[np.bool_], least: float) -> NDArray[np.bool_]:
        """Return for each chosen pair whether an earlier chosen one is at least so similar.

        Args:
            chosen: whether each pair (N,) takes part.
            least: similarity from 0 to 1.
        """
        repeated = np.zeros(len(chosen), np.bool_)
        if not chosen.any():
            return repeated
        signatures = np.memmap(self._signatures, np.uint8, "r").reshape(-1, BINS)
        for path in self._bands:
            for later, earlier in _equal(np.memmap(path, np.uint64, "r"), chosen):
                new = ~repeated[later]
                later, earlier = later[new], earlier[new]
                for first in range(0, len(later), BLOCK):
                    rows, others = later[first : first + BLOCK], earlier[first : first + BLOCK]
                    repeated[rows] = similarity(signatures[rows], signatures[others]) >= least
        return repeated


def _equal(values: NDArray[np.uint64], chosen: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Yield the rows whose value equals that of an earlier chosen row, and the first such row of each."""
    buckets = np.uint64(-(-len(values) // ROWS))
    for bucket in range(int(buckets)):
        rows = np.concatenate([
            first + np.flatnonzero((values[first : first + ROWS] % buckets == bucket) & chosen[first : first + ROWS])
            for first in range(0, len(values), ROWS)
        ])  # fmt: skip
        found = values[rows]
        order = np.argsort(found, kind="stable")
        found, rows = found[order], rows[order]
        begins = np.concatenate([[True], found[1:] != found[:-1]]) if len(rows) else np.zeros(0, np.bool_)
        firsts = rows[np.flatnonzero(begins)][np.cumsum(begins) - 1]
        yield rows[~begins], firsts[~begins]
