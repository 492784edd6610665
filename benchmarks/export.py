"""Compare a model and its CTranslate2 export: translations and speed, with one thread each.

    python -m benchmarks.export [MODEL SOURCE] [--limit 1000] [--rounds 3]

SOURCE is cleaned text. The default model and text are those of `make run`. Both sides get the same pieces in batches of
2,048 tokens and take turns; the table has the medians over the rounds. Equal is the share of lines with the same
pieces. For the other lines, the table counts which side has the higher score.
"""

import statistics
import tempfile
import time
from pathlib import Path

import click
import ctranslate2

from benchmarks.measure import TEXT, TRAINED
from nmt.config.decoding import Decoding
from nmt.system.lines import read_lines
from nmt.translation.export import export
from nmt.translation.translator import Translator

SEARCHES = {
    "greedy": (1, {}),
    "beam 5": (5, {}),
    "beam 5, patience 2": (5, {"patience": 2}),
    "beam 5, patience 4": (5, {"patience": 4}),
}
Results = list[tuple[list[str], float]]


def ours(translator: Translator, lines: list[str], beam: int) -> Results:
    """Return the pieces and the score of each line's best translation by our model."""
    results = translator.translate_clean(lines, Decoding(beam=beam))
    return [(translator.target.pieces(best.ids), best.score) for best, *_ in results]


def theirs(
    translator: ctranslate2.Translator, pieces: list[list[str]], beam: int, options: dict[str, float]
) -> Results:
    """Return the pieces and the score of each line's best translation by CTranslate2."""
    results = translator.translate_batch(
        pieces, beam_size=beam, return_scores=True, min_decoding_length=0,
        max_batch_size=2048, batch_type="tokens", **options,
    )  # fmt: skip
    return [(result.hypotheses[0], result.scores[0]) for result in results]


def row(name: str, times: list[tuple[float, float]], a: Results, b: Results) -> str:
    """Format one line of the table.

    Args:
        name: of the search.
        times: seconds of both sides in each round.
        a: our results.
        b: the results of CTranslate2.
    """
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
    """Print one table: sentences per second of both sides, their ratio, and a comparison of their translations."""
    lines = [line for line in read_lines(source) if line][:limit]
    our_model = Translator.load(model, "cpu", 1)
    pieces = [our_model.source.pieces(ids) for ids in our_model.source.encode(lines)]
    print(
        f"{len(lines):,} sentences\n\n| search | ours/s | CTranslate2/s | ratio | equal | ours higher | theirs higher |"
    )
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        export(model, Path(folder) / "model", "ctranslate2")
        their_model = ctranslate2.Translator(str(Path(folder) / "model"), inter_threads=1, intra_threads=1)
        for name, (beam, options) in SEARCHES.items():
            times = []
            for _ in range(rounds):
                started = time.perf_counter()
                a = ours(our_model, lines, beam)
                middle = time.perf_counter()
                b = theirs(their_model, pieces, beam, options)
                times.append((middle - started, time.perf_counter() - middle))
            print(row(name, times, a, b), flush=True)


if __name__ == "__main__":
    main()
