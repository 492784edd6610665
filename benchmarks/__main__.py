"""Run all benchmarks in turn and write one section per benchmark into ``benchmarks/RESULTS.md``.

    python -m benchmarks [--threads 2] [--rounds 3] [NAME...]

A section is replaced only if its benchmark succeeds. Other sections remain.
"""

import subprocess
import sys

import click

from benchmarks.measure import RESULTS, section

#: For each benchmark: the title of its section, and which of the common options it has.
ALL = {
    "training": ("Training beside other toolkits", ("threads", "rounds")),
    "decoding": ("Translating beside other toolkits", ("threads", "rounds")),
    "equality": ("What the optimisations change", ("threads",)),
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
    """Run the named benchmarks, or all of them, and write their output into RESULTS.md."""
    given = {"threads": threads, "rounds": rounds}
    for name in names or ALL:
        title, keys = ALL[name]
        options = [part for key in keys for part in (f"--{key}", str(given[key]))]
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], stdout=subprocess.PIPE, text=True)
        print(done.stdout, flush=True)
        if done.returncode:
            raise SystemExit(f"benchmarks/{name}.py ended with {done.returncode}; {RESULTS.name} keeps its old section")
        section(RESULTS, title, f"`python -m benchmarks.{name} {' '.join(options)}`\n\n{done.stdout}")


if __name__ == "__main__":
    main()
