"""Write the locks envs/NAME.txt from pyproject.toml with uv; run it after every change of a dependency.

    python3 envs/compile.py            keep all versions that still fit
    python3 envs/compile.py --upgrade  move to the newest

Each lock pins all packages of one purpose with their hashes, for the systems of ``tool.uv.environments`` and the
Pythons of ``requires-python``. The locks agree with each other: ``dev`` is resolved first, and the others follow it.
PyTorch and its CUDA packages are not in the locks, because their build differs by machine: envs/install.py installs
them.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ENVS = Path(__file__).resolve().parent
PROJECT = ENVS.parent / "pyproject.toml"
IN_DEV = ("run", "ui", "export", "images", "sources", "filters")
"""Extras that the tests use, so ``dev`` contains them."""
APART = ("mtdata",)
"""Extras whose packages need other versions than ``dev`` has."""
UV = next((str(path) for path in [ENVS.parent / ".venv/bin/uv"] if path.exists()), "uv")
BY_MACHINE = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)==")


def purposes() -> dict[str, list[str]]:
    """Return the name of each lock and the options of uv for it, in the order of compiling."""
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    options = {"dev": [*(f"--extra={name}" for name in IN_DEV), "--group=dev"], "train": []}
    return options | {name: [f"--extra={name}"] for name in extras}


def compiled(options: list[str], constraints: list[Path], old: Path | None) -> str:
    """Return a lock that uv compiles; versions of the old one stay where they fit."""
    command = [
        UV, "pip", "compile", str(PROJECT), "--group=build", *options, "--universal", "--python-version=3.11",
        "--generate-hashes", "--no-annotate", "--no-header", "--quiet",
    ]  # fmt: skip
    for path in [*constraints, *([old] if old and old.exists() else [])]:
        command.append(f"--constraints={path}")
    return subprocess.run(command, cwd=PROJECT.parent, capture_output=True, text=True, check=True).stdout


def entries(lock: str) -> list[str]:
    """Return the packages of a lock, each with its hashes."""
    return re.split(r"\n(?=\S)", lock.strip())


def without_noise(lock: str) -> str:
    """Drop PyTorch with its CUDA packages, and the marker of lines that are for all our systems."""
    markers = [entry.split("\n")[0].partition(" ; ")[2].removesuffix(" \\") for entry in entries(lock)]
    everywhere = max(markers, key=markers.count)
    kept = [entry.replace(f" ; {everywhere}", "", 1) for entry in entries(lock) if not BY_MACHINE.match(entry)]
    return "\n".join(kept) + "\n"


def main() -> None:
    """Compile all locks."""
    upgrade = "--upgrade" in sys.argv[1:]
    for name, options in purposes().items():
        path, dev = ENVS / f"{name}.txt", ENVS / "dev.txt"
        lock = compiled(options, [] if name in ("dev", *APART) else [dev], None if upgrade else path)
        head = f"# {name}: written by envs/compile.py. {' '.join(options) or 'the dependencies alone'}\n"
        lock = without_noise(lock)
        path.write_text(head + lock)
        print(f"{path.relative_to(ENVS.parent)}: {len(entries(lock))} packages")


if __name__ == "__main__":
    try:
        main()
    except FileNotFoundError:  # uv itself
        sys.exit("envs/compile.py: this needs uv; pip install uv")
    except subprocess.CalledProcessError as error:
        sys.exit(f"envs/compile.py: uv found no versions that fit:\n{error.stderr}")
