"""Make an environment from the locks of this folder, on Linux or macOS. ``make run`` calls it; make is not needed.

    python3 envs/install.py                      the pipeline, into .venv
    python3 envs/install.py train --torch cpu    what a training machine needs, with PyTorch's build for the CPU
    python3 envs/install.py run images meteor    the pipeline and two extras
    python3 envs/install.py run --here           into the Python that runs this, such as conda's
    python3 envs/install.py run --download DIR   fetch the wheels for a machine of the same kind without a network
    python3 envs/install.py run --wheels DIR     install from such a folder

It uses the standard library only. The lines before the check of the version run on every Python 3.
"""

import sys

LOWEST, HIGHEST = (3, 11), (3, 14)
if not LOWEST <= sys.version_info[:2] <= HIGHEST:
    # Old Pythons have no f-strings.
    message = "envs/install.py: expected Python {}.{} to {}.{}, got {}.{} at {}; install one of them, and name it: {}"
    example = "make run PYTHON=python3.12, or python3.12 envs/install.py"
    sys.exit(message.format(*LOWEST, *HIGHEST, *sys.version_info[:2], sys.executable, example))

import argparse  # noqa: E402
import os  # noqa: E402
import platform  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
from importlib.util import find_spec  # noqa: E402
from pathlib import Path  # noqa: E402

ENVS = Path(__file__).resolve().parent
ROOT = ENVS.parent
sys.path.insert(0, str(ROOT))
from nmt.system.platforms import torch_build  # noqa: E402

MEGABYTES = {"train": 1000, "run": 1500, "dev": 2700}
"""Size on disk with PyTorch for the CPU, measured on Linux; an extra adds at most 300."""
CUDA_MEGABYTES = 5000
CONTAINS = {"dev": ("train", "run", "ui", "export", "images", "sources", "filters"), "run": ("train",)}
"""Locks whose packages another lock has too."""
PROBLEMS = {
    "No space left on device": "the disk is full: free {need:,} MB at {place} and some at {temp} (or set TMPDIR)",
    "DO NOT MATCH THE HASHES": (
        "a package is not the file that the lock names: the index or its cache has another; try another index, or: "
        "pip cache purge"
    ),
    r"Python\.h: No such file|command '\S*(?:gcc|cc|clang)\S*' failed|[Uu]nable to find.*compiler": (
        "a package has no wheel for this Python and no compiler builds it: use Python 3.11 to 3.13, or install a C "
        "compiler and Python's headers (Debian: apt install gcc python3-dev)"
    ),
    (
        "NewConnectionError|ConnectTimeout|Name or service not known|name resolution|Network is unreachable|"
        "ProxyError|SSLError|Read timed out|Could not fetch URL"
    ): (
        "the package index cannot be reached: check the network and the proxy (HTTPS_PROXY), or name a mirror "
        "(PIP_INDEX_URL; for PyTorch TORCH=pypi takes the same index). Without a network: docs/how-to/no-network.md"
    ),
    "No matching distribution found|not a supported wheel": (
        "a package has no file for this system and Python {python}; docs/how-to/no-make.md lists what is supported"
    ),
}
"""What pip writes when it fails, and what the user can do."""


def options() -> argparse.Namespace:
    """Read the command line."""
    names = sorted(path.stem for path in ENVS.glob("*.txt"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["run"], metavar="NAME", help=f"locks: {', '.join(names)}")
    parser.add_argument("--torch", default="auto", help="build of PyTorch: auto, cpu, cu126, cu130, pypi, none")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="the environment to make")
    parser.add_argument("--here", action="store_true", help="install into this Python's environment")
    parser.add_argument("--wheels", type=Path, help="install from this folder, without a network")
    parser.add_argument("--download", type=Path, help="only fetch the packages into this folder")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in names]
    if unknown:
        parser.error(f"expected names of locks ({', '.join(names)}), got {', '.join(unknown)}")
    if chosen.wheels and not chosen.wheels.is_dir():
        parser.error(f"--wheels {chosen.wheels}: no such folder; make it on a machine with a network: --download")
    return chosen


def unsupported() -> str | None:
    """Return why the locks have nothing for this system, or None."""
    system, machine = platform.system(), platform.machine().lower()
    if system == "Windows":
        return (
            "the locks are for Linux and macOS; on Windows, `pip install .` gives nmt translate, score, serve, export"
        )
    if (system, machine) not in {("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64")}:
        return f"PyTorch {torch_build.VERSION} has no wheels for {system} on {machine}"
    library, version = platform.libc_ver()
    if system == "Linux" and (library != "glibc" or [int(part) for part in version.split(".")[:2]] < [2, 28]):
        return (
            f"PyTorch {torch_build.VERSION} needs glibc 2.28 or newer, got {library or 'another C library'} {version}"
        )
    return None


def space(names: list[str], build: str, place: Path) -> str | None:
    """Return a message if the disk has too little space for a new environment, or None."""
    need = needed(names, build)
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free // 10**6
    return f"{place}: this needs {need:,} MB of free disk, got {free:,} MB" if free < need else None


def needed(names: list[str], build: str) -> int:
    """Return the size of an environment in MB."""
    size = max((MEGABYTES.get(name, 900) for name in names), default=900)
    has_cuda = build.startswith(("cu", "rocm")) or (build == "pypi" and platform.system() == "Linux")
    return size + 300 * sum(name not in MEGABYTES for name in names) + CUDA_MEGABYTES * has_cuda


def announcement(names: list[str], build: str, place: Path) -> str:
    """Return what a new environment takes: pip prints nothing for minutes."""
    size = f"{needed(names, build):,} MB on disk"
    return f"{place}: {', '.join(names)}, {size}; takes one to five minutes, more on a slow network, mostly in silence"


def make_venv(folder: Path) -> Path:
    """Make a virtual environment if it is missing, and return its Python."""
    python = folder / "bin" / "python"
    if python.exists() and not subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode:
        return python
    if find_spec("venv") is None or find_spec("ensurepip") is None:
        name = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        sys.exit(f"envs/install.py: {sys.executable} lacks the modules venv and ensurepip (Debian: apt install {name})")
    print(f"making {folder}", flush=True)
    done = subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"envs/install.py: {folder}: no environment could be made: {(done.stdout + done.stderr).strip()}")
    return python


class Pip:
    """Runs pip, and ends with one message if it fails."""

    def __init__(self, python: Path, need: int, place: Path) -> None:
        self.python, self.need, self.place = python, need, place

    def __call__(self, *arguments: object) -> None:
        """Run pip with these arguments."""
        command = [str(self.python), "-m", "pip", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            end = "\n".join(done.stdout.strip().splitlines()[-12:])
            problem = next(
                (text for pattern, text in PROBLEMS.items() if re.search(pattern, done.stdout)), "pip failed"
            )
            values = {"need": self.need, "place": self.place, "temp": tempfile.gettempdir()}
            problem = problem.format(**values, python=platform.python_version())
            sys.exit(f"{end}\n\nenvs/install.py: {problem}\nThe command was: {' '.join(command)}")


def setuptools_of(lock: Path) -> str:
    """Return the lock's entry for setuptools: it builds the few packages that have no wheel, and this project."""
    match = re.search(r"^setuptools==(?:.*\\\n)*.*\n", lock.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise ValueError(f"{lock}: no setuptools")
    return match[0]


def locks(names: list[str]) -> list[Path]:
    """Return the lock files of these names."""
    return [ENVS / f"{name}.txt" for name in names]


def download(pip: Pip, names: list[str], build: torch_build.Build, folder: Path) -> None:
    """Fetch the packages of the locks, and PyTorch with its CUDA packages."""
    for lock in locks(names):
        pip("download", "--quiet", "--no-deps", "--dest", folder.resolve(), "-r", lock)
    if build.name != "none":
        alone = ["--no-deps"] if build.name == "cpu" else []
        pip("download", "--quiet", *alone, "--dest", folder.resolve(), *build.pip_arguments())
    print(f"{folder}: complete for Python {platform.python_version()} on {platform.system()} {platform.machine()}")


def install(pip: Pip, names: list[str], build: torch_build.Build, wheels: Path | None, prefix: Path) -> None:
    """Install the locks, PyTorch and this project, in that order."""
    source = ["--no-index", "--find-links", wheels.resolve()] if wheels else []
    quiet = ("install", "--quiet", "--no-compile", "--disable-pip-version-check")
    with tempfile.TemporaryDirectory() as scratch:
        builder = Path(scratch, "setuptools.txt")
        builder.write_text(setuptools_of(locks(names or ["train"])[0]), encoding="utf-8")
        pip(*quiet, *source, "--no-deps", "-r", builder)
    for lock in locks(names):
        print(f"installing {lock.relative_to(ROOT)}", flush=True)
        pip(*quiet, *source, "--no-deps", "--no-build-isolation", "-r", lock)
    previous = torch_build.recorded(prefix)
    if build.name != "none":
        if previous and previous.name != build.name:
            pip("uninstall", "--quiet", "--yes", "torch")
        print(f"installing PyTorch {torch_build.VERSION}, build {build.name}: {build.why}", flush=True)
        requirement, *index = build.pip_arguments()
        pip(*quiet, requirement, *(source or [*index, "--retries", "2"]))
    torch_build.record(build, prefix)
    pip(*quiet, *source, "--no-deps", "--no-build-isolation", "-e", ROOT)


def compile_packages(python: Path) -> None:
    """Compile this project and all packages but their tests, on all cores; pip would use one.

    Otherwise Python compiles a module when it is first imported. Where it may not write, as in a container or with
    PYTHONDONTWRITEBYTECODE, each process would compile PyTorch again, which takes two seconds.
    """
    print("compiling the packages to bytecode", flush=True)
    find = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(find, check=True, capture_output=True, text=True).stdout.strip()
    options = ["-qq", "-j", "0", "-x", "/tests?/"]
    # Some packages have templates that are no Python. They stay as they are, and compileall's exit code says so.
    subprocess.run([python, "-m", "compileall", *options, packages, ROOT / "nmt"], capture_output=True)


def main() -> None:
    """Make the environment, and mark it as complete for make."""
    chosen = options()
    try:
        build = torch_build.detect(chosen.torch)
    except ValueError as error:
        sys.exit(f"envs/install.py: {error}")
    place = chosen.download or (Path(sys.prefix) if chosen.here else chosen.venv)
    fresh = not (place / torch_build.RECORD).exists()
    problem = unsupported() or (space(chosen.names, build.name, place) if fresh else None)
    if problem:
        sys.exit(f"envs/install.py: {problem}")
    if fresh:
        print(announcement(chosen.names, build.name, place), flush=True)
    os.environ.pop("PYTHONPATH", None)  # packages of another environment would count as installed
    python = Path(sys.executable) if chosen.here or chosen.download else make_venv(place)
    pip = Pip(python, needed(chosen.names, build.name), place)
    if chosen.download:
        download(pip, chosen.names, build, chosen.download)
        return
    install(pip, chosen.names, build, chosen.wheels, place)
    compile_packages(python)
    for stamp in place.glob(".torch-*"):
        stamp.unlink()
    contained = [inner for name in chosen.names for inner in CONTAINS.get(name, ())]
    for name in (*chosen.names, *contained, f"torch-{chosen.torch}"):
        (place / f".{name}").touch()
    print(f"{place} is ready" + ("" if chosen.here else f'; activate it with: source "{place}/bin/activate"'))


if __name__ == "__main__":
    main()
