"""Send hostile requests to `nmt serve`: each must be answered or refused, and the server must go on.

    python -m benchmarks.serve_hostile [--model demo] [--requests 1000] [--seed 1]

A fault is a status of 500, a refusal that is no JSON object with ``error``, ``expected`` and ``got``, an answer that
does not come, or an error in the output of the server. HTTP that cannot be read may end in a closed connection or in
one line of plain text. Between the requests, a plain one must get its right answer.
"""

import http.client
import json
import random
import re
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nmt.serve.limits import BODY, TEXT, WORDS

PATIENCE = 60  # seconds until an answer counts as lost; a busy machine may take long for 1,000 pieces
ATONCE = 8  # requests that are sent at the same time
PLAIN = "A dog runs across the grass."
ODD: list[Any] = [
    None, True, -1, 0, 1, 2.5, 7.0, 10**9, 2**63, 10**5000, 1e308, float("nan"), float("inf"), "", "x", "5", "\x1b[2J",
    "../../etc/passwd", "é" * 3000, [], {}, [[]], {"": {}}, ["a", 1], list(range(3000)), "\u202e", [None], "a" * 40_000,
]  # fmt: skip
PATHS = [
    "/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2f..%2fpyproject.toml", "/static/....//app.py",
    "//etc/passwd", "/static//etc/passwd", "/%00", "/static/page.js%00.png", "/static/" + "a/" * 900, "/\\..\\..",
    "/static/%c0%ae%c0%ae/app.py", "/static/%", "/static/%zz", "/api/translate/../models", "/api/%74ranslate", "*",
    "http://evil.example/", "/?token=%ff%fe", "/api/models?" + "a=b&" * 2000, "/" + "%F0%9F%92%A9" * 300, "/static/",
]  # fmt: skip
CONTROLS = [chr(code) for code in (0, 7, 0x0D, 0x1B, 0x7F, 0x85)]
UNUSUAL = [
    *(chr(code) for code in (0xA0, 0x200B, 0x200D, 0x202E, 0x2028, 0xFEFF, 0xFFFD, 0xFFFF, 0xE0041, 0x10FFFF)),
    *("a", "é", "ß", "İ", "ﬁ", "क", "ि", "्", "ا", "漢", "😀", "\U0001f1e9", "\n", " ", "<", "▁", "&amp;", "&#0;"),
    *("''", '"', "\\", "${x}", "{{7*7}}", "1" * 50, "." * 50, "<s>", "<unk>"),
]
ENCODINGS = ["utf-16", "utf-32", "latin-1", "utf-8-sig", "cp037", "utf-7"]
Texts = dict[str, Any]


@dataclass
class Answer:
    """What came back: the kind of the request, the HTTP status (0: closed, -1: lost), the seconds and the fault."""

    kind: str
    status: int
    seconds: float
    fault: str


class Attacker:
    """Makes hostile requests as bytes, from a seed."""

    def __init__(self, model: str, seed: int) -> None:
        self.model, self.random = model, random.Random(seed)
        self.kinds: dict[str, Callable[[], Sequence[bytes]]] = {
            "malformed JSON": self.malformed, "wrong types": self.types, "huge bodies": self.huge,
            "control characters": lambda: self.post(self.question(self.odd_text(CONTROLS))),
            "lone surrogates": self.surrogates, "wrong encodings": self.encodings, "odd text": self.odd,
            "path tricks": self.path, "headers": self.header, "cut short": self.cut, "slow": self.slow,
            "no HTTP": lambda: [self.random.randbytes(self.random.randint(1, 3000))],
        }  # fmt: skip

    def make(self) -> tuple[str, Sequence[bytes]]:
        """Return the name of a kind and the parts of a request, which are sent with pauses."""
        rare = self.random.random() < 0.95  # a slow request takes seconds
        kind = self.random.choice([name for name in self.kinds if name != "slow" or not rare])
        return kind, self.kinds[kind]()

    def question(self, text: str, **more: Any) -> Texts:
        """The body of a request, for a translation or for attention."""
        attention = {"ids": [5, 6], "sublayer": "source", "layer": 1} if self.random.random() < 0.3 else {}
        return {"model": self.model, "text": text} | attention | more

    def post(self, body: Any, length: int | None = None, path: str | None = None) -> list[bytes]:
        """A request with this body, as JSON if it is no bytes, and this length in its header."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode("utf-8", "surrogatepass")
        path = path or ("/api/attention" if b'"ids"' in data else "/api/translate")
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        return [f"{head}Content-Length: {len(data) if length is None else length}\r\n\r\n".encode() + data]

    def malformed(self) -> Sequence[bytes]:
        """JSON with bytes changed, removed, repeated or nested."""
        data = bytearray(json.dumps(self.question(PLAIN)).encode())
        for _ in range(self.random.randint(1, 4)):
            place = self.random.randrange(len(data))
            match self.random.randrange(4):
                case 0:
                    data[place] = self.random.randrange(256)
                case 1:
                    del data[place:]
                    data += b" "
                case 2:
                    data[place:place] = data[place : place + 20] * 3
                case 3:
                    data[place:place] = self.random.choice([b"[", b'{"a":', b'"']) * self.random.randint(1, 5000)
        return self.post(bytes(data[:BODY]))

    def types(self) -> Sequence[bytes]:
        """A key has a value of another type or size, is missing, or is unknown."""
        question = self.question(PLAIN)
        key = self.random.choice([*question, "nbest", "prefix", "method", "temperature", "top_p", "seed", "\0", "beam"])
        question[key] = self.random.choice(ODD)
        if self.random.random() < 0.2:
            del question[self.random.choice(list(question))]
        return self.post(json.dumps(question).encode() if self.random.random() < 0.9 else self.random.choice(ODD))

    def huge(self) -> Sequence[bytes]:
        """A body above the limit, or a text at a limit, or a length in the header that is not the body's."""
        text = self.random.choice(["a" * TEXT, "a " * WORDS, "." * TEXT, "a." * (TEXT // 2), "漢" * 1333])
        length = self.random.choice([None, None, BODY + 1, 10**10, 10**30])
        body = self.random.choice([text, "a" * 10 * BODY, text * 3])
        return self.post(self.question(body), length)

    def odd_text(self, characters: Sequence[str] = UNUSUAL) -> str:
        """A plain sentence with such characters in it."""
        words = PLAIN.split(" ")
        for _ in range(self.random.randint(1, 30)):
            words.insert(self.random.randint(0, len(words)), self.random.choice(characters))
        return self.random.choice(["", " "]).join(words)

    def odd(self) -> Sequence[bytes]:
        """Unusual text, with settings of the search."""
        method = self.random.choice(["beam", "sampling", "mbr"])
        more = {"method": method, "nbest": self.random.randint(1, 10), "prefix": self.odd_text()[:9]}
        return self.post({"model": self.model, "text": self.odd_text()} | (more if self.random.random() < 0.3 else {}))

    def surrogates(self) -> Sequence[bytes]:
        """Half of a pair, as an escape or as bytes, in a value or in a key."""
        half = self.random.choice(["\ud800", "\udfff", "\udc00\ud800"])
        data = json.dumps(self.question(f"A {half} dog")).encode()
        raw = half.encode("utf-8", "surrogatepass")
        return self.post(self.random.choice([data, data.replace(b"\\u", raw), data.replace(b'"text"', b'"\\ud800"')]))

    def encodings(self) -> Sequence[bytes]:
        """JSON in another encoding, with a mark of its order, or said to be in another."""
        text = json.dumps(self.question("Ein Mädchen läuft."), ensure_ascii=False)
        return self.post(text.encode(self.random.choice(ENCODINGS)))

    def path(self) -> Sequence[bytes]:
        """A path that leads out of the page's folder, is not known, or cannot be decoded."""
        path, method = self.random.choice(PATHS), self.random.choice(["GET", "GET", "HEAD", "POST", "PUT", "TRACE"])
        if method == "POST":
            return self.post(self.question(PLAIN), path=path)
        return [f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()]

    def header(self) -> Sequence[bytes]:
        """A header that is wrong, repeated, too long or too frequent."""
        [request] = self.post(self.question(PLAIN))
        lines = [
            b"Content-Length: 5", b"Content-Length: -1", b"Content-Length: 1_0", b"Transfer-Encoding: chunked",
            b"Transfer-Encoding: gzip, chunked", b"Host: evil.example", b"Host:", b"Content-Type: text/plain",
            b"Content-Encoding: gzip", b"Expect: 100-continue", b"Upgrade: websocket\r\nConnection: Upgrade",
            b"Authorization: Bearer \xff\xfe", b"Cookie: nmt_token=\xe9; ;;=", b"X: " + b"a" * 70_000,
            b"A: b\r\n" * 3000 + b"A: c", b"X\0Y: z", b" folded: x", b"No colon", b"X-Forwarded-For: 1.2.3.4",
        ]  # fmt: skip
        chosen = self.random.sample(lines, self.random.randint(1, 2))
        if self.random.random() < 0.3:  # in the place of the right one
            request = re.sub(rb"(Host|Content-\w+): [^\r]*\r\n", b"", request, count=self.random.randint(1, 3))
        start, _, rest = request.partition(b"\r\n")
        return [start + b"\r\n" + b"\r\n".join(chosen) + b"\r\n" + rest]

    def cut(self) -> Sequence[bytes]:
        """A request that ends early."""
        [request] = self.post(self.question(PLAIN))
        return [request[: self.random.randrange(1, len(request))], b""]

    def slow(self) -> Sequence[bytes]:
        """A request that comes byte by byte."""
        [request] = self.post(self.question(PLAIN))
        start = self.random.choice([1, request.index(b"\r\n\r\n") + 5])  # within the header, or within the body
        return [request[:start], *(request[i : i + 1] for i in range(start, len(request)))]


def send(port: int, kind: str, parts: Sequence[bytes]) -> Answer:
    """Send a request and read what comes back; an empty part ends the sending."""
    started, received = time.monotonic(), b""
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
            with suppress(ConnectionError):
                for part in parts:
                    connection.sendall(part) if part else connection.shutdown(socket.SHUT_WR)
                    if len(parts) > 2 and select.select([connection], [], [], 0.3)[0]:
                        break
            if kind in ("no HTTP", "headers", "huge bodies", "slow"):
                with suppress(OSError):  # the length in the header may be more than what was sent
                    connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while block := connection.recv(65536):
                    received += block
    except TimeoutError:
        return Answer(kind, -1, PATIENCE, "no answer")
    status = int(match[1]) if (match := re.match(rb"HTTP/1\.1 (\d+)", received)) else 0
    return Answer(kind, status, time.monotonic() - started, fault(kind, status, received))


def fault(kind: str, status: int, received: bytes) -> str:
    """What is wrong with an answer; empty if it is as it should be."""
    body = received.partition(b"\r\n\r\n")[2]
    if b"Traceback" in received or status == 500:
        return f"{status}: {body[:80]!r}"
    if status == 0:
        return "" if kind in ("no HTTP", "headers", "cut short", "slow", "path tricks", "huge bodies") else "closed"
    if status < 400 or not body or body == b"Invalid HTTP request received.":
        return ""
    try:
        return "" if set(json.loads(body)) == {"error", "expected", "got"} else f"{status}: {body[:80]!r}"
    except ValueError:
        return f"{status}: {body[:80]!r}"


def plain_answer(port: int, question: Texts) -> Any:
    """The answer to a plain request; raises an error if the server gives no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", "/api/translate", json.dumps(question), {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer["translations"][0]["text"]


@contextmanager
def serving(model: Path, output: Any) -> Iterator[int]:
    """Run the server in its own process; give its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "nmt", "serve", str(model), "--port", str(port), "--rate", "1e6", "--threads", "1"]
    process = subprocess.Popen([*command, "--device", "cpu"], stdout=output, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait()


@click.command()
@click.option("--model", type=click.Path(path_type=Path), default=Path("demo"), show_default=True)
@click.option("--requests", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(model: Path, requests: int, seed: int) -> None:
    """Print the statuses of each kind of request; exit code 1 on a fault."""
    sys.set_int_max_str_digits(0)  # for 10**5000 in JSON
    with tempfile.TemporaryFile("w+b") as output:
        with serving(model, output) as port:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            connection.request("GET", "/api/models")
            name = json.loads(connection.getresponse().read())["models"][0]["name"]
            attacker, question = Attacker(name, seed), {"model": name, "text": PLAIN}
            expected, answers = plain_answer(port, question), list[Answer]()
            with ThreadPoolExecutor(ATONCE) as pool:
                while len(answers) < requests:
                    made = [attacker.make() for _ in range(min(40, requests - len(answers)))]
                    answers += pool.map(lambda one: send(port, *one), made)
                    if plain_answer(port, question) != expected:
                        answers.append(Answer("a plain request", 200, 0.0, "another translation"))
        output.seek(0)
        printed = output.read().decode(errors="replace")
    print("| kind | requests | statuses | longest, s | faults |\n|---|---|---|---|---|")
    for kind in sorted({answer.kind for answer in answers}):
        of_kind = [answer for answer in answers if answer.kind == kind]
        statuses = ", ".join(f"{s or 'closed'}: {n}" for s, n in sorted(Counter(a.status for a in of_kind).items()))
        faults = [answer.fault for answer in of_kind if answer.fault]
        longest = max(answer.seconds for answer in of_kind)
        print(f"| {kind} | {len(of_kind)} | {statuses} | {longest:.1f} | {'; '.join(sorted(set(faults))) or 0} |")
    wrong = "Traceback" in printed or "open requests go on" in printed
    print(f"\n{len(answers):,} requests; the server printed {'an error' if wrong else 'no error'}.")
    if wrong:
        print(printed[-3000:], file=sys.stderr)
    sys.exit(wrong or any(answer.fault for answer in answers))


if __name__ == "__main__":
    main()
