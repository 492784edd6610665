"""Image features: what is extracted, what goes on after an interruption, and what is said of faulty pictures."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import run
from PIL import Image
from torch import Tensor, nn

from nmt.corpora.scenes import write_pictures
from nmt.data import extract as features
from nmt.data.backbones import Extractor, ResNet50, load
from nmt.data.extract import extract
from nmt.report.figures.neighbours import nearest
from nmt.system.errors import ConfigError, DataError

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def lite0() -> Extractor:
    return load("efficientnet-lite0", None, CPU)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn") / "scenes"
    write_pictures(folder, 5)
    return folder


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """A backbone that sees each region's mean colour, and notes how many pictures each call got."""
    calls: list[int] = []
    (tmp_path / "weights").write_text("none")

    def colours(pictures: Tensor) -> Tensor:
        calls.append(len(pictures))
        return nn.functional.avg_pool2d(pictures, 32)

    extractor = Extractor(colours, 3, (0.0,) * 3, (1.0,) * 3, tmp_path / "weights")
    monkeypatch.setattr(features, "load", lambda *_: extractor)
    yield calls


def paint(folder: Path, count: int) -> Path:
    """Pictures whose left half is of one colour and whose right half of another; returns their list."""
    folder.mkdir()
    for n in range(count):
        image = Image.new("RGB", (64, 64), (10 * n, 0, 0))
        image.paste((0, 10 * n, 0), (32, 0, 64, 64))
        image.save(folder / f"{n}.png")
    (folder / "names.txt").write_text("".join(f"{n}.png\n" for n in range(count)))
    return folder / "names.txt"


@pytest.mark.integration
def test_drawn_scenes_become_an_array_with_its_provenance(drawn: Path, tmp_path: Path, lite0: Extractor) -> None:
    options = ["--backbone", "efficientnet-lite0", "--device", "cpu", "--threads", 1]
    for name, batch in (("one", 5), ("two", 2)):
        code, output = run("features", drawn, drawn / "valid.txt", tmp_path / f"{name}.npy", *options, "--batch", batch)
        assert code == 0, output
    array, other = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("one", "two"))
    assert array.shape == (5, 49, 1280) and array.dtype == np.float16 and array.any(axis=(1, 2)).all()
    assert np.abs(array.astype(np.float32) - other.astype(np.float32)).max() < 0.02  # whatever the batch
    pixels = torch.from_numpy(np.asarray(Image.open(drawn / "valid" / "00003.png").convert("RGB")).copy())
    normal = (pixels.float() - 127) / 128
    with torch.inference_mode():
        grid = lite0.features(normal.permute(2, 0, 1)[None])[0]  # (1280, 7, 7)
    np.testing.assert_allclose(array[2, 3 * 7 + 5], grid[:, 3, 5], atol=0.02)  # regions row by row
    making = json.loads((tmp_path / "one.json").read_text())
    assert making["weights_sha256"].startswith("57934424") and making["backbone"] == "efficientnet-lite0"
    assert (making["images"], making["regions"], making["channels"], making["blank"]) == (5, 49, 1280, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.json", "one.npy", "two.json", "two.npy"]


def test_the_same_pictures_give_the_same_array(tmp_path: Path, tiny: list[int]) -> None:
    names = paint(tmp_path / "images", 7)
    for out in ("one", "two"):
        extract(tmp_path / "images", names, tmp_path / f"{out}.npy", "resnet50", batch=3)
    assert (tmp_path / "one.npy").read_bytes() == (tmp_path / "two.npy").read_bytes()
    array = np.load(tmp_path / "one.npy").reshape(7, 7, 7, 3)
    np.testing.assert_allclose(array[6, :, 0] * 255, [[60, 0, 0]] * 7, atol=0.1)
    np.testing.assert_allclose(array[6, :, 6] * 255, [[0, 60, 0]] * 7, atol=0.1)


def test_an_interrupted_array_goes_on_where_it_was(
    tmp_path: Path, tiny: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    names, out = paint(tmp_path / "images", 10), tmp_path / "out.npy"
    monkeypatch.setattr(features, "SAVE_EVERY", 1)
    extractor = features.load("resnet50", None, CPU)

    def dies(pictures: Tensor) -> Tensor:
        if sum(tiny) >= 6:
            raise KeyboardInterrupt
        return extractor.features(pictures)

    monkeypatch.setattr(features, "load", lambda *_: replace(extractor, features=dies))
    with pytest.raises(KeyboardInterrupt):
        extract(tmp_path / "images", names, out, "resnet50", batch=2)
    assert not out.exists() and tiny == [2, 2, 2]
    monkeypatch.setattr(features, "load", lambda *_: extractor)
    extract(tmp_path / "images", names, out, "resnet50", batch=2)
    assert tiny == [2] * 5
    extract(tmp_path / "images", names, tmp_path / "again.npy", "resnet50", batch=2)
    assert out.read_bytes() == (tmp_path / "again.npy").read_bytes()


def test_another_list_starts_anew(tmp_path: Path, tiny: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    names, out = paint(tmp_path / "images", 4), tmp_path / "out.npy"
    (tmp_path / "images" / "3.png").write_bytes(b"broken")
    with pytest.raises(DataError, match="1 cannot be read"):
        extract(tmp_path / "images", names, out, "resnet50")
    names.write_text("2.png\n1.png\n")
    extract(tmp_path / "images", names, out, "resnet50")
    assert np.load(out).shape == (2, 49, 3) and tiny == [3, 2]


def test_the_same_list_of_other_pictures_starts_anew(tmp_path: Path, tiny: list[int]) -> None:
    names, out = paint(tmp_path / "images", 4), tmp_path / "out.npy"
    paint(tmp_path / "others", 4)
    (tmp_path / "images" / "3.png").write_bytes(b"broken")
    with pytest.raises(DataError, match="1 cannot be read"):
        extract(tmp_path / "images", names, out, "resnet50")
    extract(tmp_path / "others", names, out, "resnet50")
    assert tiny == [3, 4]


def test_faulty_pictures_are_named_in_one_list_and_tried_again_once_mended(tmp_path: Path, tiny: list[int]) -> None:
    names, out = paint(tmp_path / "images", 6), tmp_path / "out.npy"
    whole = (tmp_path / "images" / "4.png").read_bytes()
    (tmp_path / "images" / "4.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "images" / "1.png").write_text("<html>not found</html>")
    with pytest.raises(DataError) as found:
        extract(tmp_path / "images", names, out, "resnet50")
    message = str(found.value)
    assert "but 2 cannot be read:\n  1.png: cannot identify image file" in message and "\n  4.png: " in message
    assert "--missing blank" in message and not out.exists()
    (tmp_path / "images" / "4.png").write_bytes(whole)
    Image.new("RGB", (64, 64), (10, 0, 0)).save(tmp_path / "images" / "1.png")
    extract(tmp_path / "images", names, out, "resnet50")
    assert tiny == [4, 2] and np.load(out).any(axis=(1, 2)).tolist() == [False, True, True, True, True, True]


def test_missing_pictures_are_refused_before_anything_is_computed_or_left_blank(
    tmp_path: Path, tiny: list[int]
) -> None:
    names, out = paint(tmp_path / "images", 3), tmp_path / "out.npy"
    names.write_text("1.png\nno.png\n2.png\n")
    arguments = ["features", tmp_path / "images", names, out, "--device", "cpu"]
    code, output = run(*arguments)
    assert code == 1 and "1 cannot be read:\n  no.png: no such file\n" in output and not tiny
    code, output = run(*arguments, "--missing", "blank")
    assert code == 0, output
    assert np.load(out).any(axis=(1, 2)).tolist() == [True, False, True]
    assert json.loads(out.with_suffix(".json").read_text())["blank"] == ["no.png"]


def test_a_camera_held_sideways_gives_the_upright_picture(tmp_path: Path, tiny: list[int]) -> None:
    names = paint(tmp_path / "images", 2)
    upright, turned = Image.open(tmp_path / "images/1.png"), Image.Exif()
    turned[0x0112] = 6  # the camera was turned: show the pixels rotated by 90° clockwise
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "images/0.png", exif=turned)
    extract(tmp_path / "images", names, tmp_path / "array.npy", "resnet50")
    array = np.load(tmp_path / "array.npy")
    assert np.array_equal(array[0], array[1])


def test_pictures_that_cannot_be_used_are_named_each_with_its_reason(
    tmp_path: Path, tiny: list[int], monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 3000)  # 64 · 64 pixels are more, and less than twice as many
    names = paint(tmp_path / "images", 1)
    extract(tmp_path / "images", names, tmp_path / "array.npy", "resnet50")
    Image.new("RGB", (100, 100)).save(tmp_path / "images/huge.png")
    Image.new("I;16", (8, 8), 30000).save(tmp_path / "images/deep.png")
    (tmp_path / "images/album.png").mkdir()
    reasons = {
        "huge.png": "more than 6,000 pixels; make it smaller", "deep.png": "pixels of type I;16; save it with 8 bits",
        "album.png": "a folder", "0.png ": "no such file; remove the spaces", "": "an empty line in the list",
    }  # fmt: skip
    for name, reason in reasons.items():
        names.write_text(f"0.png\n{name}\n")
        with pytest.raises(DataError, match=rf"1 cannot be read:\n  {name or '.'}: {reason}"):
            extract(tmp_path / "images", names, tmp_path / "array.npy", "resnet50")
    with pytest.raises(DataError, match="absent: expected a folder of pictures, got no such folder"):
        extract(tmp_path / "absent", names, tmp_path / "array.npy", "resnet50", missing="blank")
    assert not recwarn.list


def test_an_array_is_npy_and_beside_it_its_description(tmp_path: Path, tiny: list[int]) -> None:
    with pytest.raises(ConfigError, match=r"out\.json: expected a name that ends with \.npy"):
        extract(tmp_path, paint(tmp_path / "images", 1), tmp_path / "out.json", "resnet50")


def test_an_empty_list_is_refused(tmp_path: Path, tiny: list[int]) -> None:
    (tmp_path / "names.txt").write_text("")
    with pytest.raises(DataError, match=r"names\.txt: expected names of pictures, one per line, got none"):
        extract(tmp_path, tmp_path / "names.txt", tmp_path / "out.npy", "resnet50")


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(ConfigError, match=r"python3 envs/install.py run images"):
        load("efficientnet-lite0", None, CPU)


@pytest.mark.integration
def test_resnet50_takes_a_classifiers_weights_and_refuses_others(tmp_path: Path, lite0: Extractor) -> None:
    torch.manual_seed(0)
    network = ResNet50().eval()
    assert sum(p.numel() for p in network.parameters()) == 25_557_032 - 2048 * 1000 - 1000  # without the classifier
    torch.save(network.state_dict() | {"fc.weight": torch.ones(3), "fc.bias": torch.ones(3)}, tmp_path / "resnet.pth")
    loaded, x = load("resnet50", tmp_path / "resnet.pth", CPU), torch.randn(1, 3, 224, 224)
    with torch.inference_mode():
        out = loaded.features(x)
        assert out.shape == (1, 2048, 7, 7)
        torch.testing.assert_close(out, network(x), rtol=1e-3, atol=1e-4)
    with pytest.raises(DataError, match=r"expected weights of ResNet50, but it lacks conv1\.weight"):
        load("resnet50", lite0.weights, CPU)
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(DataError, match=r"text\.pth: expected a state_dict of ResNet50, got"):
        load("resnet50", tmp_path / "text.pth", CPU)


def test_the_nearest_pictures_are_those_with_the_smallest_angle_between_their_means() -> None:
    features = np.zeros((5, 2, 3), np.float16)
    features[:, 0] = [(2, 0, 0), (0, 2, 0), (2, 2, 0), (9, 1, 0), (0, 0, 0)]  # and zeros in the other region
    rows, cosines = nearest(features, np.array([0, 2]), 3)
    assert rows.tolist() == [[3, 2, 1], [3, 0, 1]]
    expected = [[9 / 82**0.5, 0.5**0.5, 0], [10 / 164**0.5, 0.5**0.5, 0.5**0.5]]
    np.testing.assert_allclose(cosines, expected, atol=1e-6)


def test_a_sheet_of_neighbours_and_what_it_refuses(tiny: list[int], tmp_path: Path) -> None:
    names = paint(tmp_path / "pictures", 4)
    extract(names.parent, names, tmp_path / "f.npy", "resnet50", device="cpu")
    given = (tmp_path / "f.npy", names.parent, names, "--out", tmp_path / "sheet", "--pictures", 2, "--count", 2)
    code, output = run("neighbours", *given)
    assert code == 0, output
    sheet = json.loads((tmp_path / "sheet" / "neighbours.json").read_text())
    assert [line[0] for line in sheet] == [["0.png", None], ["3.png", None]] and len(sheet[0]) == 3
    assert Image.open(tmp_path / "sheet" / "neighbours.png").width > 300
    names.write_text("0.png\n1.png\n2.png\n")
    code, output = run("neighbours", *given)
    assert code == 1 and "expected features of the 3 pictures" in output and "(4, 49, 3)" in output
