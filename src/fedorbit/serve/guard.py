"""Access control: which requests are answered, and what a browser may do with an answer.

The server is for pages of its own alone. A page of the web that is open in the same browser must
not read runs: not by a domain name of its own that resolves to this address (DNS rebinding), hence
the check of `Host`; and not by requests across origins, hence the checks of `Origin` and
`Sec-Fetch-Site`.
"""

import ipaddress
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
METHODS = ("GET", "HEAD")


class Guard:
    """Refuses requests that are not of the server's own pages, and adds headers to all answers."""

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        """Wrap an application; `names` are its host names, beside numeric addresses."""
        self._app = app
        self._names = {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return  # neither web sockets nor start-up hooks are in use
        answer: ASGIApp = self._app
        if refusal := self._refusal(scope["method"], Headers(scope=scope)):
            code, sentence = refusal
            answer = PlainTextResponse(f"{sentence}\n", code)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await answer(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str] | None:
        if method not in METHODS:
            return 405, "This server only answers GET: nothing can be changed through it."
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._is_ours(hosts[0]):
            return 421, "This server does not answer under that name; use localhost or --host."
        if any(origin != f"http://{hosts[0]}" for origin in origins):
            return 403, "Pages of other origins may not ask this server."
        to_look_at = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == (
            "navigate",
            "document",
        )
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not to_look_at:
            return 403, "Pages of other origins may not ask this server."
        return None

    def _is_ours(self, host: str) -> bool:
        """Return whether a `Host` is a name of this server, or an address, which cannot be rebound.

        The port is not compared: it differs if the request comes through a tunnel.
        """
        name, _, port = host.rpartition(":") if host[-1:] != "]" and ":" in host else (host, "", "")
        if port and not (port.isascii() and port.isdigit()):
            return False
        if name.lower() in self._names:
            return True
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True
