"""What works on which system: everything on Linux and macOS, and the use of models on Windows too."""

import platform
import sys

POSIX = frozenset({"fcntl", "grp", "pwd", "resource", "termios"})
"""Modules of Python that Windows does not have."""
ON_WINDOWS = ("translate", "score", "serve", "export", "card", "doctor")
"""The commands that need nothing that Windows lacks."""


def is_windows() -> bool:
    """Return whether this is Windows."""
    return platform.system() == "Windows"


def refusal(command: str) -> str | None:
    """Return why a command does not work on this system, or None."""
    if not is_windows() or command in ON_WINDOWS:
        return None
    commands = ", ".join(ON_WINDOWS[:-1])
    return f"nmt {command} needs Linux or macOS; on Windows use WSL 2, or nmt {commands} and {ON_WINDOWS[-1]}"


def use_utf8() -> None:
    """Read and write UTF-8 with line feeds on the standard streams of Windows, as everywhere else."""
    if is_windows():
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(encoding="utf-8", newline="\n")
