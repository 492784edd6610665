"""All benchmarks, one after the other, each a section of ``benchmarks/RESULTS.md``.

    python -m benchmarks [--threads 2] [--rounds 3] [NAME...]

A section is replaced when its benchmark has ended well; the others stay.
"""

import subprocess
import sys

import click

from benchmarks.measure import RESULTS, section

#: Of each: its title in the document, and those of its options that hold for all.
ALL = {
    "training": ("Training beside other toolkits", ("threads", "rounds")),
    "decoding": ("Translating beside other toolkits", ("threads", "rounds")),
    "equality": ("What the optimisations change", ("threads",)),
    "growth": ("How the cost of training grows", ("threads",)),
    "stages": ("Stages, start-up, a whole run", ("threads",)),
    "serve": ("The server under load", ("threads",)),
}


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(ALL)))
@click.option("--threads", default=2)
@click.option("--rounds", default=3)
def main(names: tuple[str, ...], threads: int, rounds: int) -> None:
    """Run benchmarks, all if none is named, and write what they print into RESULTS.md."""
    given = {"threads": threads, "rounds": rounds}
    for name in names or ALL:
        title, takes = ALL[name]
        options = [part for key in takes for part in (f"--{key}", str(given[key]))]
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], stdout=subprocess.PIPE, text=True)
        print(done.stdout, flush=True)
        if done.returncode:
            raise SystemExit(f"benchmarks/{name}.py ended with {done.returncode}; {RESULTS.name} keeps what it had")
        section(RESULTS, title, f"`python -m benchmarks.{name} {' '.join(options)}`\n\n{done.stdout}")


if __name__ == "__main__":
    main()
