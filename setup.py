"""Writes the commit into wheels and source archives; everything else is in pyproject.toml."""

import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
NAME = Path("nmt", "system", "platforms", "commit.txt")


def write_commit(folder: str) -> None:
    """Write the commit of this checkout into a folder that has the package; a source archive has it already."""
    if not (ROOT / ".git").exists():
        return
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=+changes", "--exclude=*"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return
    (Path(folder) / NAME).write_text(commit, encoding="utf-8")


class BuildWithCommit(build_py):
    """Builds the package with its commit, unless the checkout itself is installed."""

    def run(self) -> None:
        """Build."""
        super().run()
        if not self.editable_mode:
            write_commit(self.build_lib)


class ArchiveWithCommit(sdist):
    """Makes a source archive that knows its commit."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy the files, and add the commit."""
        super().make_release_tree(base_dir, files)
        write_commit(base_dir)


setup(cmdclass={"build_py": BuildWithCommit, "sdist": ArchiveWithCommit})
