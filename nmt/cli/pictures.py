"""Commands that prepare the pictures of multimodal corpora."""

from pathlib import Path
from typing import Any

import click

from nmt.cli.options import COUNT, OUTPUT, PATH, device_options
from nmt.config.choices import NETWORKS


@click.command()
@click.argument("out", type=OUTPUT)
@click.option("--corpus", default="scenes", help="The corpus; pictures of others than scenes are in a mirror.")
@click.option("--limit", type=COUNT, show_default="all pictures", help="Write only the first pictures of each split.")
@click.option("--mirror", type=PATH, show_default="NMT_MIRROR", help="Folder with the pictures of other corpora.")
def draw(out: Path, corpus: str, limit: int | None, mirror: Path | None) -> None:
    """Write the pictures of a corpus into the folder OUT. Those of scenes are drawn, others are unpacked.

    OUT also has a list of their names for each split.
    """
    from nmt.corpora.catalogue import write_pictures

    write_pictures(corpus, out, limit, mirror)


@click.command()
@click.argument("folder", type=PATH)
@click.argument("names", type=PATH)
@click.argument("out", type=OUTPUT)
@click.option("--backbone", type=click.Choice(NETWORKS), default="resnet50", help="The image network.")
@click.option(
    "--weights", type=PATH, show_default="its package, else a download", help="File of the backbone's weights."
)
@click.option(
    "--missing",
    type=click.Choice(["refuse", "blank"]),
    default="refuse",
    help="For missing or broken pictures: refuse stops with an error, blank writes zeros.",
)
@click.option("--batch", type=COUNT, default=32, help="Pictures in a batch.")
@click.option("--limit", type=COUNT, show_default="all names", help="Read only the first names.")
@device_options
def features(folder: Path, names: Path, out: Path, device: str, **options: Any) -> None:
    """Compute image features of the pictures in FOLDER; writes the array OUT (.npy).

    NAMES lists the pictures, one name per line. Row n of OUT belongs to line n.
    """
    from nmt.data.extract import extract
    from nmt.system.gpus import claim_gpu
    from nmt.system.warnings import recorded

    with claim_gpu(device), recorded("features", out):
        extract(folder, names, out, device=device, **options)


@click.command()
@click.argument("features", type=PATH)
@click.argument("folder", type=PATH)
@click.argument("names", type=PATH)
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder of the figure.")
@click.option("--pictures", type=COUNT, default=10, help="Number of pictures, spread evenly over the list.")
@click.option("--count", type=COUNT, default=6, help="Neighbours of each picture.")
def neighbours(features: Path, folder: Path, names: Path, out: Path, pictures: int, count: int) -> None:
    """Draw pictures beside those with the nearest features; writes DIR/neighbours.png, .svg and .json.

    FEATURES is the array that `nmt features` made of the pictures in FOLDER that the file NAMES lists.
    """
    from nmt.report.figures.neighbours import draw as draw_neighbours

    draw_neighbours(features, folder, names, out / "neighbours", pictures, count)


@click.command()
@click.argument("text", type=PATH)
@click.argument("out", type=OUTPUT)
def lsa(text: Path, out: Path) -> None:
    """Learn a latent semantic analysis of TEXT, the descriptions of the training images; writes OUT (.npz)."""
    from nmt.data.descriptions import learn

    learn(text, out)


@click.command("pseudo-regions")
@click.argument("analysis", type=PATH)
@click.argument("sentences", type=PATH)
@click.argument("descriptions", type=PATH)
@click.argument("out", type=OUTPUT)
def pseudo_regions(analysis: Path, sentences: Path, descriptions: Path, out: Path) -> None:
    """Turn the other descriptions of each image into vectors, used as image features; writes the array OUT (.npy).

    ANALYSIS is the file that `nmt lsa` wrote. SENTENCES has one sentence per image. DESCRIPTIONS has the first
    description of every image, then the second of every image, and so on.
    """
    from nmt.data.descriptions import write_regions

    write_regions(analysis, sentences, descriptions, out)
