"""The ASGI application: three JSON endpoints, the page, and checks of every request."""

import asyncio
import ipaddress
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.config.decoding import Decoding
from nmt.config.problems.words import expectation
from nmt.config.types import Strict
from nmt.serve.batching import Queue
from nmt.serve.describe import openapi
from nmt.serve.door import Door
from nmt.serve.limits import BODY, NBEST, SAMPLES, TEXT, TEXT_PIECES, WORDS, Limits, Rate, Refused, shown
from nmt.serve.metrics import TYPE, Metrics
from nmt.serve.models import ServedModel

PAGE = Path(__file__).parent / "page"
JSON = "application/json"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
log = logging.getLogger("nmt.serve")
QuestionType = TypeVar("QuestionType", bound="Question")
Result = TypeVar("Result")


def _whole(value: Any) -> Any:
    """Turn 5.0 into 5: both are the same integer in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]


class Question(Strict):
    """The fields of every request."""

    model: str | None = Field(None, description="name of the model; needed if several are served")


class Sentence(Question):
    """A request about one sentence; from and to are needed where the model was trained on several pairs."""

    text: str
    source: str | None = Field(None, alias="from", max_length=16, description="language of the text")
    to: str | None = Field(None, max_length=16, description="language to translate into")


class Translate(Sentence):
    """The body of POST /api/translate."""

    nbest: Whole = Field(5, ge=1, le=NBEST)
    prefix: str = Field("", max_length=TEXT)
    method: Literal["beam", "sampling", "mbr"] = "beam"
    temperature: float = Field(1.0, ge=0.1, le=10)
    top_p: float = Field(1.0, gt=0, le=1)
    seed: Whole = Field(0, ge=0, lt=2**32)

    def decoding(self) -> Decoding:
        """Return the settings of the search; temperature, top_p and seed are those of sampling."""
        if self.method == "beam":
            return Decoding(beam=max(self.nbest, Decoding().beam), nbest=self.nbest, prefix=self.prefix)
        mbr = "chrf" if self.method == "mbr" else None
        return Decoding(
            beam=1, sampling=True, samples=SAMPLES if mbr else self.nbest, mbr=mbr, nbest=self.nbest,
            prefix=self.prefix, temperature=self.temperature, top_p=self.top_p, seed=self.seed,
        )  # fmt: skip


class Attention(Sentence):
    """The body of POST /api/attention."""

    ids: list[Whole] = Field(max_length=TEXT_PIECES)
    sublayer: Literal["source", "encoder", "decoder"]
    layer: Whole = Field(ge=1)


class Application:
    """The endpoints, with one queue per model."""

    def __init__(self, models: Sequence[ServedModel], limits: Limits) -> None:
        self.models = {model.name: model for model in models}
        self.queues = {model.name: Queue(limits) for model in models}
        self.limits, self.rate, self.metrics = limits, Rate(limits), Metrics()

    async def page(self, _: Request) -> Response:
        """GET /"""
        return FileResponse(PAGE / "page.html")

    async def describe(self, _: Request) -> Response:
        """GET /api/models"""
        limits = {"words": WORDS, "bytes": TEXT, "nbest": NBEST}
        return JSONResponse({"models": [model.description() for model in self.models.values()], "limits": limits})

    async def translate(self, request: Request) -> Response:
        """POST /api/translate"""

        def work(queue: Queue, model: ServedModel, q: Translate) -> Awaitable[bytes]:
            decoding, model = q.decoding(), model.toward(q.to, q.source)
            kind = None if decoding.sampling else (*model.languages, decoding.model_dump_json())  # samples: alone
            return queue.run_together(kind, q.text, lambda texts: model.translate_all(texts, decoding))

        return await self._answer(request, Translate, work)

    async def attention(self, request: Request) -> Response:
        """POST /api/attention"""

        def work(queue: Queue, model: ServedModel, q: Attention) -> Awaitable[bytes]:
            model = model.toward(q.to, q.source)
            return queue.run(lambda: model.attention(q.text, q.ids, q.sublayer, q.layer))

        return await self._answer(request, Attention, work)

    async def count(self, _: Request) -> Response:
        """GET /metrics"""
        return Response(self.metrics.text(self.queues), media_type=TYPE)

    async def openapi(self, _: Request) -> Response:
        """GET /openapi.json"""
        return JSONResponse(openapi({"/api/translate": Translate, "/api/attention": Attention}))

    async def _answer(
        self,
        request: Request,
        shape: type[QuestionType],
        work: Callable[[Queue, ServedModel, QuestionType], Awaitable[bytes]],
    ) -> Response:
        """Answer a request and count it."""
        started = time.perf_counter()
        response = await self._answered(request, shape, work)
        self.metrics.count(request.url.path, response.status_code, time.perf_counter() - started)
        return response

    async def _answered(
        self,
        request: Request,
        shape: type[QuestionType],
        work: Callable[[Queue, ServedModel, QuestionType], Awaitable[bytes]],
    ) -> Response:
        """Check, read and answer a request. An error ends only this request, and no message or log quotes its text."""
        try:
            self.rate.admit(request.client.host if request.client else "")
            question = parse(shape, await read(request, self.limits))
            name = next(iter(self.models)) if question.model is None and len(self.models) == 1 else question.model
            if name is None or name not in self.models:
                got = shown(name) if name is not None else "no key model"
                raise Refused(404, "no such model", ", ".join(map(shown, self.models)), got)
            model = self.models[name]
            answer = work(self.queues[model.name], model, question)
            return Response(await _while_connected(request, answer), media_type=JSON)
        except Refused as refusal:
            return refusal.response()
        except Exception as error:
            return _internal(error)


def build(
    models: Sequence[ServedModel], limits: Limits, host: str, allowed: Sequence[str] = (), token: str | None = None
) -> ASGIApp:
    """Build the application that serves these models.

    Args:
        models: at least one; their names must differ.
        limits: rate, queue and times.
        host: the name or address that the server is bound to; requests to it are answered.
        allowed: further names, in small letters; requests to them are answered too.
        token: what every request must bring; None if nothing.
    """
    application = Application(models, limits)
    routes = [
        Route("/", application.page),
        Route("/api/models", application.describe),
        Route("/api/translate", application.translate, methods=["POST"]),
        Route("/api/attention", application.attention, methods=["POST"]),
        Route("/metrics", application.count),
        Route("/openapi.json", application.openapi),
        Mount("/static", StaticFiles(directory=PAGE)),
    ]
    handlers = {HTTPException: _no_such_page, Exception: lambda _, error: _internal(error)}
    app: ASGIApp = Starlette(routes=routes, exception_handlers=handlers)
    return Guard(Door(app, token) if token else app, host, allowed)


class Guard:
    """Rejects requests whose Host header does not name this server, and adds security headers to responses.

    With DNS rebinding, a foreign page can make a browser send requests to this server under the foreign site's name;
    the Host header shows that name. A numeric address cannot be rebound, so a server on a wildcard host accepts all of
    them.
    """

    def __init__(self, app: ASGIApp, host: str, allowed: Sequence[str] = ()) -> None:
        self.app = app
        self.names = {"localhost", "127.0.0.1", "::1", host.lower(), *allowed}
        self.wildcard = host in ("0.0.0.0", "::")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        host = Headers(scope=scope).get("host", "")
        if self._is_ours(host):
            with suppress(Exception):  # Starlette has answered and logged it, and would have uvicorn print a traceback
                await self.app(scope, receive, send_with_headers)
            return
        expected = "the name or address that `nmt serve` printed, or one of --allow-host"
        refusal = Refused(400, "wrong Host header", expected, shown(host))
        await refusal.response()(scope, receive, send_with_headers)

    def _is_ours(self, header: str) -> bool:
        try:
            name = (urlsplit(f"//{header}").hostname or "").rstrip(".")
            return name in self.names or (self.wildcard and bool(ipaddress.ip_address(name)))
        except ValueError:
            return False


async def read(request: Request, limits: Limits) -> bytes:
    """Read the body of a JSON request; a body that is too long is refused before it is read.

    Raises:
        Refused: wrong type, no length, too long, too slow, or cut short.
    """
    headers = request.headers
    if (kind := headers.get("content-type", "").partition(";")[0].strip().lower()) != JSON:
        raise Refused(415, "wrong Content-Type", JSON, shown(kind) or "none")
    if "transfer-encoding" in headers or "content-length" not in headers:
        raise Refused(411, "no Content-Length", f"the body's length, at most {BODY:,} bytes", "a body without one")
    if (length := int(headers["content-length"])) > BODY:
        raise Refused(413, "body too long", f"at most {BODY:,} bytes", f"{length:,}")
    try:
        async with asyncio.timeout(limits.upload):
            return await request.body()
    except TimeoutError:
        raise Refused(408, "body too slow", f"the whole body within {limits.upload:g} s", "a part of it") from None
    except ClientDisconnect:
        raise Refused(400, "body cut short", f"{length:,} bytes", "fewer") from None


def parse(shape: type[QuestionType], body: bytes) -> QuestionType:
    """Parse the body of a request; raises Refused."""
    try:
        return shape.model_validate_json(body.decode("utf-8"), strict=True)
    except UnicodeDecodeError as error:
        where = f"byte 0x{body[error.start]:02x} at position {error.start + 1}"
        raise Refused(400, "body is not UTF-8", "JSON in UTF-8", where) from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            raise Refused(400, "body is not JSON", "a JSON object", shown(first["msg"])) from None
        where = ".".join(map(str, first["loc"])) or "body"
        if first["type"] == "missing":
            needed = [name for name, field in shape.model_fields.items() if field.is_required()]
            got = shown(", ".join(first["input"])) or "an empty object"
            raise Refused(422, f"missing key: {where}", f"an object with {', '.join(needed)}", got) from None
        if first["type"] == "extra_forbidden":
            allowed = ", ".join(field.alias or name for name, field in shape.model_fields.items())
            raise Refused(422, f"unknown key: {shown(where)}", f"one of {allowed}", shown(where)) from None
        raise Refused(422, f"wrong value: {shown(where)}", expectation(first), _got(first)) from None


def _got(problem: ErrorDetails) -> str:
    """Describe a wrong value: a number out of range itself, otherwise only its type, since it could be the text."""
    out_of_range = problem["type"].startswith(("greater_than", "less_than"))
    return shown(problem["input"]) if out_of_range else type(problem["input"]).__name__


async def _while_connected(request: Request, work: Awaitable[Result]) -> Result:
    """Return the result of the work, or cancel it if the client disconnects and nobody reads the answer."""
    job, disconnect = asyncio.ensure_future(work), asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({job, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if job.done():
            return job.result()
        raise Refused(499, "the client disconnected", "a client that waits", "none")
    finally:
        job.cancel()
        disconnect.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _internal(error: Exception) -> Response:
    """Answer with status 500 and log the place of an error, but not its message, which could quote the text."""
    at = error.__traceback__
    while at and at.tb_next:
        at = at.tb_next
    where = f"{Path(at.tb_frame.f_code.co_filename).name}, line {at.tb_lineno}" if at else "nowhere"
    log.error("nmt serve: a request failed: %s in %s", type(error).__name__, where)
    return Refused(500, "internal error", "an answer", type(error).__name__).response()


def _no_such_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    requested = f"{request.method} {request.url.path}"
    known = "GET /, GET /api/models, POST /api/translate, POST /api/attention, GET /openapi.json, GET /metrics"
    response = Refused(error.status_code, error.detail.lower(), known, shown(requested)).response()
    response.headers.update(error.headers or {})  # a wrong method needs the header Allow
    return response
