"""Large arrays in files: their content, the memory that they take, and a full disk."""

import errno
import tempfile
from pathlib import Path

import numpy as np
import pytest

from nmt.system.arrays import HELD, release, scratch, take
from nmt.system.errors import DataError


def resident() -> int:
    """Bytes of files in the memory of this process."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssFile"].split()[0]) * 1024


@pytest.mark.parametrize("count", [0, 7, HELD // 4, HELD // 4 + 1])
def test_numbers_stay_after_their_pages_are_dropped(count: int) -> None:
    array = scratch(count, np.int32)
    assert len(array) == count and array.dtype == np.int32 and not array.any()
    array[:] = np.arange(count)
    release(array[3:])
    places = np.random.default_rng(1).integers(0, max(1, count), 200 if count else 0)
    assert take(array, places).tolist() == places.tolist()
    assert np.array_equal(array, np.arange(count))


def test_dropped_pages_take_no_memory() -> None:
    array = scratch(4 * HELD, np.uint8)
    before = resident()
    array[:] = 1
    assert resident() - before > 3 * HELD
    release(array)
    assert resident() - before < HELD // 4
    assert array.sum(dtype=np.int64) == 4 * HELD


def test_a_file_vanishes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    array = scratch(HELD + 1, np.uint8)
    assert isinstance(array, np.memmap) and list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None: ...

        def write(self, _: bytes) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    message = r"expected room for a temporary file of 17 MB, got: No space left on device; set TMPDIR"
    with pytest.raises(DataError, match=message):
        scratch(HELD + 1, np.uint8)
