"""The page of a study, live: a small server that reads and never writes.

    with served("my-studies") as server: ...      http://127.0.0.1:8321/

Three addresses: `/` is the page, `/content.json` what it is drawn from (asked again every few seconds,
answered 304 while nothing changed), `/record.json?id=ID` one record in full. `?study=NAME` picks a study of
a folder, given twice compares. NAME is looked up among the studies found, so no path leads out of the folder.
Only this machine can ask, and only under a name of this machine: a web page elsewhere cannot, not even one
whose host name was made to point here.
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
from .library import Shelf, as_json

PORT = 8321
MOST_FIELDS = 50  # of a query
LOOPBACK = "127.0.0.1"
OURS = ("localhost", "127.0.0.1", "::1")
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ServeError(DeadheadError):
    """The page cannot be served as asked: the port is taken, the address is not of this machine."""


class Refused(Exception):
    """A request that gets no page; the status and the words for it."""

    def __init__(self, status: HTTPStatus, words: str):
        self.status, self.words = status, words
        super().__init__(words)


class Server(ThreadingHTTPServer):
    """Knows the studies, and under which names it may be asked."""

    daemon_threads = True

    def __init__(self, shelf: Shelf, host: str, port: int, *, any_name: bool):
        self.shelf, self.any_name = shelf, any_name
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)

    @property
    def url(self) -> str:
        host, port = str(self.server_address[0]), self.server_address[1]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/"

    def allows(self, host: str | None) -> bool:
        """Whether a Host header names this machine."""
        if self.any_name:
            return True
        try:
            asked = urlsplit(f"//{host or ''}")
            return asked.hostname in OURS and (asked.port or 80) == self.server_address[1]
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
            kind, body, mark = self._answer()
        except Refused as refused:
            self._send(refused.status, "text/plain", f"{refused.words}\n".encode())
        except DeadheadError as problem:  # of a study that is just being changed, or damaged
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{problem}\n".encode())
        except Exception:  # a bug: told in the terminal, and the reader is not left waiting
            self._send(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "text/plain",
                b"deadhead failed; the terminal it runs in says why\n",
            )
            raise
        else:
            if mark and self.headers.get("If-None-Match") == mark:
                self._send(HTTPStatus.NOT_MODIFIED, kind, b"", mark)
            else:
                self._send(HTTPStatus.OK, kind, body, mark)

    do_HEAD = do_GET

    def _answer(self) -> tuple[str, bytes, str]:
        if not self.server.allows(self.headers.get("Host")):
            raise Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "ask for localhost; another name is only answered with --host",
            )
        try:
            asked = urlsplit(self.path)
            query = parse_qs(asked.query, max_num_fields=MOST_FIELDS)
        except ValueError as problem:
            raise Refused(
                HTTPStatus.BAD_REQUEST, f"this address cannot be read: {problem}"
            ) from None
        names = list(dict.fromkeys(query.get("study", [])))
        shelf = self.server.shelf
        if unknown := [name for name in names if name not in shelf.studies()]:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no study {unknown[0]!r} here")
        if asked.path == "/content.json":
            return "application/json", *shelf.body(names)
        if asked.path == "/":
            payload = shelf.payload(names)
            return (
                "text/html",
                assembled(payload, live=shelf.body(names)[1]).encode("utf-8", "replace"),
                "",
            )
        if asked.path == "/record.json":
            return "application/json", as_json(self._record(names, query.get("id", [""])[0])), ""
        raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here; the page is at /")

    def _record(self, names: list[str], trial: str) -> dict[str, Any]:
        try:
            return self.server.shelf.record(names[0] if names else "", trial)
        except DeadheadError as problem:
            raise Refused(HTTPStatus.NOT_FOUND, problem.message) from problem

    def _send(self, status: HTTPStatus, kind: str, body: bytes, mark: str = "") -> None:
        self.send_response(status)
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        if mark:
            self.send_header("ETag", mark)
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
        self._send(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"this server can only be read\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(folder: str | Path, *, host: str | None = None, port: int = PORT) -> Iterator[Server]:
    """A server of a study, or of a folder of studies; it answers once `serve_forever` is called on it."""
    shelf = Shelf(Path(folder))
    try:
        server = Server(shelf, host or LOOPBACK, port, any_name=host is not None)
    except OSError as problem:
        raise _refused(problem, host or LOOPBACK, port) from problem
    except OverflowError:
        raise ServeError(
            f"there is no port {port}.", "name one from 1 to 65535, or 0 for any that is free"
        ) from None
    try:
        yield server
    finally:
        server.server_close()


def _refused(problem: OSError, host: str, port: int) -> ServeError:
    if problem.errno == errno.EADDRINUSE:
        return ServeError(
            f"port {port} of {host} is taken.",
            "name another with --port, or 0 for any that is free",
        )
    if problem.errno in (errno.EACCES, errno.EPERM):
        return ServeError(f"port {port} may not be used.", "name one above 1023 with --port")
    return ServeError(
        f"{host} is not an address of this machine ({problem.strerror or os.strerror(problem.errno or 0)}).",
        "leave --host away",
    )
