"""`envs/install.py`: what it runs, and what it says when something is missing."""

import ast
import subprocess
import sys
import tomllib
import venv
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from nmt.system.platforms import torch_build
from nmt.system.platforms.torch_build import Build

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "envs" / "install.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = spec_from_file_location("envs_install", SCRIPT)
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Recorder:
    """Stands for pip, and keeps what it is asked to do."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, *arguments: object) -> None:
        self.calls.append([str(argument) for argument in arguments])

    def words(self) -> list[str]:
        return [" ".join(call) for call in self.calls]


def test_an_old_python_reads_the_script_and_gets_the_message() -> None:
    """Python 3.6 must parse the whole file before it can run its first lines."""
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 6))
    assert [type(node).__name__ for node in tree.body[1:4]] == ["Import", "Assign", "If"]


def test_the_bounds_are_those_of_the_project(script: Any) -> None:
    bounds = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    (major, low), (_, high) = script.LOWEST, script.HIGHEST
    assert bounds == f">={major}.{low},<{major}.{high + 1}"


def test_locks_then_pytorch_from_its_index_then_the_project(script: Any, tmp_path: Path) -> None:
    pip = Recorder()
    script.install(pip, ["run", "meteor"], Build("cpu", "no GPU"), None, tmp_path)
    builder, run, meteor, torch, project = pip.words()
    assert builder.endswith("setuptools.txt") and "--no-deps" in builder
    assert run.endswith("--no-deps --no-build-isolation -r " + str(ROOT / "envs/run.txt"))
    assert meteor.endswith(str(ROOT / "envs/meteor.txt"))
    assert "torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu" in torch and "--no-deps" not in torch
    assert project.endswith(f"--no-deps --no-build-isolation -e {ROOT}")
    assert torch_build.recorded(tmp_path) == Build("cpu", "no GPU")


def test_another_build_replaces_the_first(script: Any, tmp_path: Path) -> None:
    """pip alone keeps 2.13.0+cpu, because it is a 2.13.0."""
    torch_build.record(Build("cpu", "no GPU"), tmp_path)
    pip = Recorder()
    script.install(pip, ["train"], Build("cu126", "asked for"), None, tmp_path)
    assert "uninstall --quiet --yes torch" in pip.words()
    pip = Recorder()
    script.install(pip, ["train"], Build("cu126", "asked for"), None, tmp_path)
    assert not [call for call in pip.words() if "uninstall" in call]


def test_a_folder_of_wheels_needs_no_index(script: Any, tmp_path: Path) -> None:
    pip = Recorder()
    script.install(pip, ["train"], Build("cu130", ""), tmp_path, tmp_path)
    assert all(f"--no-index --find-links {tmp_path}" in call for call in pip.words())
    assert not [call for call in pip.words() if "--index-url" in call]
    pip = Recorder()
    script.download(pip, ["train"], Build("cpu", ""), tmp_path)
    assert all(call.startswith(f"download --quiet --no-deps --dest {tmp_path}") for call in pip.words())


@pytest.mark.parametrize(
    ("printed", "message"),
    [
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            "free 1,200 MB at /x",
        ),
        ("error: command 'gcc' failed: No such file or directory", "apt install gcc python3-dev"),
        ("immutables/_map.c:1:10: fatal error: Python.h: No such file or directory", "apt install gcc python3-dev"),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError('<x>: Failed to establish a "
            "new connection: [Errno -2] Name or service not known')'\nERROR: No matching distribution found for torch",
            "the package index cannot be reached",
        ),
        ("ERROR: No matching distribution found for numpy==2.4.6", "no file for this system and Python 3."),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "pip cache purge"),
        ("ERROR: something new", "pip failed"),
    ],
)
def test_a_failure_of_pip_says_what_to_do(
    script: Any, printed: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = subprocess.CompletedProcess([], 1, printed, None)
    monkeypatch.setattr(script.subprocess, "run", lambda *_, **__: result)
    with pytest.raises(SystemExit) as stopped:
        script.Pip(Path("python"), 1200, Path("/x"))("install", "y")
    assert message in str(stopped.value) and printed.splitlines()[-1] in str(stopped.value)
    assert "The command was: python -m pip install y" in str(stopped.value)


@pytest.mark.integration
def test_packages_are_compiled_but_not_their_tests(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "env")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    [packages] = (tmp_path / "env" / "lib").glob("python*/site-packages")
    for name in ("some/module.py", "some/tests/test_module.py", "zz/module.py"):
        file = packages / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("one = 1\n")
    (packages / "some" / "template.py").write_text("one = {{ one }} two\n")
    script.compile_packages(tmp_path / "env" / "bin" / "python")
    compiled = {str(file.relative_to(packages)).split(".")[0] for file in packages.rglob("*.pyc")}
    assert compiled == {"some/__pycache__/module", "zz/__pycache__/module"}


@pytest.mark.parametrize(
    ("system", "machine", "library", "message"),
    [
        ("Linux", "x86_64", ("glibc", "2.36"), None),
        ("Linux", "aarch64", ("glibc", "2.28"), None),
        ("Darwin", "arm64", ("", ""), None),
        ("Darwin", "x86_64", ("", ""), "no wheels for Darwin on x86_64"),
        ("Linux", "ppc64le", ("glibc", "2.36"), "no wheels for Linux on ppc64le"),
        ("Linux", "x86_64", ("glibc", "2.17"), "needs glibc 2.28 or newer, got glibc 2.17"),
        ("Linux", "x86_64", ("", ""), "got another C library"),
        ("Windows", "AMD64", ("", ""), "nmt translate, score, serve, export"),
    ],
)
def test_a_system_without_wheels_is_named_before_anything_is_made(
    script: Any,
    system: str,
    machine: str,
    library: tuple[str, str],
    message: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(script.platform, "system", lambda: system)
    monkeypatch.setattr(script.platform, "machine", lambda: machine)
    monkeypatch.setattr(script.platform, "libc_ver", lambda: library)
    got = script.unsupported()
    assert got is None if message is None else message in got


def test_too_little_disk_is_said_with_what_is_needed(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = script.shutil.disk_usage(tmp_path)._replace(free=3 * 10**9)
    monkeypatch.setattr(script.shutil, "disk_usage", lambda _: usage)
    assert script.space(["run"], "cpu", tmp_path / "new" / ".venv") is None
    assert "needs 6,500 MB of free disk, got 3,000 MB" in script.space(["run"], "cu130", tmp_path / "new")
    monkeypatch.setattr(script.platform, "system", lambda: "Linux")  # its build in the registry is for CUDA
    assert "needs 6,500 MB" in script.space(["run"], "pypi", tmp_path / "new")
    monkeypatch.setattr(script.platform, "system", lambda: "Darwin")
    assert script.space(["run"], "pypi", tmp_path / "new") is None


def test_size_and_time_are_said_before_minutes_of_silence(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["install.py", "--torch", "cpu", "--venv", str(tmp_path / "new")])
    monkeypatch.setattr(script, "make_venv", lambda _: sys.exit("begins"))
    with pytest.raises(SystemExit, match="begins"):
        script.main()
    assert f"{tmp_path}/new: run, 1,500 MB on disk; takes one to five minutes" in capsys.readouterr().out


@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
def test_a_python_without_venv_names_debians_package(
    script: Any, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "find_spec", lambda name: None if name == missing else object())
    with pytest.raises(SystemExit, match=rf"apt install python{sys.version_info[0]}\.{sys.version_info[1]}-venv"):
        script.make_venv(tmp_path / ".venv")
    assert not (tmp_path / ".venv").exists()


@pytest.mark.integration
@pytest.mark.parametrize("place", ["copied", "from the folder", "lost"])
def test_condas_script_finds_the_project_from_any_folder(place: str, tmp_path: Path) -> None:
    """Snakemake copies the script below .snakemake/conda, or to a shared prefix, and runs it in the working folder."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    project, elsewhere = tmp_path / "a project", tmp_path / "prefix"
    for folder in (project / "envs", project / "results", elsewhere):
        folder.mkdir(parents=True)
    (project / "envs" / "install.py").touch()
    original = ROOT / "envs" / "environment.post-deploy.sh"
    script = (project / "envs" if place == "from the folder" else elsewhere) / "1234_.post-deploy.sh"
    script.write_bytes(original.read_bytes())
    folder = {"copied": project / "results", "from the folder": tmp_path, "lost": tmp_path}[place]
    environment = {"PATH": f"{python.parent}:/usr/bin:/bin"}
    done = subprocess.run(["bash", script], cwd=folder, env=environment, capture_output=True, text=True)
    if place == "lost":
        assert done.returncode == 1 and "run it from the project's folder" in done.stderr
    else:
        assert done.stdout == f"{project}/envs/install.py run --here --torch auto\n", done.stderr
