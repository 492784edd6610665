"""Files are compared by content, and a large one is read only once."""

import os
from pathlib import Path

import pytest

from nmt.system import fingerprints
from nmt.system.files import sha256
from nmt.system.fingerprints import fingerprint


def test_content_decides_and_unchanged_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, known = [tmp_path / "a", tmp_path / "b"], tmp_path / "state" / "known.json"
    read: list[str] = []
    monkeypatch.setattr(fingerprints, "sha256", lambda file: (read.append(file.name), sha256(file))[1])
    for file in files:
        file.write_text(f"text of {file.name}\n")
    first = fingerprint(files, known)
    assert fingerprint(files, known) == first and read == ["a", "b"]
    files[0].touch()
    assert fingerprint(files, known) == first and read == ["a", "b", "a"]
    status = files[0].stat()
    files[0].write_text("text of c\n")
    os.utime(files[0], ns=(status.st_atime_ns, status.st_mtime_ns))  # same size and date
    other = fingerprint(files, known)
    assert other != first and fingerprint(files[::-1], known) != other
    files[0].unlink()
    assert fingerprint(files, known) not in (first, other)
    known.write_text("{")
    files[0].write_text("text of a\n")
    assert fingerprint(files, known) == first
