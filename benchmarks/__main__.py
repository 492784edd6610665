"""Run all benchmarks in turn and write the output of each into ``benchmarks/archive/NAME.md``.

    python -m benchmarks [--threads 2] [--rounds 3] [NAME...]

Each processor and code version has a section. It is written only if the benchmark succeeds. ``benchmarks/RESULTS.md``
is the summary, written by hand.
"""

import subprocess
import sys

import click
import torch

from benchmarks.measure import ARCHIVE, section
from nmt.system import machine

#: For each benchmark: the title of its document, and which of the common options it has.
ALL = {
    "training": ("Training beside other toolkits", ("threads", "rounds")),
    "decoding": ("Translating beside other toolkits", ("threads", "rounds")),
    "equality": ("What the optimisations change", ("threads",)),
    "loss": ("Our loss beside PyTorch's", ("rounds",)),
    "growth": ("How the cost of training grows", ("threads",)),
    "architectures": ("Options of the Transformer", ()),
    "stages": ("Stages, start-up, a whole run", ("threads",)),
    "serve": ("The server under load", ("threads",)),
    "filters": ("Filters of training pairs", ()),
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(ALL)))
@click.option("--threads", default=2)
@click.option("--rounds", default=3)
def main(names: tuple[str, ...], threads: int, rounds: int) -> None:
    """Run the named benchmarks, or all of them, and write their output into the archive."""
    place = f"{machine.hardware(torch.device('cpu'))['processor']}, code {machine.code_version()}"
    given = {"threads": threads, "rounds": rounds}
    for name in names or ALL:
        title, keys = ALL[name]
        options = [part for key in keys for part in (f"--{key}", str(given[key]))]
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], stdout=subprocess.PIPE, text=True)
        print(done.stdout, flush=True)
        if done.returncode:
            raise SystemExit(f"benchmarks/{name}.py ended with {done.returncode}; the archive is as it was")
        section(
            ARCHIVE / f"{name}.md", title, place, f"`python -m benchmarks.{name} {' '.join(options)}`\n\n{done.stdout}"
        )


if __name__ == "__main__":
    main()
