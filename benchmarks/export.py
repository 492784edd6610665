"""Translations and speed of a model and of its CTranslate2 export, side by side, one thread each.

    python -m benchmarks.export [MODEL SOURCE] [--limit 1000] [--rounds 3]

SOURCE is cleaned text; model and text are those of `make run` if not given. Both get the same pieces in batches of
2,048 tokens; rounds alternate, medians are printed. Equal: the share of lines with the same pieces. Where they
differ: how often which side found the higher score.
"""

import statistics
import tempfile
import time
from pathlib import Path

import click
import ctranslate2

from benchmarks.measure import TEXT, TRAINED
from nmt.config.decoding import Decoding
from nmt.system.files import read_lines
from nmt.translation.export import export
from nmt.translation.translator import Translator

SEARCHES = {
    "greedy": (1, {}),
    "beam 5": (5, {}),
    "beam 5, patience 2": (5, {"patience": 2}),
    "beam 5, patience 4": (5, {"patience": 4}),
}
Found = list[tuple[list[str], float]]


def ours(translator: Translator, lines: list[str], beam: int) -> Found:
    """Pieces and score of each line's best translation."""
    found = translator.translate_clean(lines, Decoding(beam=beam))
    return [(translator.target.pieces(best.ids), best.score) for best, *_ in found]


def theirs(translator: ctranslate2.Translator, pieces: list[list[str]], beam: int, options: dict[str, float]) -> Found:
    """The same by CTranslate2."""
    found = translator.translate_batch(
        pieces, beam_size=beam, return_scores=True, min_decoding_length=0,
        max_batch_size=2048, batch_type="tokens", **options,
    )  # fmt: skip
    return [(result.hypotheses[0], result.scores[0]) for result in found]


def row(name: str, times: list[tuple[float, float]], a: Found, b: Found) -> str:
    """One line of the table, from the seconds that both took in each round."""
    speeds = [len(a) / statistics.median(side) for side in zip(*times, strict=True)]
    differ = [x[1] - y[1] for x, y in zip(a, b, strict=True) if x[0] != y[0]]
    higher = sum(d > 0 for d in differ)
    cells = (
        name, f"{speeds[0]:,.0f}", f"{speeds[1]:,.0f}", f"{speeds[1] / speeds[0]:.1f}",
        f"{1 - len(differ) / len(a):.1%}", higher, len(differ) - higher,
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


@click.command()
@click.argument("model", type=click.Path(path_type=Path), default=TRAINED)
@click.argument("source", type=click.Path(path_type=Path), default=TEXT)
@click.option("--limit", default=1000)
@click.option("--rounds", default=3)
def main(model: Path, source: Path, limit: int, rounds: int) -> None:
    """Print one table: sentences a second of both, their ratio, and how their translations compare."""
    lines = [line for line in read_lines(source) if line][:limit]
    mine = Translator.load(model, "cpu", 1)
    pieces = [mine.source.pieces(ids) for ids in mine.source.encode(lines)]
    print(
        f"{len(lines):,} sentences\n\n| search | ours/s | CTranslate2/s | ratio | equal | ours higher | theirs higher |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        export(model, Path(folder) / "model", "ctranslate2")
        other = ctranslate2.Translator(str(Path(folder) / "model"), inter_threads=1, intra_threads=1)
        for name, (beam, options) in SEARCHES.items():
            times = []
            for _ in range(rounds):
                started = time.perf_counter()
                a = ours(mine, lines, beam)
                between = time.perf_counter()
                b = theirs(other, pieces, beam, options)
                times.append((between - started, time.perf_counter() - between))
            print(row(name, times, a, b), flush=True)


if __name__ == "__main__":
    main()
