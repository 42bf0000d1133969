"""Listening on an address, and ending by a signal."""

import ipaddress
import socket
from collections.abc import Callable

import uvicorn

from fedorbit.errors import ConfigError
from fedorbit.serve.app import build_app
from fedorbit.serve.catalog import Catalog
from fedorbit.serve.guard import Guard

ENDING_S = 3
"""Seconds that answers under way may take once the server is to end."""


class Listening:
    """A socket on which nothing is answered yet; its address is known, and is free for sure."""

    def __init__(self, host: str, port: int) -> None:
        try:
            [found, *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            family, _, _, _, target = found
            self._socket = socket.create_server(target[:2], family=family)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigError(
                f"cannot listen on {host}, port {port} ({reason}); choose another --host or "
                "--port, 0 for any free port"
            ) from None
        self._host = host
        bound = self._socket.getsockname()
        self.is_loopback = ipaddress.ip_address(bound[0]).is_loopback
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{bound[1]}/"

    def serve(self, catalog: Catalog, announce: Callable[[], None]) -> None:
        """Answer until a signal comes, which is raised again as `KeyboardInterrupt`."""
        app = Guard(build_app(catalog, lambda: server.should_exit), names=(self._host, "localhost"))
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                lifespan="off",
                ws="none",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=ENDING_S,
            )
        )
        announce()
        server.run(sockets=[self._socket])
