"""The ASGI application: three JSON endpoints, the page, and what keeps strangers and accidents out."""

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.config.types import Strict
from nmt.serve.limits import BODY, NBEST, TEXT, WORDS, Limits, Line, Rate, Refused, shown
from nmt.serve.models import Served

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
Asked = TypeVar("Asked", bound="Question")
Result = TypeVar("Result")


class Question(Strict):
    """What every request says."""

    model: str
    text: str


class Translate(Question):
    """POST /api/translate."""

    nbest: int = Field(5, ge=1, le=NBEST)


class Attention(Question):
    """POST /api/attention."""

    ids: list[int] = Field(max_length=BODY)
    sublayer: Literal["source", "encoder", "decoder"]
    layer: int = Field(ge=1)


class Application:
    """The endpoints."""

    def __init__(self, models: Sequence[Served], limits: Limits) -> None:
        self.models = {model.name: model for model in models}
        self.lines = {model.name: Line(limits) for model in models}
        self.limits, self.rate = limits, Rate(limits)

    async def page(self, _: Request) -> Response:
        """GET /"""
        return FileResponse(PAGE / "page.html")

    async def describe(self, _: Request) -> Response:
        """GET /api/models"""
        limits = {"words": WORDS, "bytes": TEXT, "nbest": NBEST}
        return JSONResponse({"models": [model.description() for model in self.models.values()], "limits": limits})

    async def translate(self, request: Request) -> Response:
        """POST /api/translate"""
        return await self._answer(request, Translate, lambda model, asked: model.translate(asked.text, asked.nbest))

    async def attention(self, request: Request) -> Response:
        """POST /api/attention"""
        return await self._answer(
            request, Attention, lambda model, a: model.attention(a.text, a.ids, a.sublayer, a.layer)
        )

    async def _answer(
        self, request: Request, shape: type[Asked], compute: Callable[[Served, Asked], bytes]
    ) -> Response:
        """Admit, read, compute. What goes wrong ends this request alone; its text is in no message and no log."""
        try:
            self.rate.admit(request.client.host if request.client else "")
            asked = parse(shape, await read(request, self.limits))
            if asked.model not in self.models:
                raise Refused(404, "no such model", ", ".join(map(shown, self.models)), shown(asked.model))
            model = self.models[asked.model]
            work = self.lines[model.name].run(lambda: compute(model, asked))
            return Response(await _while_there(request, work), media_type=JSON)
        except Refused as refusal:
            return refusal.response()
        except Exception as error:
            return _internal(error)


def build(models: Sequence[Served], limits: Limits, host: str) -> ASGIApp:
    """The application that serves these models.

    Args:
        models: at least one; names differ.
        limits: rate, line and times.
        host: what the server is bound to; requests by that name are answered too.
    """
    own = Application(models, limits)
    routes = [
        Route("/", own.page),
        Route("/api/models", own.describe),
        Route("/api/translate", own.translate, methods=["POST"]),
        Route("/api/attention", own.attention, methods=["POST"]),
        Mount("/static", StaticFiles(directory=PAGE)),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={HTTPException: _no_such_page}), host)


class Guard:
    """Answers only requests that name this server, and adds the headers that keep other sites out.

    A page of a stranger can make a browser send requests here under the stranger's own name (DNS rebinding); then the
    Host header is that name. An address in digits cannot be rebound, so on a wildcard host every one is taken.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self.app = app
        self.names = {"localhost", "127.0.0.1", "::1", host.lower()}
        self.wildcard = host in ("0.0.0.0", "::")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        host = Headers(scope=scope).get("host", "")
        if self._is_ours(host):
            return await self.app(scope, receive, send_with_headers)
        refusal = Refused(400, "wrong Host header", "the name or address that `nmt serve` printed", shown(host))
        await refusal.response()(scope, receive, send_with_headers)

    def _is_ours(self, header: str) -> bool:
        try:
            name = urlsplit(f"//{header}").hostname or ""
            return name in self.names or (self.wildcard and bool(ipaddress.ip_address(name)))
        except ValueError:
            return False


async def read(request: Request, limits: Limits) -> bytes:
    """The body of a JSON request; one that is too long is refused unread.

    Raises:
        Refused: wrong type, no length, too long, or too slow.
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
        raise Refused(408, "body too slow", f"all of it within {limits.upload:g} s", "less") from None
    except ClientDisconnect:
        raise Refused(400, "body cut short", f"{length:,} bytes", "fewer") from None


def parse(shape: type[Asked], body: bytes) -> Asked:
    """A body as what was asked; raises Refused."""
    try:
        return shape.model_validate_json(body.decode("utf-8"), strict=True)
    except UnicodeDecodeError as error:
        where = f"byte 0x{body[error.start]:02x} at position {error.start + 1}"
        raise Refused(400, "body is not UTF-8", "JSON in UTF-8", where) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise Refused(400, "body is not JSON", "a JSON object", shown(first["msg"])) from None
        where = ".".join(map(str, first["loc"])) or "body"
        raise Refused(422, f"wrong value: {shown(where)}", first["msg"], _got(first)) from None


def _got(problem: ErrorDetails) -> str:
    """What a request said: a number out of range, but of anything else the kind alone, as it could be the text."""
    if problem["type"] == "missing":
        return "nothing"
    out_of_range = problem["type"] in ("greater_than_equal", "less_than_equal")
    return shown(problem["input"]) if out_of_range else type(problem["input"]).__name__


async def _while_there(request: Request, work: Awaitable[Result]) -> Result:
    """What work gives; it is given up when the client goes, so that nobody waits for an answer that nobody reads."""
    job, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({job, gone}, return_when=asyncio.FIRST_COMPLETED)
        if job.done():
            return job.result()
        raise Refused(499, "the client went", "a client that waits", "none")
    finally:
        job.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _internal(error: Exception) -> Response:
    """Say that something broke, and log where, but not the message: it could quote the text."""
    at = error.__traceback__
    while at and at.tb_next:
        at = at.tb_next
    where = f"{Path(at.tb_frame.f_code.co_filename).name}, line {at.tb_lineno}" if at else "nowhere"
    log.error("nmt serve: a request failed: %s in %s", type(error).__name__, where)
    return Refused(500, "internal error", "an answer", type(error).__name__).response()


def _no_such_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    asked = f"{request.method} {request.url.path}"
    known = "GET /, GET /api/models, POST /api/translate, POST /api/attention"
    response = Refused(error.status_code, error.detail.lower(), known, shown(asked)).response()
    response.headers.update(error.headers or {})  # Allow, where the method is wrong
    return response
