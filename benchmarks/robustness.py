"""How a model translates what users type: lower case without a full stop, and names and numbers that are rare.

    python -m benchmarks.robustness MODEL... --source test.en --reference test.fr

Raw text. The made-up names are those of ``noise: {names: 1, seed: 7}``, in place of capitalised words that both sides
have, in the pairs that have some. *Names* and *numbers* are the capitalised words and the numbers that source and
reference share, of the text as written; counted is in how many translations they are. BLEU is sacrebleu's, detokenised.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import click
import sacrebleu

from nmt.config.corpus.noise import Noise
from nmt.config.decoding import Decoding
from nmt.system.lines import read_lines
from nmt.text.filters.noise import NAME, NUMBER, noisy
from nmt.translation.translator import Translator

TYPED = Noise(lower=1, punctuation=1)
NAMES = Noise(names=1, seed=7)


def kept(pattern: re.Pattern[str], pairs: Sequence[tuple[str, str]], translations: Sequence[str]) -> str:
    """How many of the capitalised words or numbers that source and reference share are in the translations."""
    found = total = 0
    for (source, reference), translation in zip(pairs, translations, strict=True):
        shared = set(pattern.findall(source)) & set(pattern.findall(reference))
        words = {word for word in shared if not word[0].islower()}
        found, total = found + len(words & set(pattern.findall(translation))), total + len(words)
    return f"{found:,} of {total:,}"


def measure(translator: Translator, pairs: list[tuple[str, str]]) -> str:
    """The cells of a row: BLEU of the text as written, as typed, and with other names; names and numbers in it."""
    typed = [noisy(pair, TYPED, translator.languages)[0] for pair in pairs]
    renamed = [made for made, kinds in (noisy(pair, NAMES, translator.languages) for pair in pairs) if kinds]
    scores, translations = [], []
    for text in (pairs, typed, renamed):
        translations.append(translator.translate([source for source, _ in text], Decoding(beam=5)))
        bleu = sacrebleu.corpus_bleu(translations[-1], [[reference for _, reference in text]])
        scores.append(f"{bleu.score:.2f}")
    counts = [kept(NAME, renamed, translations[2]), kept(NAME, pairs, translations[0])]
    return " | ".join([*scores, *counts, kept(NUMBER, pairs, translations[0])])


@click.command()
@click.argument("models", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--source", required=True, type=click.Path(path_type=Path))
@click.option("--reference", required=True, type=click.Path(path_type=Path))
@click.option("--threads", default=2)
def main(models: tuple[Path, ...], source: Path, reference: Path, threads: int) -> None:
    """Print a table with a row for each of MODELS."""
    pairs = list(zip(read_lines(source), read_lines(reference), strict=True))
    print("| model | as written | lower case, no full stop | made-up names | of these copied | names | numbers |")
    print("|---|---|---|---|---|---|---|")
    for model in models:
        print(f"| {model} | {measure(Translator.load(model, 'cpu', threads), pairs)} |", flush=True)


if __name__ == "__main__":
    main()
