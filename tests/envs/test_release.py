"""Wheel and source archive: whole, with their commit, usable from another project; version, tag and citation agree."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from nmt.system.platforms import version

ROOT = Path(__file__).parents[2]
COMMIT = "nmt/system/platforms/commit.txt"


def _project_version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def test_changelog_and_citation_name_the_version() -> None:
    number = _project_version()
    headings = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == number
    assert f"\nversion: {number}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_a_tagged_commit_has_the_version_of_its_tag() -> None:
    tags = [tag for tag in _git("tag", "--points-at", "HEAD").splitlines() if re.fullmatch(r"v\d+\.\d+\.\d+", tag)]
    assert tags in ([], [f"v{_project_version()}"])


def test_the_version_is_shown_with_its_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert version.long_version() == f"nmt {_project_version()}, commit {version.commit()}"
    assert str(version.commit()).startswith(_git("rev-parse", "HEAD")[:12])
    installed = tmp_path / ".venv" / "lib" / "nmt" / "system" / "platforms" / "version.py"
    installed.parent.mkdir(parents=True)
    (tmp_path / ".git").mkdir()  # the checkout of another project
    monkeypatch.setattr(version, "__file__", str(installed))
    monkeypatch.setattr(version, "COMMIT", installed.with_name("commit.txt"))
    assert version.commit() is None and version.long_version().endswith("commit unknown")
    version.COMMIT.write_text("0123456789ab\n")
    assert version.commit() == "0123456789ab"


USE = """
import sys
from pathlib import Path
import nmt
from nmt.translation.translator import Translator

assert Path(nmt.__file__).is_relative_to(sys.prefix), nmt.__file__
print(Translator.load(sys.argv[1]).translate(["Two dogs play."])[0])
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_wheel_and_source_archive_work_in_another_project(tmp_path: Path) -> None:
    """Both are built from a clone. The new environment sees this one's packages, but not this checkout."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    build = "from setuptools import build_meta as b; b.build_wheel('dist'); b.build_sdist('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=clone, check=True, capture_output=True)
    (wheel,), (archive,) = (clone / "dist").glob("*.whl"), (clone / "dist").glob("*.tar.gz")
    tracked = set(_git("ls-files", "nmt").splitlines())
    with zipfile.ZipFile(wheel) as packed:
        files = {name for name in packed.namelist() if ".dist-info/" not in name}
    assert files == tracked | {COMMIT} and wheel.stat().st_size < 2_000_000  # without the demo model
    with tarfile.open(archive) as packed_archive:
        names = {name.partition("/")[2] for name in packed_archive.getnames()}
    assert names >= tracked | {COMMIT, "pyproject.toml", "setup.py", "LICENSE", "README.md"}

    project = tmp_path / "another project"
    project.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for source in (wheel, archive):
        venv = project / f"venv-{source.suffix}"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        python = venv / "bin" / "python"
        (site,) = (venv / "lib").glob("python*/site-packages")
        (site / "packages.pth").write_text(sysconfig.get_path("purelib"))
        # Python 3.11 brings an old setuptools, which would hide this environment's.
        subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools"], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", source]
        subprocess.run(install, check=True, env=environment, cwd=project)

        def prints(*command: str | Path) -> str:
            done = subprocess.run(command, check=True, env=environment, cwd=project, capture_output=True, text=True)
            return done.stdout.strip()

        assert prints(venv / "bin" / "nmt", "--version").startswith(f"nmt {_project_version()}, commit ")
        assert prints(venv / "bin" / "nmt", "--version").endswith(_git("rev-parse", "HEAD")[:12])
        assert prints(python, "-c", USE, ROOT / "demo") == "Deux chiens jouent."
        raw = project / f"raw-{source.suffix}"
        prints(venv / "bin" / "nmt", "download", "copy", "src-tgt", raw)  # reads the catalogue
        assert (raw / "corpus.json").exists()
