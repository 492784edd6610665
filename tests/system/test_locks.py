"""One process at a time writes an output, and another one is told who does."""

import ast
import importlib.util
import os
import platform
import signal
import sys
from pathlib import Path

import pytest
from commands import run

from nmt.system.errors import DataError
from nmt.system.locks import exclusive, holder, try_lock

ROOT = Path(__file__).parent.parent.parent
HERE = f"process {os.getpid()} on {platform.node()}"
NOT_ON_WINDOWS = {"fcntl", "grp", "pwd", "resource", "termios"}


def test_a_second_holder_is_refused_and_told_the_first(tmp_path: Path) -> None:
    lock = tmp_path / "new" / ".out.lock"
    with exclusive(lock, tmp_path / "out", keep=False):
        assert try_lock(lock) is None and holder(lock) == HERE
        with pytest.raises(DataError, match=f"out: {HERE} is at work here; wait"), exclusive(lock, tmp_path / "out"):
            pass
    assert not lock.exists()
    with exclusive(lock, tmp_path / "out"):
        pass
    assert lock.exists()


def test_a_holder_that_has_not_written_its_name_is_another_process(tmp_path: Path) -> None:
    for text in ("", "{}", "[]", "{"):
        (tmp_path / "lock").write_text(text)
        assert holder(tmp_path / "lock") == "another process"
    assert holder(tmp_path / "none") == "another process"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="this system has no /proc")
def test_where_no_file_can_be_made_nobody_is_at_work() -> None:
    with pytest.raises(OSError, match=r"No such file or directory: '/proc/\.out\.lock'"):
        try_lock(Path("/proc/.out.lock"))


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="lock"):
        try_lock(tmp_path / "lock")
    assert not (tmp_path / "victim").exists()


def test_two_stages_do_not_write_one_output_but_shards_do(tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    with exclusive(tmp_path / ".corpus.lock", out):
        code, output = run("download", "copy", "src-tgt", out, "--limit", "20")
    assert code == 1 and f"{out}: {HERE} is at work here" in output and not out.exists()
    assert run("download", "copy", "src-tgt", out, "--limit", "20")[0] == 0
    with exclusive(tmp_path / ".clean.1-of-2.lock", out):  # the first of two shards
        second = ["clean", out, tmp_path / "clean", "--languages", "src-tgt", "--shard"]
        assert run(*second, "2/2") == (0, "") and run(*second, "1/2")[0] == 1
    assert {path.name for path in tmp_path.iterdir()} == {"corpus", "clean.chunks", ".clean.1-of-2.lock"}


@pytest.mark.parametrize("path", sorted((ROOT / "nmt" / "system").glob("[a-z]*.py")), ids=lambda path: path.stem)
def test_the_system_modules_can_be_imported_without_posix(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NOT_ON_WINDOWS:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delattr(signal, "SIGUSR1")
    for name in ("ForkContext", "ForkProcess"):
        monkeypatch.delattr(f"multiprocessing.context.{name}")
    spec = importlib.util.spec_from_file_location(f"copy_of_{path.stem}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)


def test_no_module_imports_what_only_posix_has() -> None:
    found = {
        f"{path.name}: {name.name}"
        for path in (ROOT / "nmt").rglob("*.py")
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Import)
        for name in statement.names
        if name.name in NOT_ON_WINDOWS
    }
    assert found == set()
