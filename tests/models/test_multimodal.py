"""Transformers that see a picture: against explicit loops in float64, and that they look at it."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import run
from copytask import write_clean
from test_models import explicit_attention, padded
from torch import Tensor

from nmt.config.data import Subwords
from nmt.config.decoding import Decoding
from nmt.config.models import MultimodalConfig, TransformerConfig
from nmt.config.training import Training
from nmt.data.batches import Parallel
from nmt.data.encode import encode_corpus
from nmt.data.features import choose, no_pictures, pictures_of_split
from nmt.models.build import build
from nmt.models.multimodal import ImageQueries
from nmt.models.multimodal import Multimodal as Model
from nmt.serve.models import ServedModel
from nmt.system.errors import ConfigError, DataError
from nmt.system.files import read_json, write_json
from nmt.text.subwords import learn
from nmt.training.checkpoint import weights_of, write_tensors
from nmt.training.gradients import Gradients
from nmt.translation.translator import Translator

FUSIONS = ["queries", "concatenation", "gated"]
REGIONS, CHANNELS = 4, 6


def settings(fusion: str, **options: object) -> dict[str, object]:
    small = {"layers": 2, "width": 16, "ffn": 32, "heads": 2, "dropout": 0.0, "max_positions": 32}
    return {"kind": "multimodal", "fusion": fusion, "regions": REGIONS, "channels": CHANNELS} | small | options


def make(fusion: str, **options: object) -> Model:
    torch.manual_seed(0)
    model = build(MultimodalConfig.model_validate(settings(fusion, **options)), 23, 29, 0).double().eval()
    assert isinstance(model, Model)
    return model


def pictures(count: int, seed: int = 3) -> Tensor:
    return torch.randn(count, REGIONS, CHANNELS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def explicit_layer(layer: ImageQueries, x: Tensor, words: Tensor) -> Tensor:
    """One sentence's rows (S + R, D), each by itself: look at the words (S, D), feed forward; with either norm."""
    first, second = (residual.norm for residual in layer.residuals)
    pre = layer.residuals[0].pre
    allowed = torch.ones(len(x), len(words), dtype=torch.bool)
    queries, memory = (torch.stack([normal(row, first) for row in rows]) if pre else rows for rows in (x, words))
    mixed = explicit_attention(layer.attention, queries, memory, allowed)
    rows = []
    for row, output in zip(x, mixed, strict=True):
        middle = row + output if pre else normal(row + output, first)
        seen = normal(middle, second) if pre else middle
        inner = (layer.feed_forward.inner.weight @ seen + layer.feed_forward.inner.bias).clamp(min=0)
        outer = layer.feed_forward.outer.weight @ inner + layer.feed_forward.outer.bias
        rows.append(middle + outer if pre else normal(middle + outer, second))
    return torch.stack(rows)


def normal(row: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
    centred = row - row.mean()
    return centred / (centred.square().mean() + norm.eps).sqrt() * norm.weight + norm.bias


def test_image_queries_equal_an_explicit_loop_forward_and_gradient() -> None:
    torch.manual_seed(2)
    layer = ImageQueries(MultimodalConfig.model_validate(settings("queries"))).double()
    torch.nn.init.normal_(layer.attention.project.bias)
    x = torch.randn(1, 5 + REGIONS, 16, dtype=torch.float64, requires_grad=True)
    ours, theirs = layer(x, torch.zeros(1, 1, 1, 5, dtype=torch.float64))[0], explicit_layer(layer, x[0], x[0, :5])
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    weight, inputs = torch.randn_like(ours), [x, *layer.parameters()]
    found, expected = (torch.autograd.grad((out * weight).sum(), inputs) for out in (ours, theirs))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


AUTHORS = {"norm": "pre", "attention_output": False, "attention_bias": False}


@pytest.mark.parametrize("keys", ["layer", "embeddings"])
@pytest.mark.parametrize("options", [{}, {"norm": "pre"}, AUTHORS], ids=str)
def test_both_readings_of_the_paper_equal_an_explicit_loop_forward_and_gradient(
    keys: str, options: dict[str, object]
) -> None:
    """Keys and values of a layer come from its own words, or in every layer from the embeddings of the words."""
    model, source, images = make("queries", keys=keys, layers=3, **options), padded([5, 3]), pictures(2)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    ours = model.encode(source, images)[0]
    for sentence, length in enumerate([5, 3]):
        embeddings = model.source_embedding(source[sentence : sentence + 1, :length])[0]
        x = torch.cat([embeddings, images[sentence] @ model.regions.project.weight.T + model.regions.project.bias])
        for layer in model.encoder:
            assert isinstance(layer, ImageQueries)
            x = explicit_layer(layer, x, embeddings if keys == "embeddings" else x[:length])
        x = torch.stack([normal(row, model.encoder_norm) for row in x]) if options else x
        found = torch.cat([ours[sentence, :length], ours[sentence, 5:]])
        torch.testing.assert_close(found, x, rtol=0, atol=1e-10)
        weight = torch.randn_like(x)
        inputs = [model.source_embedding.pieces.weight, *model.regions.parameters(), *model.encoder.parameters()]
        gradients = (torch.autograd.grad((out * weight).sum(), inputs, retain_graph=True) for out in (found, x))
        for a, b in zip(*gradients, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("fusion", ["concatenation", "gated"])
def test_keys_of_the_embeddings_are_for_image_queries(fusion: str) -> None:
    with pytest.raises(ValueError, match=f"keys: embeddings is for fusion: queries only, got fusion: {fusion}"):
        MultimodalConfig.model_validate(settings(fusion, keys="embeddings"))


def test_image_rows_never_enter_keys_or_values() -> None:
    model, source = make("queries"), padded([5, 3])
    (x, mask), images = model.embed(source), pictures(2)
    for layer in model.encoder:
        rows = torch.cat([x, model.regions(images, 2)], 1).requires_grad_()
        out = layer(rows, mask)
        moved = layer(torch.cat([rows[:, :5], torch.randn(2, REGIONS, 16, dtype=torch.float64)], 1), mask)
        assert torch.equal(out[:, :5], moved[:, :5]) and not torch.equal(out[:, 5:], moved[:, 5:])
        (gradient,) = torch.autograd.grad(out[:, :5].square().sum() + out[:, 5].square().sum(), rows)
        assert gradient[:, 5].abs().max() > 0 and not gradient[:, 6:].any()  # a region reaches itself and no other row
    memory, _ = model.encode(source, images)
    torch.testing.assert_close(memory[:, :5], model.encode_rows(x, mask), rtol=0, atol=1e-12)  # as without a picture


def test_concatenation_is_plain_self_attention_over_words_and_regions() -> None:
    model, source, images = make("concatenation"), padded([5]), pictures(1)
    x = torch.cat([model.embed(source)[0], images @ model.regions.project.weight.T + model.regions.project.bias], 1)
    for layer in model.encoder:
        x = explicit_layer(layer, x[0], x[0])[None]  # type: ignore[arg-type]
    torch.testing.assert_close(model.encode(source, images)[0], x, rtol=0, atol=1e-10)
    moved = model.encode(source, pictures(1, 4))[0]
    assert (moved[:, :5] - x[:, :5]).abs().max() > 1e-3


def test_the_gate_follows_its_formula() -> None:
    model, source, images = make("gated"), padded([5]), pictures(1)
    words = model.encode_rows(*model.embed(source))
    vector = torch.stack([model.regions.project(region) for region in images[0]]).mean(0)
    weight, bias = model.gate.gate.weight, model.gate.gate.bias
    for row, word in zip(model.encode(source, images)[0][0], words[0], strict=True):
        share = 1 / (1 + torch.exp(-(weight[:, :16] @ word + weight[:, 16:] @ vector + bias)))
        torch.testing.assert_close(row, word + share * vector, rtol=0, atol=1e-10)


@pytest.mark.parametrize("laid_out", [False, True])
@pytest.mark.parametrize(
    ("fusion", "options"), [*((fusion, {}) for fusion in FUSIONS), ("queries", AUTHORS | {"keys": "embeddings"})]
)
def test_steps_equal_teacher_forcing_and_padding_changes_nothing(
    fusion: str, options: dict[str, object], laid_out: bool
) -> None:
    model, source, target, images = make(fusion, **options), padded([6, 3, 4]), padded([7, 7, 7]), pictures(3)
    whole = torch.log_softmax(model.projection(model(source, target, images)).float(), -1)
    alone = torch.log_softmax(model.projection(model(source[1:2, :3], target[1:2], images[1:2])).float(), -1)
    torch.testing.assert_close(alone[0], whole[1], rtol=0, atol=1e-6)
    state = (model.lay_out_for_search() if laid_out else model).start(source, images)
    for t in range(7):
        log_probs, state = model.step(state, target[:, t])
        torch.testing.assert_close(log_probs, whole[:, t], rtol=0, atol=1e-6)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_no_picture_is_a_blank_one(fusion: str) -> None:
    model, source, target = make(fusion), padded([4]), padded([5])
    blank = model(source, target, torch.zeros(1, REGIONS, CHANNELS))
    torch.testing.assert_close(model(source, target), blank, rtol=0, atol=1e-12)
    assert not torch.allclose(model(source, target, pictures(1)), blank)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_attentions_are_of_words_and_of_regions(fusion: str) -> None:
    model, source, target = make(fusion), padded([6]), padded([7])
    found = model.attentions(source, target, pictures(1))
    assert found["source"].shape == (1, 2, 2, 7, 6) and found["encoder"].shape == (1, 2, 2, 6, 6)
    total = found["source"].sum(-1) + (found["image"].sum(-1) if fusion != "gated" else 0)
    torch.testing.assert_close(total, torch.ones_like(total))
    assert fusion == "gated" or found["image"].shape == (1, 2, 2, 7, REGIONS)


@pytest.mark.parametrize("total", [2, 5, 500])
def test_which_picture_a_line_is_shown(total: int) -> None:
    lines = np.arange(total)
    assert choose("right", total).tolist() == lines.tolist()
    random = choose("random", total)
    assert sorted(random) == lines.tolist() and not (random == lines).any()
    assert (random == choose("random", total)).all()
    assert choose("swapped", total)[:2].tolist() == [1, 0]
    assert (np.sort(choose("swapped", total))[: total // 2 * 2] == lines[: total // 2 * 2]).all()


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines `x N` that mean `a N` or `b N`, as the picture says; every fifth raw training line is dropped."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(1)
    for split, count in (("train", 400), ("valid", 40), ("test", 40)):
        senses = rng.integers(0, 2, count)
        features = rng.normal(0, 0.1, (count, REGIONS, CHANNELS))
        features[np.arange(count), rng.integers(0, REGIONS, count), senses] += 3
        np.save(folder / f"{split}.npy", features.astype(np.float16))
        kept = [n for n in range(count) if split != "train" or n % 5]
        text = [f"{'ab'[senses[n]]} {n % 7}" for n in kept]
        (folder / f"{split}.de").write_text("".join(f"{line}\n" for line in text))
        (folder / f"{split}.en").write_text("".join(f"x {line[2:]}\n" for line in text))
    lines = {split: (folder / f"{split}.de").read_text().splitlines() for split in ("train", "valid")}
    clean = write_clean(folder / "clean", lines)
    for split in lines:
        (clean / f"{split}.en").write_text((folder / f"{split}.en").read_text())
    (clean / "train.dropped.txt").write_text("".join(f"{n + 1}\n" for n in range(0, 400, 5)))
    learn(clean, folder / "subwords", "en-de", Subwords(kind="words", size=30))
    encode_corpus(clean, folder / "subwords", folder / "encoded", "en-de")
    return folder


def test_batches_carry_the_pictures_of_their_own_lines(scenes: Path) -> None:
    config = MultimodalConfig.model_validate(settings("queries"))
    data = Parallel(scenes / "encoded", "train", None, lambda *split: pictures_of_split(config, None, scenes, *split))
    array = np.load(scenes / "train.npy")
    for indices in data.batches("64 sentences", (1, 0)):
        images = data.batch(indices).images
        assert images is not None and images.dtype == torch.float16
        raw = [n for n in range(400) if n % 5]
        assert (images.numpy() == array[[raw[i] for i in indices]]).all()
    assert Parallel(scenes / "encoded", "train").batch(np.array([0])).images is None


@pytest.mark.integration
@pytest.mark.parametrize("fusion", FUSIONS)
def test_two_passes_over_pictures_in_bf16_have_the_losses_of_fp32(scenes: Path, fusion: str) -> None:
    config = MultimodalConfig.model_validate(settings(fusion))
    data = Parallel(scenes / "encoded", "train", None, lambda *split: pictures_of_split(config, None, scenes, *split))
    batch, losses = data.batch(np.arange(20)), []
    for precision in ("fp32", "bf16"):
        training = Training.model_validate({"updates": 1, "precision": precision})
        model = make(fusion).float().train()
        losses.append(Gradients(model, training, torch.device("cpu"), 1).add(batch, consistency=1.0))
    torch.testing.assert_close(losses[1][0], losses[0][0], rtol=0.02, atol=0)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((399, REGIONS, CHANNELS), r"train\.npy: expected an array of \(400, 4, 6\).*got \(399, 4, 6\)"),
        ((400, REGIONS, 5), r"got \(400, 4, 5\)"),
        (None, r"train\.npy: expected image features, got: .*run `nmt features`"),
    ],
)
def test_features_that_do_not_fit_are_refused(
    scenes: Path, tmp_path: Path, shape: tuple[int, ...] | None, message: str
) -> None:
    config = MultimodalConfig.model_validate(settings("queries"))
    if shape:
        np.save(tmp_path / "train.npy", np.zeros(shape, np.float16))
    with pytest.raises(DataError, match=message):
        Parallel(scenes / "encoded", "train", None, lambda *split: pictures_of_split(config, None, tmp_path, *split))


def test_a_multimodal_model_asks_for_features_and_others_take_none(scenes: Path) -> None:
    text, config = TransformerConfig(), MultimodalConfig.model_validate(settings("queries"))
    split = "train", np.arange(400), 400
    assert pictures_of_split(text, None, None, *split) is no_pictures
    assert pictures_of_split(config, "blank", None, *split) is no_pictures
    with pytest.raises(ConfigError, match="--images: expected a multimodal model, got transformer"):
        pictures_of_split(text, None, scenes, *split)
    with pytest.raises(ConfigError, match="images: expected a multimodal model, got transformer"):
        pictures_of_split(text, "random", None, *split)
    with pytest.raises(ConfigError, match="--images: expected image features for a multimodal model, got none"):
        pictures_of_split(config, None, None, *split)


def test_a_training_takes_a_folder_of_features_and_no_file(scenes: Path, tmp_path: Path) -> None:
    training = "training: {batch: 100 tokens, updates: 1}"
    options = ["--config", f"{{model: {settings('queries')}, {training}}}", "--device", "cpu"]
    for images, got in ((scenes / "train.npy", "a file"), (tmp_path / "no", "which is missing")):
        code, output = run("train", scenes / "encoded", tmp_path / "run", *options, "--images", images)
        assert code == 1 and f"--images: expected a folder with train.npy and valid.npy, got {images}, {got}" in output


@pytest.fixture(scope="module")
def trained(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned to look, by the commands."""
    folder = tmp_path_factory.mktemp("trained")
    config = folder / "config.yaml"
    config.write_text(
        f"{{model: {{kind: multimodal, regions: {REGIONS}, channels: {CHANNELS}, layers: 1, width: 32, ffn: 64,"
        " heads: 2, dropout: 0}, training: {batch: 1000 tokens, updates: 150, schedule: {peak: 0.005, warmup: 20}}}"
    )
    options = ["--config", config, "--device", "cpu", "--threads", 1]
    code, output = run("train", scenes / "encoded", folder / "run", *options, "--images", scenes)
    assert code == 0, output
    code, output = run("average", folder / "run", folder / "model", "--at", "last", "--encoded", scenes / "encoded")
    assert code == 0, output
    return folder / "model"


@pytest.mark.integration
@pytest.mark.parametrize(("shown", "low", "high"), [("right", 1, 1), ("blank", 0.2, 0.8), ("random", 0.2, 0.8)])
def test_a_trained_model_writes_what_the_picture_shows(
    scenes: Path, trained: Path, tmp_path: Path, shown: str, low: float, high: float
) -> None:
    out = tmp_path / "hypotheses.txt"
    options = ["--images", scenes / "test.npy", "--config", f"{{beam: 2, images: {shown}}}", "--device", "cpu"]
    code, output = run("decode", trained, scenes / "test.en", out, *options)
    assert code == 0, output
    pairs = zip(out.read_text().splitlines(), (scenes / "test.de").read_text().splitlines(), strict=True)
    assert low <= sum(ours == reference for ours, reference in pairs) / 40 <= high


@pytest.mark.integration
def test_the_library_takes_pictures_too_and_says_where_it_looked(scenes: Path, trained: Path) -> None:
    translator = Translator.load(trained, "cpu")
    shown = translator.pictures(scenes / "test.npy", "right", 40)
    lines = (scenes / "test.en").read_text().splitlines()
    found = translator.translate_clean(lines, Decoding(beam=1), pictures=shown)
    looked = translator.attentions(lines[0], found[0][0], shown(np.array([0]))).weights["image"]
    brightest = np.load(scenes / "test.npy")[0].max(1).argmax()
    assert int(looked[-1].sum(0)[0].argmax()) == brightest


@pytest.mark.integration
def test_decoding_without_features_is_refused_and_a_model_of_text_takes_none(
    scenes: Path, trained: Path, model: Path, tmp_path: Path
) -> None:
    code, output = run("decode", trained, scenes / "test.en", tmp_path / "out", "--device", "cpu")
    assert code == 1 and "--images: expected image features" in output and not (tmp_path / "out").exists()


@pytest.mark.integration
@pytest.mark.parametrize(("head", "maps"), [("all", 4), ("1", 2), ("mean", 3)])
def test_attention_is_laid_over_the_picture(trained: Path, tmp_path: Path, head: str, maps: int) -> None:
    """Of a model with 2 layers and 2 heads, for a sentence of which it writes two words and EOS."""
    from PIL import Image

    torch.manual_seed(1)
    folder = tmp_path / "model"
    shutil.copytree(trained, folder)
    config = read_json(folder / "config.json")
    config["model"] |= {"backbone": "efficientnet-lite0", "channels": None, "regions": 49, "layers": 2}
    write_json(folder / "config.json", config)
    vocabulary = config["vocabulary"]
    fresh = build(MultimodalConfig.model_validate(config["model"]), vocabulary["source"], vocabulary["target"], 0)
    write_tensors(weights_of(fresh), folder / "weights.safetensors")
    write_json(folder / "provenance.json", {})
    Image.new("RGB", (300, 200), (200, 30, 30)).save(tmp_path / "red.png")
    options = ["--image", tmp_path / "red.png", "--out", tmp_path / "out", "--head", head, "--device", "cpu"]
    code, output = run("attention", folder, "x 1", *options)
    assert code == 0, output
    made = read_json(tmp_path / "out" / "image.json")
    pieces = len(made["translation"].split()) + 1
    assert len(made["weights"]) == (pieces if head == "mean" else maps) and {len(m) for m in made["weights"]} == {49}
    assert (tmp_path / "out" / "image.png").stat().st_size > 10_000


@pytest.mark.integration
def test_attention_over_a_picture_needs_one_and_a_model_that_sees(trained: Path, model: Path, tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "text.png").write_text("no picture")
    options = ["--image", tmp_path / "text.png", "--out", tmp_path / "out", "--device", "cpu"]
    code, output = run("attention", model, "1 2", *options)
    assert code == 1 and "--image: expected a multimodal model that attends to regions, got another" in output
    code, output = run("attention", trained, "x 1", *options)
    assert code == 1 and "text.png: expected a picture, got: cannot identify image file" in output
    Image.new("RGB", (30, 20)).save(tmp_path / "text.png")
    code, output = run("attention", trained, "x 1", *options)
    assert code == 1 and "--image: expected a model of resnet50's features, 49 regions of 2048 channels" in output


@pytest.mark.integration
def test_other_formats_and_the_page_know_what_they_cannot_hold(trained: Path, tmp_path: Path) -> None:
    code, output = run("export", trained, tmp_path / "out", "--format", "ctranslate2")
    assert code == 1 and "expected a Transformer, got a multimodal model" in output
    served = ServedModel("seeing", Translator.load(trained, "cpu"))
    assert served.sublayers == dict.fromkeys(["source", "encoder", "decoder"], (1, 2))
