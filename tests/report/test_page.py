"""The page of all results, as text and as a browser shows it."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import fakes
import pytest
from commands import run
from pages import Read
from PIL import Image

from nmt.plan.layout import Layout
from nmt.report.pages import page
from nmt.report.write import report
from nmt.system.errors import DataError
from nmt.system.files import read_json, write_json

pytestmark = pytest.mark.integration  # tables and figures of several runs, and browsers
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
MLFLOW = {
    "small": {"status": "published", "uri": "sqlite:////db", "experiment": "7", "run": "abc"},
    "large": {"status": "published", "uri": "https://mlflow.example/", "experiment": "8", "run": "def"},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables, one synthetic; runs that MLflow has and has not; a heat map and a folder without a table."""
    layout = Layout(tmp_path_factory.mktemp("all") / "results")
    for name, synthetic in (("drawn", True), ("toy", False)):
        what = fakes.table(caption=f"The table {name}")
        fakes.write_results(layout, name, what, [1], synthetic)
        report(name, what, layout, [1])
    for system, tracked in MLFLOW.items():
        write_json(layout.run("toy", system, 1) / "tracked.json", tracked)
    write_json(layout.run("drawn", "small", 1) / "tracked.json", {"status": "failed", "uri": "x", "problem": "y"})
    for place in ("toy/attention/one", "alone/heat"):
        image = layout.results / "figures" / f"{place}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), "green").save(image)
    page(layout.results, layout.results.parent / "report.html")
    return layout.results


@pytest.fixture(scope="module")
def read(results: Path) -> Read:
    return Read(results.parent / "report.html")


def test_every_table_and_figure_is_there(read: Read) -> None:
    names = ["toy", "alone", "drawn"]  # synthetic ones last
    assert [place for place in read.ids if "." not in place and place not in ("search", "report", "count")] == sorted(
        names, key=lambda name: (name == "drawn", name)
    )
    assert len(read.images) == 2 * len(fakes.TABLE["figures"]) + 2  # type: ignore[arg-type]
    assert sum(image.startswith("data:image/png;base64,") for image in read.images) == 2
    assert all(image.startswith("data:image/") for image in read.images)
    for said in ("The table toy", "Somebody's <system> (quoted)", "A girl's red ball", "sacrebleu references.detok"):
        assert said in read.text


def test_a_figure_with_a_picture_that_may_not_be_passed_on_is_left_out(results: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(results, tmp_path / "results")
    data = read_json(copy / "tables" / "toy.json")
    picture = {"name": "picture", "title": "Looks", "withheld": True}
    curves, waves = {"name": "learning-curves", "title": "Curves"}, {"name": "positions", "title": "Waves"}
    write_json(copy / "tables" / "toy.json", data | {"figures": [*data["figures"], curves, waves, picture]})
    for image in ("toy/picture", "alone/picture", "toy/learning-curves", "toy/positions"):
        (copy / "figures" / f"{image}.svg").write_text("<svg/>")
    page(copy, tmp_path / "report.html")
    page(copy, tmp_path / "site")
    for file, ids in ((tmp_path / "report.html", {"alone.picture"}), (tmp_path / "site" / "toy.html", set())):
        shown = Read(file)
        assert {place for place in shown.ids if place.endswith(".picture")} == ids
        assert re.search(r"Curves\s*– drawn from the logs of", shown.text)
        assert re.search(r"Waves\.\s*Files:", shown.text)
        assert "Not on this page: picture.png" in shown.text and not any("toy/picture" in link for link in shown.links)


def test_contents_lead_to_what_is_there(read: Read) -> None:
    inside = {link.removeprefix("#") for link in read.links if link.startswith("#")}
    assert inside <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))
    assert {"toy", "drawn", "alone", "toy.provenance"} <= inside


def test_rows_and_figures_lead_to_their_run_and_provenance(results: Path, read: Read) -> None:
    drawn = {*fakes.TABLE["figures"], "attention/one"}  # type: ignore[misc]
    figures = len(drawn - {"positions", "positions-across", "mask"})  # those are drawn from formulas
    for address in (
        "http://127.0.0.1:5000/#/experiments/7/runs/abc?workflowType=machine_learning",
        "https://mlflow.example/#/experiments/8/runs/def?workflowType=machine_learning",
    ):
        assert read.links.count(address) == figures + 1  # and the row
    scores = [link for link in read.links if link.endswith("scores.json")]
    assert len(scores) == 4
    outside = [link for link in read.links if not re.match("#|http", link)]
    assert all((results.parent / link).is_file() for link in outside)
    assert sum(link.endswith("drawn/loss.svg") for link in outside) == 1


def test_what_is_not_kept_is_named_without_a_link(results: Path, tmp_path: Path) -> None:
    for folder in ("tables", "figures"):
        shutil.copytree(results / folder, tmp_path / "clone #1" / folder)
    page(tmp_path / "clone #1", tmp_path / "report.html")
    found = Read(tmp_path / "report.html")
    assert "records/toy/small/seed1/epoch-2/test/" in found.text and "small seed 1" in found.text
    assert not [link for link in found.links if "runs/" in link]
    assert "clone%20%231/figures/toy/loss.svg" in found.links


def test_a_site_has_a_page_for_each_table_and_one_that_leads_there(results: Path, tmp_path: Path) -> None:
    for _ in range(2):  # the second replaces the first
        page(results, tmp_path / "site")
    home = Read(tmp_path / "site" / "index.html")
    assert [link for link in home.links if link.endswith(".html")] == ["alone.html", "toy.html", "drawn.html"]
    assert "Small, after 2 epochs" in home.text and "published 33.3" in home.text
    one = Read(tmp_path / "site" / "toy.html")
    assert "index.html" in one.links and "A girl's red ball" in one.text and "The table drawn" not in one.text
    assert "make ui" in one.text and "make ui" not in Read(tmp_path / "site" / "drawn.html").text
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").touch()
    with pytest.raises(DataError, match=r"letter\.txt; name another"):
        page(results, tmp_path / "mine")


def test_a_row_says_how_it_was_made_where_it_stands(read: Read) -> None:
    assert {"toy.made1", "toy.made2"} <= set(read.ids) and "toy.made3" not in read.ids, "a quoted row was not made"
    for said in ("snakemake --cores all table_toy", "nmt reproduce toy", "0123456789ab", "references: "):
        assert said in read.text


def test_synthetic_data_is_called_so_at_its_figures_too(read: Read) -> None:
    assert read.text.count("(synthetic corpus)") == len(fakes.TABLE["figures"])  # type: ignore[arg-type]
    assert read.text.count("synthetic corpus") == read.text.count("(synthetic corpus)") + 2  # contents and heading


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected tables/"):
        page(tmp_path, tmp_path / "report.html")
    code, output = run("page", tmp_path, tmp_path / "report.html")
    assert code == 1 and "build a table first" in output
    assert not (tmp_path / "report.html").exists()


# What only a browser can tell: written into the page once it is laid out.
LOOK = """<script>addEventListener("load", () => {
  const images = [...document.images].map(i => i.naturalWidth > 0 && i.getBoundingClientRect().width > 100);
  const wide = document.documentElement.scrollWidth - innerWidth;
  const lost = [...document.querySelectorAll("a[href^='#']")].filter(a => !document.getElementById(a.hash.slice(1)));
  const tall = [...document.querySelectorAll("table")].map(t => t.getBoundingClientRect().height);
  document.body.dataset.seen = JSON.stringify({images, wide, lost: lost.length, title: document.title, tall});
});</script>"""


def browse(file: Path, *options: str) -> str:
    """What a browser without a window prints, given a profile of its own; skips where there is none."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None) or pytest.skip(
        f"no browser here: none of {', '.join(BROWSERS)} is installed"
    )
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={file.parent}/profile",
    ]
    done = subprocess.run(
        [browser, *flags, *options, file.as_uri()], capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, "HOME": str(file.parent)},
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize("width", [500, 1300])
def test_a_browser_shows_it(results: Path, tmp_path: Path, width: int) -> None:
    text = (results.parent / "report.html").read_text(encoding="utf-8")
    for place in ('<dd class="reference">', '<ul class="notes">'):
        text = text.replace(
            place, f"{place}<span>{'la' * 300}</span>"
        )  # as a poor model repeats itself, or the path of a file
    text = text.replace("<details>", "<details open>")
    (tmp_path / "report.html").write_text(text.replace("</body>", f"{LOOK}</body>"), encoding="utf-8")
    shown = browse(tmp_path / "report.html", f"--window-size={width},900", "--dump-dom")
    found = re.search(r"data-seen=\"([^\"]*)\"", shown)
    assert found, shown[:2000]
    seen: dict[str, Any] = json.loads(found[1].replace("&quot;", '"'))
    assert len(seen["images"]) == len(Read(results.parent / "report.html").images) and seen["images"].count(False) == 0
    assert seen["wide"] <= 0, "the page is wider than its window"
    assert (seen["lost"], seen["title"]) == (0, "Results: tables and figures")
    assert sum(height > 50 for height in seen["tall"]) >= 4  # scores and provenance; the rest is folded


def test_a_browser_draws_it(results: Path, tmp_path: Path) -> None:
    shutil.copy(results.parent / "report.html", tmp_path / "report.html")
    browse(tmp_path / "report.html", "--window-size=1300,2000", f"--screenshot={tmp_path}/shot.png")
    with Image.open(tmp_path / "shot.png") as image:
        assert image.size == (1300, 2000)
        colours = {colour for _, colour in image.convert("RGB").getcolors(1 << 24) or []}
    assert (0, 114, 178) in colours  # our scores in the overview, in the page's blue
    assert len(colours) > 100


def test_a_row_is_of_a_pair_of_languages_where_a_table_has_several(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    shutil.copy(Path(__file__).parents[2] / "results" / "tables" / "multi30k_languages.json", tmp_path / "tables")
    page(tmp_path, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "BLEU on test_2016_flickr, en-fr</p>" in text
    assert "<td>test_2016_flickr, cs-fr</td><td>average 5" in text and "<td>test_2016_flickr</td><td>ave" not in text


def test_the_committed_results_make_a_page(tmp_path: Path) -> None:
    """Tables outlive the code that wrote them: those under version control must still be shown."""
    committed = Path(__file__).parents[2] / "results"
    tables = {path.stem for path in (committed / "tables").glob("*.json")}
    assert {"multi30k_transformer", "multi30k_recurrent", "demo_en_fr", "scenes_images"} <= tables
    page(committed, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(name in text for name in tables)
