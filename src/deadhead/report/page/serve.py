"""The page of a study, live: a small server that reads and never writes.

    with served("my-studies") as server: ...      http://127.0.0.1:8321/

It has three addresses: `/` is the page, `/content.json` what it is drawn from (requested every few
seconds, answered with 304 if nothing changed), `/record.json?id=ID` one record in full.
`?study=NAME` picks a study of a folder; two are compared. NAME must be one of the studies in the
folder, so no path leads out of it. The server answers only this machine, and only under a name
of this machine: a web page elsewhere cannot read it, not even if its host name points here.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from deadhead.errors import DeadheadError

from .html import assembled
from .library import Library, as_json

PORT = 8321
MOST_FIELDS = 50  # of a query
LOOPBACK = "127.0.0.1"
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ServeError(DeadheadError):
    """The page cannot be served: the port is in use, or the address is not of this machine."""


class Refused(Exception):
    """A request that gets no page; it has the status and the text of the answer."""

    def __init__(self, status: HTTPStatus, text: str):
        self.status, self.text = status, text
        super().__init__(text)


class Server(ThreadingHTTPServer):
    """Knows the studies, and under which names it answers."""

    daemon_threads = True

    def __init__(self, library: Library, host: str, port: int, *, any_name: bool):
        self.library, self.any_name = library, any_name
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)

    @property
    def url(self) -> str:
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def allows(self, host: str | None) -> bool:
        """Does a Host header name this machine?"""
        if self.any_name:
            return True
        try:
            name = urlsplit(f"//{host or ''}")
            return name.hostname in LOCAL_NAMES and (name.port or 80) == self.server_address[1]
        except ValueError:
            return False


class Handler(BaseHTTPRequestHandler):
    """One request: GET or HEAD of one of three addresses."""

    server: Server
    server_version = "deadhead"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        try:
            kind, body, etag = self._answer()
        except Refused as refused:
            self._send(refused.status, "text/plain", f"{refused.text}\n".encode())
        except DeadheadError as problem:  # a study that is just being changed, or damaged
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{problem}\n".encode())
        except Exception:  # a bug: the terminal shows it, and the reader is not left waiting
            text = b"deadhead failed; see the terminal it runs in\n"
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain", text)
            raise
        else:
            if etag and self.headers.get("If-None-Match") == etag:
                self._send(HTTPStatus.NOT_MODIFIED, kind, b"", etag)
            else:
                self._send(HTTPStatus.OK, kind, body, etag)

    do_HEAD = do_GET

    def _answer(self) -> tuple[str, bytes, str]:
        if not self.server.allows(self.headers.get("Host")):
            raise Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "use the name localhost; other names are answered only with --host",
            )
        try:
            url = urlsplit(self.path)
            query = parse_qs(url.query, max_num_fields=MOST_FIELDS)
        except ValueError as problem:
            text = f"this address cannot be read: {problem}"
            raise Refused(HTTPStatus.BAD_REQUEST, text) from None
        names = list(dict.fromkeys(query.get("study", [])))
        library = self.server.library
        if unknown := [name for name in names if name not in library.studies()]:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no study {unknown[0]!r} here")
        if url.path == "/content.json":
            return "application/json", *library.body(names)
        if url.path == "/":
            page = assembled(library.payload(names), live=library.body(names)[1])
            return "text/html", page.encode("utf-8", "replace"), ""
        if url.path == "/record.json":
            return "application/json", as_json(self._record(names, query.get("id", [""])[0])), ""
        raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here; the page is at /")

    def _record(self, names: list[str], trial: str) -> dict[str, Any]:
        try:
            return self.server.library.record(names[0] if names else "", trial)
        except DeadheadError as problem:
            raise Refused(HTTPStatus.NOT_FOUND, problem.message) from problem

    def _send(self, status: HTTPStatus, kind: str, body: bytes, etag: str = "") -> None:
        self.send_response(status)
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        if etag:
            self.send_header("ETag", etag)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # every method but GET and HEAD
            return self._not_allowed
        raise AttributeError(name)

    def _not_allowed(self) -> None:
        self.close_connection = True  # a body may follow, which nobody reads
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"this server is read-only\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: str | Path, *, host: str | None = None, port: int = PORT) -> Iterator[Server]:
    """A server of a study or of a folder of studies; call `serve_forever` on it."""
    library = Library(Path(folder))
    try:
        server = Server(library, host or LOOPBACK, port, any_name=host is not None)
    except OSError as problem:
        raise _error(problem, host or LOOPBACK, port) from problem
    except OverflowError:
        raise ServeError(
            f"`port` expects a number from 0 to 65535, got {port}.",
            "write --port 0 for any free port",
        ) from None
    try:
        yield server
    finally:
        server.server_close()


def _error(problem: OSError, host: str, port: int) -> ServeError:
    if problem.errno == errno.EADDRINUSE:
        hint = "name another with --port, or 0 for any free port"
        return ServeError(f"port {port} of {host} is in use.", hint)
    if problem.errno in (errno.EACCES, errno.EPERM):
        return ServeError(f"port {port} may not be used.", "name one above 1023 with --port")
    reason = problem.strerror or os.strerror(problem.errno or 0)
    return ServeError(f"{host} is not an address of this machine ({reason}).", "leave out --host")
