"""The local page: its JSON interface, hostile requests, many clients at once, and a browser that reads the page."""

import asyncio
import http.client
import json
import logging
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from commands import run
from copytask import copy_lines
from starlette.types import Message

from nmt.config.decoding import Decoding
from nmt.serve.app import Translate, build, parse
from nmt.serve.batching import Queue
from nmt.serve.limits import BODY, PIECES, SAMPLES, TEXT, WORDS, Limits, Rate, Refused
from nmt.serve.models import ServedModel, load
from nmt.serve.server import bind, server
from nmt.system.files import read_json, write_json
from nmt.training.average import average
from nmt.training.experiment import Experiment
from nmt.training.train import train
from nmt.translation.export import export
from nmt.translation.translator import Translation, Translator

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

pytestmark = pytest.mark.integration  # a server, and a model that has learned to copy
FAST = Limits(rate=1e6)
MODELS = {
    "copy": {"layers": 2, "width": 64, "ffn": 128, "heads": 4, "dropout": 0.0},
    "lstm": {"kind": "recurrent", "layers": 1, "width": 32, "dropout": 0.0},
    "blind": {"kind": "recurrent", "layers": 1, "width": 32, "dropout": 0.0, "attention": {"kind": "none"}},
}
COPY = "copy/copy, seed 1, last"


@pytest.fixture(scope="module")
def folders(copy_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A Transformer that has learned to copy, and two recurrent models that have learned little."""
    folder = tmp_path_factory.mktemp("serve")
    for name, model in MODELS.items():
        fast = {"optimizer": {"kind": "muon"}, "schedule": {"peak": 0.01, "warmup": 20, "cooldown": 60}}
        training = {"batch": "1000 tokens", "validation_bleu": False} | (
            {"updates": 200, **fast} if name == "copy" else {"updates": 5}
        )
        run = folder / name
        run.mkdir()
        train(copy_corpus, run, Experiment.model_validate({"model": model, "training": training}), 1, "cpu", 1,
              f"copy/{name}")  # fmt: skip
        average(run, copy_corpus, "last", run / "model")
    return {name: folder / name / "model" for name in MODELS}


@pytest.fixture(scope="module")
def models(folders: dict[str, Path]) -> list[ServedModel]:
    return load(list(folders.values()), "cpu", 1)


@contextmanager
def live(models: list[ServedModel], limits: Limits = FAST, token: str | None = None) -> Iterator[int]:
    """A server in a thread of its own; gives its port."""
    with bind("127.0.0.1", 0) as listener:
        listener.listen()
        running = server(build(models, limits, "127.0.0.1", token=token), limits)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            running.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def port(models: list[ServedModel]) -> Iterator[int]:
    with live(models) as port:
        yield port


def call(
    port: int, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], Any]:
    """One request; a body that is not bytes is sent as JSON. Gives status, headers and the JSON answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    connection.request(method, path, data, {"Content-Type": "application/json"} | (headers or {}))
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    found = {name.lower(): value for name, value in response.getheaders()}
    return response.status, found, json.loads(answer) if "json" in found.get("content-type", "") else answer


def ask(port: int, text: str, **more: Any) -> tuple[int, dict[str, str], Any]:
    return call(port, "/api/translate", {"model": COPY, "text": text} | more)


def assert_up(port: int) -> None:
    status, _, answer = ask(port, "w1 w2 w3")
    assert status == 200 and answer["translations"][0]["text"] == "w1 w2 w3"


# What it answers


def test_the_only_model_need_not_be_named(models: list[ServedModel]) -> None:
    with live(models[:1], Limits()) as port:
        status, _, answer = call(port, "/api/translate", {"text": "w1 w2"})
    assert (status, answer["model"]) == (200, models[0].name)


def test_models_say_what_they_are(port: int, folders: dict[str, Path]) -> None:
    status, _, answer = call(port, "/api/models")
    found = {model["name"]: model for model in answer["models"]}
    assert status == 200 and list(found) == [f"copy/{name}, seed 1, last" for name in MODELS]
    assert found[COPY]["attention"] == {part: {"layers": 2, "heads": 4} for part in ("encoder", "decoder", "source")}
    assert found["copy/lstm, seed 1, last"]["attention"] == {"source": {"layers": 1, "heads": 1}}
    assert found["copy/blind, seed 1, last"]["attention"] == {}
    assert found[COPY]["parameters"] == read_json(folders["copy"] / "provenance.json")["parameters"]
    assert (found[COPY]["source"], found[COPY]["target"], found[COPY]["kind"]) == ("en", "de", "Transformer")
    assert answer["limits"] == {"words": WORDS, "bytes": TEXT, "nbest": 10}


def test_translations_are_those_of_the_library(port: int, folders: dict[str, Path]) -> None:
    translator = Translator.load(folders["copy"], "cpu")
    assert translator.model.projection.weight.t().is_contiguous()  # laid out for search
    for line in copy_lines(20, 7):
        _, _, answer = ask(port, line, nbest=3)
        [expected] = translator.translate_clean([line], Decoding(beam=5, nbest=3))
        assert [t["text"] for t in answer["translations"]] == [t.text for t in expected]
        assert [t["score"] for t in answer["translations"]] == pytest.approx([t.score for t in expected], abs=1e-4)
        assert [t["ids"] for t in answer["translations"]] == [t.ids for t in expected]


def test_whole_numbers_may_have_a_point_as_in_json(port: int) -> None:
    assert ask(port, "w1 w2", nbest=2.0)[2] == ask(port, "w1 w2", nbest=2)[2]
    status, _, answer = ask(port, "w1", nbest=2.5)
    assert (status, answer["error"]) == (422, "wrong value: nbest")


def test_settings_of_the_search_are_those_of_the_library(port: int, models: list[ServedModel]) -> None:
    status, _, answer = ask(port, "w1 w2 w3", prefix="w5", nbest=2)
    assert status == 200 and all(t["text"].startswith("w5 ") for t in answer["translations"])
    status, _, answer = ask(port, "w1 w2 w3", method="mbr", temperature=3, top_p=0.9, nbest=3, seed=1)
    drawing = Decoding(beam=1, sampling=True, samples=SAMPLES, mbr="chrf", nbest=3, temperature=3, top_p=0.9, seed=1)
    [expected] = models[0].translator.translate_clean(["w1 w2 w3"], drawing)
    assert [t["text"] for t in answer["translations"]] == [t.text for t in expected]
    status, _, first = ask(port, "w1 w2 w3", method="sampling", temperature=10, nbest=5)
    assert status == 200 and first == ask(port, "w1 w2 w3", method="sampling", temperature=10, nbest=5)[2]
    assert first != ask(port, "w1 w2 w3", method="sampling", temperature=10, nbest=5, seed=1)[2]
    status, _, answer = ask(port, "w1", prefix="zebra")
    assert status == 422 and answer["error"] == "wrong value: prefix" and "<unk>" in answer["got"]
    status, _, answer = ask(port, "w1 w2 " * (models[0].pieces // 2 + 1), prefix="w5")
    assert status == 422 and answer["error"] == "text too long", "a line with a forced beginning is not divided"
    for wrong in ({"temperature": 0}, {"top_p": 2}, {"method": "magic"}, {"seed": -1}, {"prefix": 3}):
        assert ask(port, "w1", **wrong)[0] == 422


def test_an_export_is_served_without_attention(folders: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    export(folders["copy"], tmp_path / "export", "ctranslate2")
    [served], text = load([tmp_path / "export"], "cpu", 1), " W1  w2 w3"
    described = served.description()
    assert (described["name"], described["source"], described["target"]) == ("export", "en", "de")
    assert described["attention"] == {} and "no attention" in described["no_attention"] and described["parameters"] > 0
    answer = json.loads(served.translate(text, Decoding(nbest=2)))
    expected = Translator.load(folders["copy"], "cpu", 1).nbest([text], Decoding(nbest=2))[0]
    assert answer["source"] == "w1 w2 w3" and len(answer["translations"]) == 2
    best = answer["translations"][0]
    assert (best["text"], best["ids"]) == (expected[0].text, expected[0].ids)
    assert best["score"] == pytest.approx(expected[0].score, abs=1e-3)
    with pytest.raises(Refused, match="no such sub-layer"):
        served.attention(text, best["ids"], "source", 1)
    with pytest.raises(Refused, match="no words"):
        served.translate(" ", Decoding())
    with pytest.raises(Refused, match="wrong settings"):
        served.translate(text, Decoding(temperature=2.0, sampling=True, beam=1))


@pytest.mark.parametrize("sublayer", ["source", "encoder", "decoder"])
@pytest.mark.parametrize("layer", [1, 2])
def test_attention_is_that_of_the_library(port: int, folders: dict[str, Path], sublayer: str, layer: int) -> None:
    line, ids = "w1 w2 w3 w4", [5, 6, 7]
    found = Translator.load(folders["copy"], "cpu").attentions(line, Translation("", 0.0, ids))
    question = {"model": COPY, "text": line, "ids": ids, "sublayer": sublayer, "layer": layer}
    status, _, answer = call(port, "/api/attention", question)
    assert status == 200
    weights = torch.tensor(answer["weights"])
    torch.testing.assert_close(weights, found.weights[sublayer][layer - 1], rtol=0, atol=6e-5)
    assert weights.shape == (4, len(answer["rows"]), len(answer["columns"]))
    source, target = ["<s>", "▁w1", "▁w2", "▁w3", "▁w4", "</s>"], found.target
    expected = {"source": (target[1:], source), "encoder": (source, source), "decoder": (target[1:], target[:-1])}
    assert (answer["rows"], answer["columns"]) == expected[sublayer]


def test_a_copying_model_looks_at_the_word_it_copies(port: int) -> None:
    line = "w1 w7 w3 w9 w5"
    ids = ask(port, line)[2]["translations"][0]["ids"]
    question = {"model": COPY, "text": line, "ids": ids, "sublayer": "source", "layer": 2}
    answer = call(port, "/api/attention", question)[2]
    best = torch.tensor(answer["weights"]).max(0).values  # some head finds it, there or at a neighbour's encoding
    assert all(best[t, t + 1] > 0.2 for t in range(5)), best


def test_raw_text_is_cleaned_and_answered_as_people_write(port: int, folders: dict[str, Path]) -> None:
    _, _, answer = ask(port, "  W1,  w2 & it's ")
    assert answer["source"] == "w1 , w2 &amp; it &apos;s"
    line = "w1 w2"
    assert (
        ask(port, line.upper())[2]["translations"][0]["text"]
        == Translator.load(folders["copy"], "cpu").translate([line])[0]
    )


def test_sentences_are_translated_one_by_one_and_lines_stay(port: int) -> None:
    one = {line: ask(port, line, nbest=2)[2] for line in ("W1 w2.", "W3!", "W4 w5 w6.")}
    status, _, answer = ask(port, "W1 w2. W3!\n\n\u200d\nW4 w5 w6.", nbest=2)
    texts = [[each["translations"][rank]["text"] for each in one.values()] for rank in range(2)]
    assert status == 200 and answer["sentences"] == 3
    assert [t["text"] for t in answer["translations"]] == [f"{a} {b}\n\n\n{c}" for a, b, c in texts]
    assert [t["ids"] for t in answer["translations"]] == [[], []]
    assert answer["source"] == "\n".join([f"{one['W1 w2.']['source']} {one['W3!']['source']}", "", "", "w4 w5 w6 ."])
    assert all(each["sentences"] == 1 and each["translations"][0]["ids"] for each in one.values())


def test_tabs_are_spaces_and_lines_may_end_as_on_windows(port: int) -> None:
    for prefix in ("", "w5"):
        expected, got = (ask(port, text, prefix=prefix)[2] for text in ("w1 w2\n\nw3", "w1\tw2\r\n\r\nw3"))
        assert got == expected and len(got["translations"][0]["text"].splitlines()) == 3


# Hostile requests

TRANSLATE = {"model": COPY, "text": "w1"}
ATTEND = TRANSLATE | {"ids": [5], "sublayer": "source", "layer": 1}
HOSTILE: dict[str, tuple[str, Any, int, str, str]] = {
    "zero words": ("translate", {"text": ""}, 422, "no words", "none"),
    "only spaces": ("translate", {"text": "   "}, 422, "no words", "none"),
    "5,000 words": ("translate", {"text": "w1 " * 5000}, 422, "text too long", "5,000"),
    "a word of 5,000 bytes": ("translate", {"text": "é" * 2500}, 422, "text too long", "5,000"),
    "too many pieces": ("translate", {"text": "." * 10 + " a.b" * 90 + "," * 2000}, 422, "text too long", ""),
    "long for mbr": ("translate", {"text": "w1 " * 251, "method": "mbr"}, 422, "text too long", "251"),
    "NUL": ("translate", {"text": "w1\0w2"}, 422, "control character in the text", "U+0000 at character 3"),
    "escape": ("translate", {"text": "\x1b[31mred"}, 422, "control character in the text", "U+001B at character 1"),
    "CR alone": ("translate", {"text": "w1\rw2"}, 422, "control character in the text", "U+000D at character 3"),
    "a late CR": ("translate", {"text": "w1\r\n\rw2"}, 422, "control character in the text", "U+000D at character 5"),
    "only line ends": ("translate", {"text": "\n \n"}, 422, "no words", "none"),
    "C1 control": ("translate", {"text": "w1\x85"}, 422, "control character in the text", "U+0085 at character 3"),
    "only invisible": ("translate", {"text": "\u202e\u200b"}, 422, "no words", "none left after cleaning"),
    "only a joiner": ("translate", {"text": "\u200d \ufe0f"}, 422, "no words", "none left after cleaning"),
    "HTML": ("translate", {"text": "<script>alert(1)</script>"}, 422, "markup in the text", "<script>"),
    "an image": ("translate", {"text": "w1 <img src=x onerror=alert(1)>"}, 422, "markup in the text", "<img src=x"),
    "a comment": ("translate", {"text": "<!-- w1 -->"}, 422, "markup in the text", "<!-- w1 -->"),
    "unknown model": ("translate", {"model": "../../etc"}, 404, "no such model", "../../etc"),
    "no model": ("translate", {"model": None}, 404, "no such model", "no key model"),
    "text a number": ("translate", {"text": 5}, 422, "wrong value: text", "int"),
    "text a list": ("translate", {"text": ["w1"]}, 422, "wrong value: text", "list"),
    "text null": ("translate", {"text": None}, 422, "wrong value: text", "NoneType"),
    "nbest text": ("translate", {"nbest": "5"}, 422, "wrong value: nbest", "str"),
    "nbest true": ("translate", {"nbest": True}, 422, "wrong value: nbest", "bool"),
    "nbest 0": ("translate", {"nbest": 0}, 422, "wrong value: nbest", "0"),
    "nbest huge": ("translate", {"nbest": 10**30}, 422, "wrong value: nbest", "1000000000"),
    "top_p 0": ("translate", {"top_p": 0}, 422, "wrong value: top_p", "0"),
    "unknown key": ("translate", {"beam": 500}, 422, "unknown key: beam", "beam"),
    "no such layer": ("attention", {"layer": 3}, 422, "no such layer", "3"),
    "layer 0": ("attention", {"layer": 0}, 422, "wrong value: layer", "0"),
    "no such sub-layer": ("attention", {"sublayer": "feed"}, 422, "wrong value: sublayer", "str"),
    "an id too high": ("attention", {"ids": [5, 10**6]}, 422, "no such piece", "1000000"),
    "an id below 0": ("attention", {"ids": [-1]}, 422, "no such piece", "-1"),
    "ids no list": ("attention", {"ids": "5"}, 422, "wrong value: ids", "str"),
    "too many ids": ("attention", {"ids": [5] * 600}, 422, "translation too long", "600"),
    "not JSON": ("translate", b"w1 w2", 400, "body is not JSON", ""),
    "empty body": ("translate", b"", 400, "body is not JSON", ""),
    "half JSON": ("translate", b'{"model": "co', 400, "body is not JSON", ""),
    "NaN": ("translate", b'{"model": NaN}', 422, "wrong value: model", ""),
    "a list": ("translate", b"[]", 422, "wrong value: body", "list"),
    "nested": ("translate", b"[" * 20000, 400, "body is not JSON", ""),
    "a lone surrogate": ("translate", b'{"model":"m","text":"\\ud800"}', 400, "body is not JSON", ""),
    "UTF-8 cut": ("translate", b'{"text":"\xe2\x82"}', 400, "body is not UTF-8", "byte 0xe2 at position 10"),
    "Latin-1": ("translate", '{"text":"café"}'.encode("latin1"), 400, "body is not UTF-8", "byte 0xe9 at position 13"),
    "UTF-16": ("translate", '{"text":"w1"}'.encode("utf-16"), 400, "body is not UTF-8", "byte 0xff at position 1"),
    "an HTML page": ("translate", b"<!doctype html><p>w1", 400, "body is not JSON", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_requests_get_a_clear_refusal(port: int, case: str) -> None:
    endpoint, change, status, error, got = HOSTILE[case]
    body = change if isinstance(change, bytes) else {"translate": TRANSLATE, "attention": ATTEND}[endpoint] | change
    found, headers, answer = call(port, f"/api/{endpoint}", body)
    assert (found, answer["error"]) == (status, error), answer
    assert set(answer) == {"error", "expected", "got"} and got in answer["got"] and answer["expected"]
    assert "nput" not in answer["expected"], "pydantic's own words"
    assert headers["content-type"] == "application/json"
    assert_up(port)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "error"),
    [
        ("POST", "/api/translate", {"Content-Type": "text/plain"}, 415, "wrong Content-Type"),
        ("POST", "/api/translate", {"Content-Type": "application/x-www-form-urlencoded"}, 415, "wrong Content-Type"),
        ("POST", "/api/nothing", {}, 404, "not found"),
        ("GET", "/static/../app.py", {}, 404, "not found"),
        ("GET", "/static/%2e%2e/app.py", {}, 404, "not found"),
        ("GET", "/api/translate", {}, 405, "method not allowed"),
        ("DELETE", "/", {}, 405, "method not allowed"),
        ("GET", "/", {"Host": "evil.example"}, 400, "wrong Host header"),
        ("GET", "/", {"Host": "127.0.0.1.evil.example:8000"}, 400, "wrong Host header"),
        ("GET", "/", {"Host": "[::1"}, 400, "wrong Host header"),
        ("GET", "/", {"Host": "192.168.0.7"}, 400, "wrong Host header"),
    ],
)
def test_wrong_paths_methods_types_and_hosts(
    port: int, method: str, path: str, headers: dict[str, str], status: int, error: str
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, b"{}" if method == "POST" else None, headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    assert (response.status, answer["error"]) == (status, error) and set(answer) == {"error", "expected", "got"}


def test_an_unknown_path_names_all_others(port: int) -> None:
    answer = call(port, "/api/nothing")[2]
    documented = call(port, "/openapi.json")[2]["paths"]
    assert all(path in answer["expected"] for path in [*documented, "/openapi.json"])


def test_an_unknown_key_names_all_others(port: int) -> None:
    answer = call(port, "/api/translate", TRANSLATE | {"beam": 500})[2]
    assert answer["expected"] == "one of model, text, from, to, nbest, prefix, method, temperature, top_p, seed"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"])
def test_our_own_names_are_answered(port: int, host: str) -> None:
    assert call(port, "/api/models", headers={"Host": host})[0] == 200


def exchange(port: int, *parts: bytes) -> tuple[bytes, int]:
    """Send raw bytes until the server answers; gives the answer and how many bytes were sent."""
    sent = 0
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        for part in parts:
            if select.select([connection], [], [], 0.02)[0]:
                break
            connection.sendall(part)
            sent += len(part)
        answer = b""
        with suppress(ConnectionResetError):
            while found := connection.recv(65536):
                answer += found
        return answer, sent


HEAD = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("length", "status", "error"),
    [
        (b"Content-Length: 10485760", b"413", b"body too long"),
        (b"Transfer-Encoding: chunked", b"411", b"no Content-Length"),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 10", b"411", b"no Content-Length"),
    ],
)
def test_ten_megabytes_are_refused_unread(port: int, length: bytes, status: bytes, error: bytes) -> None:
    block = b"x" * 2**16
    chunk = b"%x\r\n%b\r\n" % (len(block), block) if b"chunked" in length else block
    answer, sent = exchange(port, HEAD + length + b"\r\n\r\n", *[chunk] * 160)
    assert b" " + status + b" " in answer.splitlines()[0] and error in answer and sent < 2**20
    assert_up(port)


def test_no_byte_of_a_long_body_is_asked_for(models: list[ServedModel]) -> None:
    messages: list[Message] = []

    async def receive() -> Message:
        raise AssertionError("the body was read")

    async def send(message: Message) -> None:
        messages.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"10485760")]
    scope = {
        "type": "http", "method": "POST", "path": "/api/translate", "raw_path": b"", "query_string": b"",
        "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "http_version": "1.1",
        "scheme": "http", "root_path": "",
    }  # fmt: skip
    asyncio.run(build(models, FAST, "127.0.0.1")(scope, receive, send))
    assert messages[0]["status"] == 413 and b"at most 65,536 bytes" in messages[1]["body"]


def test_a_body_just_within_the_limit_is_read(port: int) -> None:
    body = json.dumps(TRANSLATE).encode().ljust(BODY)
    assert call(port, "/api/translate", body)[0] == 200
    assert call(port, "/api/translate", body + b" ")[0] == 413


def test_a_body_that_does_not_come_is_given_up(models: list[ServedModel]) -> None:
    with live(models, Limits(rate=1e6, upload=0.2)) as port:
        started = time.monotonic()
        answer, _ = exchange(port, HEAD + b"Content-Length: 100\r\n\r\n", b'{"model"')
        assert b" 408 " in answer and b"body too slow" in answer and time.monotonic() - started < 5
        assert_up(port)


def test_the_longest_sentence_that_is_taken_is_answered(port: int) -> None:
    status, _, answer = ask(port, " ".join(copy_lines(40, 3)[i % 40].split()[0] for i in range(WORDS)))
    assert status == 200 and len(answer["source"].split()) == WORDS and answer["sentences"] >= WORDS / PIECES


@pytest.mark.parametrize(
    "text", ["." * TEXT, "a." * (TEXT // 2), "'" * TEXT, "1," * (TEXT // 2), "\u00a0" * 1300, "<!--" * 1000]
)
def test_cleaning_takes_no_time_on_odd_text(port: int, text: str) -> None:
    started = time.monotonic()
    assert ask(port, text)[0] in (200, 422) and time.monotonic() - started < 10


def test_the_page_allows_no_stranger_in(port: int) -> None:
    for path in ("/", "/static/page.js", "/api/models"):
        status, headers, _ = call(port, path)
        policy = headers["content-security-policy"]
        assert status == 200 and "default-src 'none'" in policy and "script-src 'self';" in policy
        assert "unsafe" not in policy and headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store" and "server" not in headers
    page = Path(__file__).parent.parent.parent / "nmt/serve/page"
    code = "".join(path.read_text() for path in page.iterdir() if path.suffix != ".svg")
    assert not re.findall(r"https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|style=", code)


# Rate, queue and errors


def test_a_client_that_asks_too_often_is_told_when_to_come_back(models: list[ServedModel]) -> None:
    with live(models, Limits(rate=2, burst=1)) as port:
        found = [ask(port, "w1") for _ in range(8)]
        refused = [(headers, answer) for status, headers, answer in found if status == 429]
        assert {status for status, _, _ in found} == {200, 429} and found[0][0] == 200
        assert all(headers["retry-after"] == "1" for headers, _ in refused)
        assert refused[0][1] == {"error": "too many requests", "expected": "at most 2 a second", "got": "more"}
        time.sleep(1)
        assert_up(port)


def test_rate_counts_each_client_and_forgives_with_time() -> None:
    now = [100.0]
    rate = Rate(Limits(rate=10, burst=0.5), lambda: now[0])

    def admitted(client: str, count: int) -> int:
        done = 0
        for _ in range(count):
            try:
                rate.admit(client)
                done += 1
            except Refused as refusal:
                assert refusal.status == 429 and refusal.retry_after and refusal.retry_after > 0
        return done

    assert admitted("a", 20) == 6 and admitted("b", 20) == 6  # the burst, and the one that is due
    now[0] += 0.3
    assert admitted("a", 20) == 3
    now[0] += 100
    assert admitted("a", 20) == 6


class Slow(ServedModel):
    """A model that waits until it is told to answer."""

    def __init__(self, served: ServedModel) -> None:
        self.__dict__.update(served.__dict__)
        self.go, self.started = threading.Event(), [0]

    def translate_all(self, texts: Sequence[str], decoding: Decoding) -> list[bytes | Exception]:
        self.started[0] += len(texts)
        assert self.go.wait(20)
        return super().translate_all(texts, decoding)


def test_a_full_line_and_a_long_wait_get_503_and_other_models_go_on(models: list[ServedModel]) -> None:
    slow = Slow(models[0])
    with (
        live([slow, *models[1:]], Limits(rate=1e6, waiting=2, patience=0.5)) as port,
        ThreadPoolExecutor(8) as clients,
    ):
        first = clients.submit(ask, port, "w1 w2")
        while not slow.started[0]:
            time.sleep(0.01)
        others = [clients.submit(ask, port, "w3") for _ in range(4)]
        found = [other.result() for other in others]
        assert [status for status, _, _ in found] == [503] * 4
        assert all(headers["retry-after"] == "1" for _, headers, _ in found)
        assert sorted(answer["got"] for _, _, answer in found) == ["2 waiting", "2 waiting", "no turn", "no turn"]
        assert ask(port, "w1", model="copy/lstm, seed 1, last")[0] == 200
        slow.go.set()
        assert first.result()[2]["translations"][0]["text"] == "w1 w2" and slow.started == [1]
        assert_up(port)


def test_a_request_whose_client_has_gone_is_never_computed(models: list[ServedModel]) -> None:
    slow = Slow(models[0])
    with live([slow], Limits(rate=1e6)) as port, ThreadPoolExecutor(1) as clients:
        first = clients.submit(ask, port, "w1")
        while not slow.started[0]:
            time.sleep(0.01)
        body = json.dumps(TRANSLATE).encode()
        with socket.create_connection(("127.0.0.1", port)) as gone:
            gone.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            time.sleep(0.3)
        time.sleep(0.3)
        slow.go.set()
        assert first.result()[0] == 200
        assert_up(port)
        assert slow.started == [2]  # the first and the last


def test_a_turn_lasts_until_its_thread_is_done() -> None:
    async def run() -> list[str]:
        queue, seen, go = Queue(Limits()), [], threading.Event()
        first = asyncio.create_task(queue.run(lambda: (go.wait(5), seen.append("first"))))
        await asyncio.sleep(0.05)
        first.cancel()
        second = asyncio.create_task(queue.run(lambda: seen.append("second")))
        await asyncio.sleep(0.05)
        assert queue.busy and not seen
        go.set()
        await second
        return seen

    assert asyncio.run(run()) == ["first", "second"]


def test_an_error_in_one_request_touches_no_other_and_quotes_no_text(
    models: list[ServedModel], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ServedModel._search

    def broken(self: ServedModel, parts: Sequence[str], decoding: Decoding) -> Any:
        if any("w9" in part for part in parts):
            raise RuntimeError(f"secret {parts}")
        return whole(self, parts, decoding)

    monkeypatch.setattr(ServedModel, "_search", broken)
    with live(models) as port, ThreadPoolExecutor(4) as clients, caplog.at_level(logging.DEBUG):
        found = list(clients.map(lambda text: ask(port, text), ["w1", "w9 w9", "w2 w3", "w9", "w4"]))
    assert [status for status, _, _ in found] == [200, 500, 200, 500, 200]
    assert found[1][2] == {"error": "internal error", "expected": "an answer", "got": "RuntimeError"}
    assert "RuntimeError in test_serve.py" in caplog.text
    assert "secret" not in caplog.text and "w9" not in caplog.text


def test_eight_clients_at_once_each_get_their_own_answer(port: int, models: list[ServedModel]) -> None:
    lines = copy_lines(160, 11)
    expected = [json.loads(models[0].translate(line, Decoding(nbest=5))) for line in lines]
    with ThreadPoolExecutor(8) as clients:
        found = list(clients.map(lambda line: ask(port, line), lines))
    assert [status for status, _, _ in found] == [200] * len(lines)
    for (_, _, answer), alone in zip(found, expected, strict=True):  # a batch rounds in another order
        best, same = answer["translations"][0], alone["translations"][0]
        assert answer["source"] == alone["source"] and best["text"] == same["text"]
        assert best["score"] == pytest.approx(same["score"], abs=2e-4)


@pytest.mark.parametrize("batch", [16, 1])
def test_waiting_requests_of_one_kind_are_computed_together(batch: int) -> None:
    async def run() -> tuple[list[list[str]], list[Any]]:
        queue, seen, go = Queue(Limits(batch=batch)), list[list[str]](), threading.Event()

        def compute(items: Sequence[str]) -> list[str | Exception]:
            assert go.wait(5)
            seen.append(list(items))
            return [ValueError(item) if item == "bad" else item.upper() for item in items]

        asked = [("beam", "a"), ("beam", "b"), ("other", "c"), ("beam", "bad"), (None, "d"), (None, "e"), ("beam", "f")]
        tasks = [asyncio.create_task(queue.run_together(kind, item, compute)) for kind, item in asked]
        await asyncio.sleep(0.05)
        tasks[-1].cancel()  # while it waits
        await asyncio.sleep(0.05)
        go.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert (queue.batches, queue.batched) == (len(seen), 6)
        return seen, answers

    seen, answers = asyncio.run(run())
    together = [["b", "bad"], ["c"]] if batch > 1 else [["b"], ["c"], ["bad"]]
    assert seen == [["a"], *together, ["d"], ["e"]]
    assert answers[:3] == ["A", "B", "C"] and isinstance(answers[3], ValueError) and answers[4:6] == ["D", "E"]
    assert isinstance(answers[6], asyncio.CancelledError)


def test_a_request_that_ends_as_its_turn_comes_stops_no_other() -> None:
    async def run() -> list[Any]:
        queue = Queue(Limits())
        queue.busy = True
        tasks = [asyncio.create_task(queue.run_together("beam", n, list)) for n in range(3)]
        await asyncio.sleep(0.05)
        tasks[1].cancel()  # its task has not run since
        queue.busy = False
        queue._next()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)

    answers = asyncio.run(run())
    assert (answers[0], answers[2]) == (0, 2) and isinstance(answers[1], asyncio.CancelledError)


def test_texts_computed_together_keep_their_lines_sentences_and_errors(models: list[ServedModel]) -> None:
    texts = ["W1 w2. W3!\n\nW4 w5.", " ", "w6", "w1 " * (WORDS + 1), "w7\nw8"]
    found = models[0].translate_all(texts, Decoding(nbest=2))
    assert [str(error) for error in found if isinstance(error, Refused)] == ["no words", "text too long"]
    for text, answer in zip(texts, found, strict=True):
        if isinstance(answer, bytes):
            alone, together = json.loads(models[0].translate(text, Decoding(nbest=2))), json.loads(answer)
            assert [together[key] for key in ("source", "sentences")] == [alone[key] for key in ("source", "sentences")]
            best, same = together["translations"][0], alone["translations"][0]
            assert (best["text"], best["ids"]) == (same["text"], same["ids"])
    assert [isinstance(answer, bytes) for answer in found] == [True, False, True, False, True]


def test_metrics_count_what_was_answered(models: list[ServedModel]) -> None:
    with live(models) as port:
        ask(port, "w1")
        ask(port, "")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
    assert 'nmt_requests_total{path="/api/translate",status="200"} 1' in lines
    assert 'nmt_requests_total{path="/api/translate",status="422"} 1' in lines
    assert 'nmt_request_seconds_count{path="/api/translate"} 2' in lines
    assert f'nmt_waiting{{model="{COPY}"}} 0' in lines and "w1" not in "".join(lines)


def test_the_description_names_every_request_and_its_fields(port: int) -> None:
    described = call(port, "/openapi.json")[2]["paths"]
    assert set(described) == {"/api/models", "/api/translate", "/api/attention", "/metrics"}
    body = described["/api/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["text"] and body["properties"]["nbest"]["maximum"] == 10


def test_a_token_is_needed_where_there_is_one(models: list[ServedModel]) -> None:
    with live(models, token="a+long/secret==") as port:

        def status(path: str, **headers: str) -> tuple[int, dict[str, str]]:
            return call(port, path, None, headers)[:2]

        assert status("/api/models")[0] == status("/?token=wrong")[0] == status("/metrics")[0] == 401
        assert status("/api/models", Authorization="Bearer a+long/secret==")[0] == 200
        assert status("/api/models", Authorization="bearer a+long/secret==")[0] == 200  # HTTP ignores the case
        assert status("/api/models", Authorization="a+long/secret==")[0] == 401
        found, headers = status("/?token=a+long/secret==")
        assert found == 303 and headers["location"] == "/"
        cookie = headers["set-cookie"].partition(";")[0]
        assert "HttpOnly" in headers["set-cookie"] and "SameSite=strict" in headers["set-cookie"]
        assert status("/api/models", Cookie=cookie)[0] == 200
        assert status("/api/models", Cookie="nmt_token=other")[0] == 401


def test_an_address_for_other_machines_needs_a_token_or_the_word_that_it_has_none(tmp_path: Path) -> None:
    for options in (["--host", "0.0.0.0"], ["--host", "::"], ["--host", "192.0.2.1"]):
        code, output = run("serve", tmp_path, *options)
        assert code == 1 and "expected --token SECRET" in output
    code, output = run("serve", tmp_path, "--token", "short")
    assert code == 1 and "8 or more" in output


# The command


@contextmanager
def command(*arguments: object) -> Iterator["subprocess.Popen[str]"]:
    """`nmt serve` in a process of its own, ended with it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nmt", "serve", *map(str, arguments), "--port", "0", "--device", "cpu"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_the_command_says_where_to_look_writes_nothing_and_ends_on_interrupt(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(folders["copy"], model)
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    with command(model, "--threads", 1) as process:
        assert process.stdout and process.stdout.readline() == f"nmt: {COPY}\n"
        found = re.search(r"open http://127\.0\.0\.1:(\d+) ", process.stdout.readline())
        assert found
        assert_up(int(found[1]))
        assert ask(int(found[1]), "<b>secret</b>")[0] == 422
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (0, "", "")
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before


def fails(*arguments: object) -> str:
    code, output = run("serve", *arguments, "--device", "cpu")
    assert code == 1 and len(output.splitlines()) == 1, output
    return output


def test_a_port_in_use_is_said_before_any_model_is_loaded(tmp_path: Path) -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert f"--port {port}: the port is in use; end the program that uses it" in fails(tmp_path, "--port", port)


def test_an_address_that_is_not_ours(tmp_path: Path) -> None:
    elsewhere = fails(tmp_path, "--port", 0, "--host", "192.0.2.1", "--no-token")
    assert "this machine does not have that address" in elsewhere
    assert "--host: expected a name or address of this machine, got 'no such'" in fails(
        tmp_path, "--host", "no such", "--no-token"
    )
    assert "--host: expected a name or address of this machine, got 'my..box'" in fails(
        tmp_path, "--host", "my..box", "--no-token"
    )


def _cut(model: Path) -> None:
    (model / "weights.safetensors").write_bytes((model / "weights.safetensors").read_bytes()[:100])


def _no_vocabulary(model: Path) -> None:
    (model / "source.model").write_bytes(b"not a model")


def _no_key(model: Path) -> None:
    write_json(model / "config.json", {"model": read_json(model / "config.json")["model"]})


def _wrong_type(model: Path) -> None:
    write_json(model / "cleaning.json", ["en", "de"])


def _flipped(model: Path) -> None:
    held = bytearray((model / "weights.safetensors").read_bytes())
    held[-100] ^= 1
    (model / "weights.safetensors").write_bytes(held)


def _not_json(model: Path) -> None:
    (model / "config.json").write_text("{")


def _wrong_setting(model: Path) -> None:
    config = read_json(model / "config.json")
    write_json(model / "config.json", config | {"model": config["model"] | {"widht": 3}})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (shutil.rmtree, "no such model directory"),
        (_cut, "weights.safetensors: expected safetensors"),
        (_flipped, "weights.safetensors: expected the checksum in provenance.json"),
        (_no_vocabulary, "source.model: expected a sentencepiece model"),
        (_no_key, "config.json: expected the key vocabulary, got none"),
        (_wrong_type, "cleaning.json: expected keys and their values, got ['en', 'de']"),
        (_not_json, "config.json: expected JSON"),
        (_wrong_setting, "expected settings that this nmt knows, got the unknown key widht; if a newer nmt wrote"),
        (lambda model: (model / "target.model").unlink(), "target.model"),
    ],
)
def test_damaged_models_are_one_message(
    folders: dict[str, Path], tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    model = tmp_path / "model"
    shutil.copytree(folders["copy"], model)
    damage(model)
    found = fails(model, "--port", 0)
    assert message in found and str(model) in found


def test_names_are_made_different(folders: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(folders["copy"], tmp_path / "mine")
    shutil.copytree(folders["copy"], tmp_path / "model")
    (tmp_path / "model/provenance.json").unlink()
    found = load([folders["copy"], folders["copy"], tmp_path / "mine", tmp_path / "model"], "cpu", 1)
    assert [model.name for model in found] == [COPY, f"{COPY} (2)", "mine", str(tmp_path / "model")]


# The page, in a browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
browsing = pytest.mark.skipif(not CHROMIUM, reason="no Chromium: on Debian, apt-get install chromium")
EVIL = "<img src=x onerror=document.title='broken'>"


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: "Browser", port: int) -> Iterator["Page"]:
    """The page in a window as wide as a desktop's; nothing may be fetched elsewhere, and no script may fail."""
    with opened(browser, port) as page:
        yield page


@contextmanager
def opened(browser: "Browser", port: int, **options: Any) -> Iterator["Page"]:
    context = browser.new_context(**options)
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if "Content Security Policy" in said.text else None)
    page.on(
        "request", lambda sent: None if sent.url.startswith(f"http://127.0.0.1:{port}/") else faults.append(sent.url)
    )
    page.set_default_timeout(10_000)
    page.goto(f"http://127.0.0.1:{port}/")
    yield page
    context.close()
    assert not faults


def words(page: "Page", selector: str) -> list[str]:
    return page.locator(selector).all_inner_texts()


def reads(page: "Page", selector: str, text: str | list[str]) -> None:
    """Wait until the first such element, or for a list all of them, read as said."""
    from playwright.sync_api import expect

    found = page.locator(selector)
    expect(found.first if isinstance(text, str) else found).to_have_text(text, timeout=10_000)


def shades(page: "Page", selector: str) -> list[float]:
    """How strong each word's background is, as painted: 0 (none) to 1."""
    colours = page.locator(selector).evaluate_all("all => all.map(word => getComputedStyle(word).backgroundColor)")
    alphas = [re.search(r"/ ([0-9.e-]+)\)$", colour) for colour in colours]
    return [float(alpha[1]) if alpha else 1.0 for alpha in alphas]


@browsing
def test_typing_shows_translation_scores_and_attention(page: "Page", port: int) -> None:
    line = "w3 w1 w7 w5"
    page.locator("#text").press_sequentially(line, delay=20)
    reads(page, ".translation", line)
    found = ask(port, line)[2]["translations"]
    assert words(page, ".best label > span:nth-of-type(1)") == [t["text"] for t in found]
    assert words(page, ".score") == [f"{t['score']:.3f}".replace("-", "−") for t in found]
    reads(page, ".words button >> nth=0", line.split()[0])  # a second request: attention comes after the translation
    assert words(page, ".words button") == [*line.split(), "</s>"]
    question = {"model": COPY, "text": line, "ids": found[0]["ids"], "sublayer": "source", "layer": 2}
    weights = torch.tensor(call(port, "/api/attention", question)[2]["weights"])
    for place in (2, 0):
        page.locator(".words button").nth(place).hover()
        mean = weights.mean(0)[place]
        expected = [f"{100 * w:.0f}\u202f%" if w >= 0.005 else "" for w in mean.tolist()]
        assert words(page, ".looked small") == expected
        assert shades(page, ".looked .cell") == pytest.approx(mean.sqrt().tolist(), abs=0.01)
        heads = torch.tensor(shades(page, ".strip .cell")).view(5, -1)  # the mean, then each head
        torch.testing.assert_close(heads[1:], weights[:, place].sqrt(), rtol=0, atol=0.01)
        assert words(page, ".summary")[0].startswith(f"Highest attention from “{line.split()[place]}”: ")


@browsing
def test_layer_head_and_sublayer_can_be_chosen(page: "Page", port: int) -> None:
    line = "w2 w8"
    page.fill("#text", line)
    reads(page, ".translation", line)
    ids = ask(port, line)[2]["translations"][0]["ids"]
    page.select_option(".sublayer select", label="Decoder, self")
    page.select_option(".layer select", label="2 of 2")
    page.get_by_role("radio", name="Head 3").check()
    page.locator(".words button").nth(2).click()
    question = {"model": COPY, "text": line, "ids": ids, "sublayer": "decoder", "layer": 2}
    answer = call(port, "/api/attention", question)[2]
    assert words(page, ".words button") == ["w2", "w8", "</s>"]
    expected = torch.tensor(answer["weights"])[2, 2]
    shares = [f"{100 * w:.0f}\u202f%" if w >= 0.005 else "" for w in expected.tolist()]
    reads(page, ".looked .cell", [word + share for word, share in zip(("<s>", "w2", "w8"), shares, strict=True)])
    assert shades(page, ".looked .cell") == pytest.approx(expected.sqrt().tolist(), abs=0.01)


FOCUSED = """() => { const e = document.activeElement; return e.className || e.name || e.parentElement.className }"""


@browsing
def test_the_page_is_used_by_keyboard_alone(page: "Page") -> None:
    press = page.keyboard.press
    page.keyboard.type("w1 w2 w3")  # the field has the focus from the start
    reads(page, ".translation", "w1 w2 w3")
    page.locator(".look").wait_for()
    stops = []
    for _ in range(12):
        press("Tab")
        stops.append(page.evaluate(FOCUSED))
    stages = [
        "button",
        "examples",
        "examples",
        "settings",
        "field model",
        "copy",
        "first-rank",
        "field sublayer",
        "field layer",
        "pieces",
        "cell",
        "first-head",
    ]
    assert stops == stages
    press("ArrowDown")
    assert page.evaluate("document.activeElement.ariaLabel") == "Head 1" and page.locator(".heads :checked").count()
    press("Shift+Tab")
    press("ArrowRight")
    press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent") == "w3"
    assert words(page, ".summary")[0].startswith("Highest attention from “w3”: ")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    press("End")
    assert page.evaluate("document.activeElement.textContent") == "</s>"
    for _ in range(2):
        press("Shift+Tab")
    press("ArrowDown")  # the layer
    assert page.locator(".layer select").input_value() == "2"
    for _ in range(2):
        press("Shift+Tab")
    press("ArrowDown")  # the second best translation
    reads(page, ".translation", words(page, ".best label > span:nth-of-type(1)")[1])
    for _ in range(2):  # beyond the button that copies
        press("Shift+Tab")
    press("ArrowDown")  # the next model
    assert page.evaluate("document.activeElement.selectedOptions[0].text") == "copy/lstm, seed 1, last"


@browsing
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(browser: "Browser", port: int, scheme: str) -> None:
    size = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "color_scheme": scheme}
    with opened(browser, port, **size) as page:
        for text in ("w1 w2 w3", "w4 " * 40, "x" * 300):
            page.fill("#text", text)
            page.locator(".waiting").wait_for(state="detached")
            page.locator(".look").wait_for()
            page.wait_for_timeout(400)
            assert page.evaluate("document.documentElement.scrollWidth") == 360
        page.fill("#text", "w5 w6")
        reads(page, ".translation", "w5 w6")
        page.locator(".words button").nth(1).tap()
        assert words(page, ".summary")[0].startswith("Highest attention from “w6”: ")
        page.check("#compare")
        page.locator(".panel").nth(1).locator(".look").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def contrast(page: "Page", selector: str) -> float:
    """WCAG's contrast between a word and what is painted behind it."""
    ink, paper = page.locator(selector).first.evaluate(
        """word => { const pixel = colours => {
            const canvas = new OffscreenCanvas(1, 1).getContext("2d");
            for (const c of colours) { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); }
            return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
          const body = getComputedStyle(document.body).backgroundColor, own = getComputedStyle(word);
          return [pixel([own.color]), pixel([body, own.backgroundColor])]; }"""
    )

    def luminance(colour: list[int]) -> float:
        parts = [c / 255 for c in colour]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(ink), luminance(paper)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@browsing
def test_lines_examples_and_a_file_are_translated(page: "Page", port: int, tmp_path: Path) -> None:
    page.locator("#text").fill("w1 w2\n\nw3")
    reads(page, ".translation", "w1 w2\n\nw3")
    assert page.locator(".translation").first.text_content() == "w1 w2\n\nw3"
    assert page.locator(".copy").is_visible()
    page.locator(".examples button").first.click()
    assert page.locator("#text").input_value() == page.locator(".examples button").first.inner_text()
    lines = [*(f"w{1 + n % 9}\tw2" for n in range(220)), "", "\u200d", " w3", ""]  # two requests
    (tmp_path / "some.txt").write_bytes(("\r\n".join(lines) + "\r\n").encode())
    page.locator("#file").set_input_files(tmp_path / "some.txt")
    page.locator("#upload-result").wait_for(state="visible")
    with page.expect_download() as download:
        page.locator("#upload-result").click()
    assert download.value.suggested_filename == "some.de.txt"
    one = {line: ask(port, line)[2]["translations"][0]["text"] for line in {f"w{n} w2" for n in range(1, 10)} | {"w3"}}
    expected = [one.get(" ".join(line.split()), "") for line in lines]
    assert Path(download.value.path()).read_text().split("\n") == [*expected, ""]
    assert words(page, "#upload-note") == ["some.txt: 224 of 224 lines"]


@browsing
def test_a_file_is_divided_further_where_it_is_refused(browser: "Browser", port: int, tmp_path: Path) -> None:
    def refuse(route: "Route") -> None:
        text = json.loads(route.request.post_data or "")["text"]
        asked.append(text)
        error = {"error": "text too long", "expected": "one line", "got": "more"}
        if "\n" in text or text == "w9":
            route.fulfill(status=422, json=error)
        else:
            route.continue_()

    asked: list[str] = []
    with opened(browser, port) as page:
        page.route("**/api/translate", refuse)
        (tmp_path / "good.txt").write_text("w1\nw2\nw3\n")
        page.locator("#file").set_input_files(tmp_path / "good.txt")
        page.locator("#upload-result").wait_for(state="visible")
        assert asked == ["w1\nw2\nw3", "w1\nw2", "w1", "w2", "w3"]
        (tmp_path / "bad.txt").write_text("w1\nw9\nw2\n")
        page.locator("#file").set_input_files(tmp_path / "bad.txt")
        page.get_by_text("bad.txt: 3 of 3 lines. 1 line is left empty. Line 2: Text too long").wait_for()
        assert page.locator("#upload-stop").is_hidden()
        with page.expect_download() as download:
            page.get_by_text("Download the translation").click()
        assert Path(download.value.path()).read_text() == "w1\n\nw2\n"


@browsing
def test_the_finished_lines_of_a_file_outlive_the_server(browser: "Browser", port: int, tmp_path: Path) -> None:
    def end(route: "Route") -> None:
        route.abort() if "w9" in (route.request.post_data or "") else route.continue_()

    with opened(browser, port) as page:
        page.route("**/api/translate", end)
        (tmp_path / "long.txt").write_text("w1 w2\n" * WORDS + "w9\n")
        page.locator("#file").set_input_files(tmp_path / "long.txt")
        page.get_by_text("lines. Then: The server does not answer").wait_for()
        with page.expect_download() as download:
            page.get_by_text("Download the lines so far").click()
        assert set(Path(download.value.path()).read_text().splitlines()) == {"w1 w2"}


@browsing
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_word_stays_legible_under_any_shade(browser: "Browser", port: int, scheme: str) -> None:
    with opened(browser, port, color_scheme=scheme) as page:
        page.fill("#text", "w1 w2")
        page.locator(".look").wait_for()
        for weight in (0, 0.3, 0.7, 1):
            for kind in (".looked .cell:not(.special)", ".looked .special"):
                page.locator(kind).first.evaluate("(word, w) => word.style.setProperty('--weight', w)", weight)
                assert contrast(page, kind) >= 4.5, (kind, weight)
        for kind in (".words [aria-pressed=true]", ".note.about", ".score", ".caption", "legend", ".field"):
            assert contrast(page, kind) >= 4.5, kind


@browsing
def test_two_models_are_compared_side_by_side(page: "Page", port: int) -> None:
    page.fill("#text", "w1 w2 w3")
    page.check("#compare")
    panels = page.locator(".panel")
    panels.nth(1).locator(".look").wait_for()
    names = [panels.nth(i).locator(".model select").evaluate("s => s.selectedOptions[0].text") for i in range(2)]
    assert names == [COPY, "copy/lstm, seed 1, last"]
    expected = [ask(port, "w1 w2 w3", model=name)[2]["translations"][0]["text"] for name in names]
    reads(page, ".translation", expected)
    boxes = [panels.nth(i).bounding_box() for i in range(2)]
    assert boxes[0] and boxes[1] and boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]
    reads(page, ".panel:first-child mark", [w for w in ("w1", "w2", "w3") if w not in expected[1]])
    lstm = panels.nth(1)  # one layer, one head: nothing to choose
    assert not lstm.locator(".layer").is_visible() and not lstm.locator(".sublayer").is_visible()
    assert not lstm.locator(".heads").is_visible() and lstm.locator(".looked").is_visible()
    lstm.locator(".model select").select_option(label="copy/blind, seed 1, last")
    lstm.get_by_text("This model has no attention").wait_for()
    assert not lstm.locator(".looked").is_visible() and not lstm.locator(".controls").is_visible()
    page.uncheck("#compare")
    assert panels.count() == 1 and page.locator("mark").count() == 0


@browsing
def test_data_is_shown_as_text_never_as_markup(browser: "Browser", models: list[ServedModel]) -> None:
    evil = Slow(models[0])
    evil.name = EVIL
    evil.go.set()
    with live([evil, models[1]]) as port, opened(browser, port) as page:
        page.fill("#text", "w1 &lt;b&gt; <b")
        page.locator(".look").wait_for()
        assert words(page, ".model option")[0] == EVIL
        page.fill("#text", EVIL)
        reads(page, ".panel .message", f"Markup in the text: expected plain text, without tags, got {EVIL}.")
        assert page.locator("img").count() == 0 and page.title() == "nmt: translations and attention"


@browsing
def test_stale_answers_are_dropped(browser: "Browser", models: list[ServedModel]) -> None:
    slow = Slow(models[0])
    with live([slow]) as port, opened(browser, port) as page:
        page.fill("#text", "w1 w1 w1")
        while not slow.started[0]:
            page.wait_for_timeout(20)
        page.fill("#text", "w2 w3")
        page.locator(".waiting").wait_for()
        slow.go.set()
        reads(page, ".translation", "w2 w3")
        page.wait_for_timeout(500)
        reads(page, ".translation", "w2 w3")
        page.fill("#text", "  ")
        reads(page, ".translation", "")
        assert not page.locator(".best").is_visible() and not page.locator(".look").is_visible()


@browsing
def test_a_busy_server_is_asked_again_and_a_dead_one_is_named(browser: "Browser", models: list[ServedModel]) -> None:
    with live(models[:1], Limits(rate=1, burst=0.5)) as port, opened(browser, port) as page:
        page.fill("#text", "w1 w2")
        page.get_by_text("Too many requests").wait_for()
        page.locator(".look").wait_for()  # the page came back by itself
        page.locator(".message", has_text="Too many requests").wait_for(state="hidden")
    with live(models[:1]) as port, opened(browser, port) as page:
        page.route("**/api/*", lambda route: route.abort())
        page.fill("#text", "w1")
        page.get_by_text("The server does not answer. Is “nmt serve” still running?").wait_for()


@browsing
def test_pieces_join_to_words_and_weights_with_them(page: "Page") -> None:
    """Against the definition: a word's rows averaged, its columns summed."""
    rows, columns = ["▁kl", "eine", "▁&apos;", "</s>"], ["<s>", "▁a", "▁sm", "a", "ll", "</s>"]
    weights = torch.rand(4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    weights /= weights.sum(1, keepdim=True)
    found = page.evaluate(
        """async ([rows, columns, weights]) => {
            const { tokens, between } = await import("/static/words.js");
            const r = tokens(rows, true, true), c = tokens(columns, true, false);
            const texts = found => found.map(token => token.text);
            return [texts(r), texts(c), between(weights, r, c), tokens(columns, false).length]; }""",
        [rows, columns, weights.tolist()],
    )
    assert found[:2] == [["kleine", "'", "</s>"], ["<s>", "a", "small", "</s>"]] and found[3] == 6
    summed = torch.stack([weights[:, 0], weights[:, 1], weights[:, 2:5].sum(1), weights[:, 5]], 1)
    expected = torch.stack([summed[:2].mean(0), summed[2], summed[3]])
    torch.testing.assert_close(torch.tensor(found[2], dtype=torch.double), expected)
    assert torch.tensor(found[2]).sum(1).tolist() == pytest.approx([1, 1, 1])


def test_a_missing_key_is_named() -> None:
    with pytest.raises(Refused) as refused:
        parse(Translate, b'{"model": "a", "txt": "a"}')
    expected = {"error": "missing key: text", "expected": "an object with text", "got": "model, txt"}
    assert (refused.value.status, refused.value.content) == (422, expected)
