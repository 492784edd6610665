"""Benchmarks of this project and of other toolkits; `python -m benchmarks` runs them."""

import sys
from types import TracebackType

from nmt.cli.errors import explain


def say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error that the user can fix, such as a corpus that is not there, as one message."""
    if isinstance(error, Exception) and (message := explain(error)):
        print(f"benchmarks: {message}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = say
