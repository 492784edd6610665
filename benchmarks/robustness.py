"""How a model translates what users type: lower case without a full stop, and names that it has not seen.

    python -m benchmarks.robustness MODEL... --source test.en --reference test.fr

Raw text. The made-up names are those of ``noise: {names: 1, seed: 7}``, in place of capitalised words that both sides
have, in the pairs that have some. BLEU is sacrebleu's, detokenised.
"""

from pathlib import Path

import click
import sacrebleu

from nmt.config.corpus.noise import Noise
from nmt.config.decoding import Decoding
from nmt.system.lines import read_lines
from nmt.text.filters.noise import NAME, noisy
from nmt.translation.translator import Translator

TYPED = Noise(lower=1, punctuation=1)
NAMES = Noise(names=1, seed=7)


def words(line: str) -> set[str]:
    """The words of a line that may be names."""
    return set(NAME.findall(line))


def measure(translator: Translator, pairs: list[tuple[str, str]]) -> str:
    """The cells of a row: BLEU of the text as written, as typed, and with other names; names that are copied."""
    languages = translator.languages
    typed = [noisy(pair, TYPED, languages)[0] for pair in pairs]
    renamed = [(noisy(pair, NAMES, languages), pair) for pair in pairs]
    changed = [(now, words(now[0]) - words(before[0])) for (now, kinds), before in renamed if kinds]
    scores = []
    for sources, references in (zip(*pairs), zip(*typed), zip(*(pair for pair, _ in changed))):  # noqa: B905
        translations = translator.translate(list(sources), Decoding(beam=5))
        scores.append(sacrebleu.corpus_bleu(translations, [list(references)]).score)
    copied = sum(len(names & words(line)) for line, (_, names) in zip(translations, changed, strict=True))
    cells = [*(f"{score:.2f}" for score in scores), f"{copied} of {sum(len(names) for _, names in changed)}"]
    return " | ".join(cells)


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--source", required=True, type=click.Path(path_type=Path))
@click.option("--reference", required=True, type=click.Path(path_type=Path))
@click.option("--threads", default=2)
def main(models: tuple[Path, ...], source: Path, reference: Path, threads: int) -> None:
    """Print a table with a row for each of MODELS."""
    pairs = list(zip(read_lines(source), read_lines(reference), strict=True))
    print(
        "| model | BLEU as written | lower case, no full stop | made-up names | names copied |\n|---|---|---|---|---|"
    )
    for model in models:
        print(f"| {model} | {measure(Translator.load(model, 'cpu', threads), pairs)} |", flush=True)


if __name__ == "__main__":
    main()
