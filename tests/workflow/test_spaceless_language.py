"""English to Chinese from raw text: nothing is segmented, and BLEU is of characters."""

import itertools
import json
from pathlib import Path

import pytest
from commands import run

PAIRS = "en-zho_Hans"
WHO = {"The teacher": "老师", "The doctor": "医生", "My friend": "我的朋友", "The child": "孩子", "We": "我们"}
WHERE = {
    "at the station": "在车站",
    "in the park": "在公园里",
    "at school": "在学校",
    "at home": "在家",
    "here": "在这",
}
WHEN = {"today": "今天", "tomorrow": "明天", "now": "现在", "every day": "每天"}
WHAT = {
    "reads a book": "看书",
    "waits for a bus": "等公车",
    "sings": "唱歌",
    "drinks tea": "喝茶",
    "writes": "写字",
}


def sentences() -> list[tuple[str, str]]:
    pairs = [
        (f"{who} {what} {where} {when}.", f"{WHEN[when]}，{WHO[who]}{WHERE[where]}{WHAT[what]}。")
        for who, what, where, when in itertools.product(WHO, WHAT, WHERE, WHEN)
    ]
    return [pairs[i * 211 % len(pairs)] for i in range(len(pairs))]  # in another order


@pytest.mark.integration
def test_a_model_of_raw_chinese_is_scored_by_characters(tmp_path: Path) -> None:
    pairs, files = sentences(), {}
    for split, part in {"train": pairs[:400], "valid": pairs[400:450], "test": pairs[450:]}.items():
        for side, code in enumerate(("en", "zho_Hans")):
            path = tmp_path / f"{split}.{code}"
            path.write_text("".join(f"{pair[side]}\n" for pair in part), encoding="utf-8")
            files.setdefault(split, {})[code] = str(path)
    corpus = {"train": files["train"], "valid": files["valid"], "tests": {"test": files["test"]}}
    at = {
        name: tmp_path / name for name in ("raw", "clean", "subwords", "encoded", "run", "model", "decoded", "scores")
    }
    at["hypotheses"] = at["decoded"] / "hypotheses.txt"
    model = {"layers": 1, "width": 64, "ffn": 128, "heads": 4, "dropout": 0}
    schedule = {"peak": 0.004, "warmup": 30}
    training = {"batch": "1000 tokens", "updates": 200, "schedule": schedule}
    (tmp_path / "config.yaml").write_text(json.dumps({"model": model, "training": training}))
    recipe, pieces = json.dumps({"lowercase": False}), json.dumps({"kind": "unigram", "size": 200, "joint": False})
    for command in (
        ["download", "own", PAIRS, at["raw"], "--custom", json.dumps(corpus)],
        ["clean", at["raw"], at["clean"], "--languages", PAIRS, "--config", recipe],
        ["subwords", at["clean"], at["subwords"], "--languages", PAIRS, "--config", pieces],
        ["encode", at["clean"], at["subwords"], at["encoded"], "--languages", PAIRS],
        ["train", at["encoded"], at["run"], "--config", tmp_path / "config.yaml", "--device", "cpu", "--threads", 1],
        ["average", at["run"], at["model"], "--at", "last", "--encoded", at["encoded"]],
        ["decode", at["model"], at["clean"] / "test.en", at["hypotheses"], "--threads", 1],
        ["score", at["hypotheses"], "--clean", at["clean"], "--raw", at["raw"], "--test", "test", "--languages", PAIRS,
         "--model", at["model"], "--out", at["scores"]],
    ):  # fmt: skip
        code, output = run(*command)
        assert code == 0, (command[0], output)
    scores = json.loads((at["scores"] / "scores.json").read_text())
    for protocol in ("tokenised", "detokenised"):
        assert "tok:zh|" in scores[protocol]["bleu"]["signature"]
        assert scores[protocol]["bleu"]["score"] > 60
    assert " " not in (at["scores"] / "hypotheses.detok").read_text(encoding="utf-8")
    translated = run("translate", at["model"], "--threads", 1, text=f"{pairs[0][0]} {pairs[1][0]}\n")[1]
    assert translated.count("。") == 2 and " " not in translated
