"""Files are whole or absent, and text is UTF-8 or refused with its place."""

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nmt.config.data import Cleaning
from nmt.system.errors import DataError
from nmt.system.files import (
    atomic_directory,
    atomic_path,
    build_stored,
    check_not_input,
    check_not_stage_output,
    read_json,
    write_json,
)
from nmt.system.lines import LONGEST, decode_lines, read_lines


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_path(path) as part:
        part.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old" and names(tmp_path) == ["a.txt"]


def test_a_failed_directory_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "d"
    with atomic_directory(target) as part:
        (part / "x").write_text("old")
    with pytest.raises(RuntimeError), atomic_directory(target) as part:
        (part / "x").write_text("half")
        raise RuntimeError
    assert (target / "x").read_text() == "old" and names(tmp_path) == ["d"]
    with atomic_directory(target) as part:
        (part / "y").write_text("new")
    assert names(target) == ["y"] and names(tmp_path) == ["d"]


def test_what_is_not_ours_to_replace_stays(tmp_path: Path) -> None:
    pipe, folder, text = tmp_path / "pipe", tmp_path / "mine", tmp_path / "mine" / "thesis.txt"
    os.mkfifo(pipe)
    folder.mkdir()
    text.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to("mine/thesis.txt")
    for path, got in ((pipe, "a device or pipe"), (link, "a link to mine/thesis.txt"), (folder, "a folder")):
        with pytest.raises(DataError, match=f"{path.name}: expected a file to write, got {got}"), atomic_path(path):
            pass
    with (
        pytest.raises(DataError, match="got one with thesis"),
        atomic_directory(folder, "meta.json"),
    ):
        pass
    with pytest.raises(DataError, match="expected a folder to write, got a file"), atomic_directory(text):
        pass
    with pytest.raises(DataError, match="expected a folder to write, got a file"):
        check_not_stage_output(text)
    check_not_stage_output(folder)
    check_not_stage_output(tmp_path / "new")
    with pytest.raises(DataError, match=r"thesis\.txt: expected an output file, got the input .*link itself"):
        check_not_input(text, [pipe, link])
    assert text.read_text() == "mine" and pipe.is_fifo() and link.is_symlink()
    (folder / "meta.json").write_text("{}")
    with pytest.raises(DataError, match=r"mine: expected a folder for these files only, got .* with meta\.json"):
        check_not_stage_output(folder)
    with atomic_directory(folder, "meta.json") as part:
        (part / "meta.json").write_text("new")
    assert names(folder) == ["meta.json"]


def test_a_full_disk_leaves_nothing_under_the_final_name(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(OSError, match=r"No space left on device: '.*/a'"), atomic_path(tmp_path / "a") as part:
        part.unlink()
        part.symlink_to("/dev/full")
        part.write_text("x" * 10_000)
    assert names(tmp_path) == []


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("one\r\ntwo\u2028still\x0btwo\nlast".encode())
    assert list(read_lines(path)) == ["one", "two\u2028still\x0btwo", "last"]


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufeffone\n\ufefftwo\n", encoding="utf-8")
    assert list(read_lines(tmp_path / "a.txt")) == ["one", "\ufefftwo"]


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (gzip.compress(b"one\n", mtime=0), "it is compressed: unpack it with gunzip"),
        (b"PK\3\4one\nt\xffwo\n", "it is a zip archive: unpack it with unzip"),
        (b"BZh91AY\n\xff", "it is compressed: unpack it with bunzip2"),
        ("one\n".encode("utf-16"), "iconv -f utf-16 -t utf-8"),
        ("caf\xe9\n".encode("latin1"), "iconv -f latin1 -t utf-8"),
    ],
)
def test_text_that_is_not_utf_8_is_told_how_to_become_it(tmp_path: Path, content: bytes, remedy: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(DataError, match=remedy):
        list(read_lines(tmp_path / "a.txt"))


def test_a_file_of_utf_8_with_one_bad_line_is_not_converted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("naïve\nplain\n".encode() + b"caf\xe9\n")
    with pytest.raises(DataError, match=r"line 3: .* do not convert the file: mend this line, or drop it") as raised:
        list(read_lines(tmp_path / "a.txt"))
    assert "iconv" not in str(raised.value)


class Endless(io.RawIOBase):
    """One line without an end, as an unpacker would give it; counts the bytes that were asked for."""

    read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.read_bytes += len(buffer)
        buffer[:] = b"a" * len(buffer)
        return len(buffer)


def test_a_line_without_an_end_is_refused_in_little_memory(tmp_path: Path) -> None:
    stream = Endless()
    with pytest.raises(DataError, match=r"^x\.gz, line 1: expected one sentence of at most 1,048,576 bytes"):
        list(decode_lines(io.BufferedReader(stream), "x.gz"))
    assert stream.read_bytes < 2 * LONGEST
    (tmp_path / "a.txt").write_bytes(b"a" * (LONGEST - 1) + b"\n" + b"b" * LONGEST + b"\n")
    lines = read_lines(tmp_path / "a.txt")
    assert len(next(lines)) == LONGEST - 1  # the longest that is allowed
    with pytest.raises(DataError, match=r"a\.txt, line 2"):
        next(lines)


def test_json_round_trip_and_its_faults(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"ü": [1]})
    assert read_json(tmp_path / "a.json") == {"ü": [1]}
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(DataError, match=r"a\.json: expected JSON"):
        read_json(tmp_path / "a.json")
    with pytest.raises(DataError, match="no such file"):
        read_json(tmp_path / "b.json")
    (tmp_path / "a.json").write_text('{"a": {"b": 1}}')
    with pytest.raises(DataError, match=r"a\.json: expected the key c, got none"):
        read_json(tmp_path / "a.json")["a"]["c"]
    with pytest.raises(DataError, match=r"a\.json: expected a list, got \{'a'"):
        read_json(tmp_path / "a.json", list)
    (tmp_path / "a.json").write_text("[1]")
    with pytest.raises(DataError, match=r"a\.json: expected keys and their values, got \[1\]"):
        read_json(tmp_path / "a.json")
    with pytest.raises(DataError, match="expected a file, got a folder"):
        list(read_lines(tmp_path))
    with pytest.raises(DataError, match="no such file"):
        list(read_lines(tmp_path / "b.txt"))


def test_what_does_not_fit_this_version_is_told_with_its_file(tmp_path: Path) -> None:
    assert build_stored(Cleaning, {"lowercase": False}, tmp_path) == Cleaning(lowercase=False)
    with pytest.raises(DataError, match=r"a\.json: does not fit this version of nmt \(.*lowercas"):
        build_stored(Cleaning, {"lowercas": False}, tmp_path / "a.json")


@pytest.mark.integration
def test_files_are_as_private_as_the_user_says(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from nmt.system.files import write_json; "
    code += "write_json(Path(sys.argv[1]), {})"
    for umask, mode in ((0o077, 0o600), (0o002, 0o664)):
        subprocess.run([sys.executable, "-c", code, tmp_path / "a.json"], check=True, umask=umask)
        assert (tmp_path / "a.json").stat().st_mode & 0o777 == mode


KILLED = """
import os, sys
import subprocess
import sys
from pathlib import Path
from typing import Any
from nmt.system.files import atomic_directory, atomic_path
with atomic_path(Path(sys.argv[1], "file")), atomic_directory(Path(sys.argv[1], "folder")) as part:
    (part / "x").write_text("half")
    os.kill(os.getpid(), 9)
"""


def test_a_file_in_the_place_of_a_folder_holds_no_json(tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    with pytest.raises(DataError, match=r"text/corpus\.json: no such file"):
        read_json(tmp_path / "text" / "corpus.json")


def test_what_was_about_to_be_replaced_is_put_back_or_deleted(tmp_path: Path) -> None:
    (tmp_path / ".folder.x.old").mkdir()
    (tmp_path / ".folder.x.old" / "kept").write_text("whole")
    with pytest.raises(KeyError), atomic_directory(tmp_path / "folder"):
        raise KeyError
    assert (tmp_path / "folder" / "kept").read_text() == "whole" and names(tmp_path) == ["folder"]
    (tmp_path / ".folder.y.old").mkdir()
    with atomic_directory(tmp_path / "folder"):
        pass
    assert names(tmp_path) == ["folder"] and names(tmp_path / "folder") == []


@pytest.mark.integration
def test_what_a_killed_process_left_is_deleted_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert len(names(tmp_path)) == 2
    with atomic_path(tmp_path / "file") as part, atomic_directory(tmp_path / "folder") as folder:
        assert set(names(tmp_path)) == {part.name, folder.name}
        with atomic_path(tmp_path / "file") as other:
            assert set(names(tmp_path)) == {part.name, folder.name, other.name}
    assert set(names(tmp_path)) == {"file", "folder"}
