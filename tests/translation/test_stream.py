"""Translations appear as they are made, and an interrupted file goes on where it was."""

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from nmt.system.errors import DataError
from nmt.system.lines import LONGEST, decode_lines
from nmt.translation.stream import FIRST, LARGEST, Pipe, Resumable, chunks

LINES = [f"line {n}" for n in range(5000)]


def capitals(lines: list[str], first: int) -> str:
    return "".join(f"{first + i} {line.upper()}\n" for i, line in enumerate(lines))


def never() -> bool:
    return False


def test_chunks_begin_small_and_are_the_same_after_an_interruption() -> None:
    whole = list(chunks(LINES))
    sizes = list(map(len, whole))
    assert sizes[:3] == [FIRST, 2 * FIRST, 4 * FIRST] and max(sizes) == LARGEST
    assert [line for chunk in whole for line in chunk] == LINES
    done = 0
    for n, size in enumerate(sizes):
        assert list(chunks(LINES[done:], done=done)) == whole[n:]
        done += size
    assert next(chunks(LINES[20:], done=20)) == LINES[20:48]  # 16 + 32


@pytest.mark.integration
def test_a_late_line_lets_the_others_go() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"\xef\xbb\xbfone\ntwo\nthr")
    with open(reading, "rb", buffering=0) as stream:  # noqa: PTH123
        pipe = Pipe(cast(BinaryIO, stream))
        found = chunks(decode_lines(cast(BinaryIO, pipe), "a pipe"), pipe.waits)
        assert next(found) == ["one", "two"]
        os.write(writing, b"ee\r\nfour")
        assert next(found) == ["three"]
        os.close(writing)
        assert list(found) == [["four"]]


def test_a_pipe_gives_the_lines_of_a_file(tmp_path: Path) -> None:
    data = b"a\n\nb" + b"c" * 100_000 + b"\nd"
    (tmp_path / "text").write_bytes(data)
    with (tmp_path / "text").open("rb") as stream:
        pipe = Pipe(stream)
        lines = []
        while line := pipe.readline(1000):
            lines.append(line)
    assert b"".join(lines) == data and len(lines) == 4


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    reading, writing = os.pipe()
    thread = threading.Thread(target=lambda: os.write(writing, b"one\n" + b"\0" * 3 * LONGEST))
    thread.start()
    with open(reading, "rb", buffering=0) as stream:  # noqa: PTH123
        pipe = Pipe(cast(BinaryIO, stream))
        with pytest.raises(DataError, match="line 2: "):  # while the other end is still open
            list(chunks(decode_lines(cast(BinaryIO, pipe), "a pipe"), pipe.waits))
        os.set_blocking(reading, False)
        while thread.is_alive():  # let the writer end
            with suppress(BlockingIOError):
                os.read(reading, 2**20)
    thread.join()
    os.close(writing)


def failing_after(count: int) -> Iterator[str]:
    yield from LINES[:count]
    raise KeyboardInterrupt


@pytest.mark.parametrize("interruptions", [[3], [16], [700], [100, 2500, 2600], [5000]])
def test_an_interrupted_file_goes_on_after_its_last_chunk(tmp_path: Path, interruptions: list[int]) -> None:
    out = tmp_path / "out"
    for count in interruptions:
        with pytest.raises(KeyboardInterrupt):
            Resumable(out, "settings").translate(failing_after(count), capitals, never)
    assert not out.exists()
    Resumable(out, "settings").translate(iter(LINES), capitals, never)
    assert out.read_text() == capitals(LINES, 1)
    assert list(tmp_path.iterdir()) == [out]


def test_no_line_is_translated_twice(tmp_path: Path) -> None:
    seen: list[str] = []

    def remember(lines: list[str], first: int) -> str:
        seen.extend(lines)
        return capitals(lines, first)

    with pytest.raises(KeyboardInterrupt):
        Resumable(tmp_path / "out", 1).translate(failing_after(1000), remember, never)
    done = len(seen)
    Resumable(tmp_path / "out", 1).translate(iter(LINES), remember, never)
    assert done == 496 and seen == LINES  # 16 + 32 + 64 + 128 + 256


def test_half_a_chunk_on_disk_is_written_anew(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Resumable(tmp_path / "out", 1).translate(failing_after(1000), capitals, never)
    with (tmp_path / ".out.part").open("ab") as stream:
        stream.write(b"half a li")
    Resumable(tmp_path / "out", 1).translate(iter(LINES), capitals, never)
    assert (tmp_path / "out").read_text() == capitals(LINES, 1)


def test_another_text_is_refused_and_other_settings_start_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        Resumable(out, "beam 5").translate(failing_after(1000), capitals, never)
    with pytest.raises(DataError, match=r"\.out\.part: expected the text whose translation was interrupted"):
        Resumable(out, "beam 5").translate(iter(LINES[1:]), capitals, never)
    with pytest.raises(DataError, match="expected the text"):
        Resumable(out, "beam 5").translate(iter(LINES[:10]), capitals, never)
    Resumable(out, "beam 1").translate(iter(LINES[1:]), capitals, never)
    assert out.read_text() == capitals(LINES[1:], 1)
    assert "from the start, as the model or its settings are others" in capsys.readouterr().err


def test_what_fails_in_its_first_chunk_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Resumable(tmp_path / "out", 1).translate(failing_after(3), capitals, never)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """A limit on the size of files acts as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(OSError, match=r"File too large: '.*/\.out\.part'"):
            Resumable(tmp_path / "out", 1).translate(iter(LINES), capitals, never)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_no_lines_make_an_empty_file(tmp_path: Path) -> None:
    Resumable(tmp_path / "out", 1).translate(iter([]), capitals, never)
    assert (tmp_path / "out").read_text() == "" and list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_an_interruption_says_how_to_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        Resumable(tmp_path / "out", 1).translate(failing_after(60), capitals, never)
    assert "stopped after 48 lines; run the same command again to go on" in capsys.readouterr().err
