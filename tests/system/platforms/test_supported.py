"""Windows: what it lacks is hidden from a process, in which the commands for it must work and the others refuse."""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from commands import run
from ports import free_port

from nmt.cli.errors import explain
from nmt.serve import connections
from nmt.system import files
from nmt.system.platforms import supported

ROOT = Path(__file__).parents[3]
HIDE = """
import asyncio, os, platform, select, signal, sys
import multiprocessing.context
import click, filelock, numpy, sacrebleu, sacremoses, sentencepiece, torch, uvicorn

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for module, names in {
    os: ("sysconf", "fork", "getuid", "geteuid", "sched_getaffinity", "killpg", "register_at_fork"),
    signal: ("SIGALRM", "SIGUSR1", "SIGHUP", "SIGKILL", "setitimer", "ITIMER_REAL"),
    select: ("poll",),
    multiprocessing.context: ("ForkContext", "ForkProcess"),
}.items():
    for name in names:
        delattr(module, name)
platform.system = lambda: "Windows"
platform.libc_ver = lambda: ("", "")
sys.platform, asyncio.ProactorEventLoop = "win32", asyncio.SelectorEventLoop
import contextlib
from nmt.cli.main import main

for line in sys.argv[1].split("|"):
    with contextlib.suppress(SystemExit):
        main(line.split())
"""
"""A script that hides what Windows lacks, and then runs its commands one after the other."""


def on_windows(*commands: str, given: str = "", folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HIDE, "|".join(commands)], cwd=folder, input=given, capture_output=True, text=True
    )


@pytest.mark.integration
def test_models_are_used_on_windows_and_the_rest_is_refused_in_one_line(tmp_path: Path) -> None:
    model = ROOT / "demo"
    for name in ("a", "b"):
        (tmp_path / name).write_text("ein roter Ball\n", encoding="utf-8")
    done = on_windows(
        f"translate {model} --threads 1",
        "score a --reference b",
        f"export {model} half --format half",
        "card half",
        f"serve {tmp_path}/nothing",
        "train x y",
        "decode --beam 3",
        given="Two dogs play.\n",
        folder=tmp_path,
    )
    assert done.stdout.startswith("Deux chiens jouent.\n")
    assert "100" in done.stdout and "Traceback" not in done.stderr
    assert (tmp_path / "half" / "weights.safetensors").exists()
    assert "nothing" in done.stderr
    refused = [line for line in done.stderr.splitlines() if "Linux or macOS" in line]
    assert [line.split(" needs ")[0] for line in refused] == ["nmt: nmt train", "nmt: nmt decode"]
    assert all("translate, score, serve, export" in line for line in refused)


@pytest.mark.integration
def test_the_page_is_served_on_windows() -> None:
    port = free_port()
    command = [sys.executable, "-c", HIDE, f"serve {ROOT / 'demo'} --port {port} --threads 1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        try:
            for _ in range(200):
                with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                    assert b"<html" in answer.read()
                    break
                time.sleep(0.1)
            else:
                pytest.fail("no page")
        finally:
            server.terminate()


def test_a_module_that_windows_lacks_is_not_a_missing_package() -> None:
    message = explain(ModuleNotFoundError("No module named 'fcntl'", name="fcntl"))
    assert message == "this needs Linux or macOS: Python has no module fcntl on this system"


def test_a_crowd_of_connections_is_counted_without_posix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    assert connections.capacity() == connections.MOST


def test_no_folder_is_opened_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    real = files.os.open
    monkeypatch.setattr(files.os, "open", lambda path, *flags: opened.append(path) or real(path, *flags))
    files._flush(tmp_path)
    assert opened == [tmp_path]
    monkeypatch.setattr(files.os, "name", "nt")
    files._flush(tmp_path)
    assert opened == [tmp_path]


def test_text_files_end_their_lines_alike_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.linesep", "\r\n")
    files.write_text(tmp_path / "a", "x\ny\n")
    files.write_lines(tmp_path / "b", ["x", "y"])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == b"x\ny\n"


def test_apples_gpu_is_refused_with_what_to_use() -> None:
    code, output = run("translate", ROOT / "demo", "--device", "mps")
    assert code == 2 and "Apple's GPU is not supported; use cpu" in output


def test_linux_and_macos_refuse_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for system in ("Linux", "Darwin"):
        monkeypatch.setattr(supported.platform, "system", lambda system=system: system)
        assert supported.refusal("train") is None
