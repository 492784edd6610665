"""The token that requests must bring if the server is open to other machines."""

import hmac
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from nmt.serve.limits import Refused

COOKIE = "nmt_token"


class Door:
    """Lets requests in that bring the token: as a bearer, as a cookie, or as ``/?token=``, which sets the cookie."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        headers = Headers(scope=scope)
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        bearer = bearer if scheme.lower() == "bearer" else ""
        if self._fits(bearer) or self._fits(cookie_parser(headers.get("cookie", "")).get(COOKIE, "")):
            return await self.app(scope, receive, send)
        given = parse_qs(scope["query_string"].decode("latin-1").replace("+", "%2B")).get("token", [""])[0]
        if scope["path"] == "/" and self._fits(given):
            response = RedirectResponse("/", 303)
            response.set_cookie(COOKIE, given, httponly=True, samesite="strict")
            return await response(scope, receive, send)
        expected = "the token of `nmt serve`, as /?token=TOKEN or in the header Authorization: Bearer TOKEN"
        refusal = Refused(401, "no access", expected, "another one" if bearer or given else "none").response()
        refusal.headers["WWW-Authenticate"] = "Bearer"
        await refusal(scope, receive, send)

    def _fits(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token)
