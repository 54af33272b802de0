"""A tiled TIFF of 50 GB that nobody stores: a server on loopback computes the ranges that are asked for."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
from numpy.typing import NDArray

from tests.support.objects import Cloud

__all__ = ["SIDE", "SIZE", "TILE", "pixels_at", "serve_huge_tiff"]

SIDE, TILE = 163_840, 512
ACROSS = SIDE // TILE
TILE_BYTES = TILE * TILE * 2
KEYS = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 3857)
HEAD_BYTES = 4096
OFFSETS_AT = HEAD_BYTES
COUNTS_AT = OFFSETS_AT + 8 * ACROSS**2
PIXELS_AT = -(-(COUNTS_AT + 8 * ACROSS**2) // TILE_BYTES) * TILE_BYTES
SIZE = PIXELS_AT + TILE_BYTES * ACROSS**2
ETAG = '"huge"'


def pixels_at(row: int, column: int, height: int, width: int) -> NDArray[np.uint16]:
    """The pixels of a window: a slope with steps, which repeats nowhere near."""
    rows, columns = np.arange(row, row + height)[:, None], np.arange(column, column + width)[None]
    return (1 + (rows * 3 + columns * 5) // 16 % 60_000).astype("<u2")


def read_range(start: int, end: int) -> bytes:
    """The bytes of the file from `start` up to `end`."""
    parts, at = [], start
    while at < end:
        begin, data = _part(at)
        parts.append(data[at - begin : end - begin])
        at += len(parts[-1])
    return b"".join(parts)


def _part(at: int) -> tuple[int, bytes]:
    """The part of the file that a byte is in, and where that begins: its head with all indexes, or one tile."""
    if at < PIXELS_AT:
        return 0, _head()
    number = (at - PIXELS_AT) // TILE_BYTES
    return PIXELS_AT + number * TILE_BYTES, _tile(number)


@lru_cache(64)
def _tile(number: int) -> bytes:
    row, column = divmod(number, ACROSS)
    return pixels_at(row * TILE, column * TILE, TILE, TILE).tobytes()


@lru_cache(1)
def _head() -> bytes:
    count = ACROSS**2
    offsets = (PIXELS_AT + np.arange(count, dtype="<u8") * TILE_BYTES).tobytes()
    counts = np.full(count, TILE_BYTES, "<u8").tobytes()
    scale, tie = struct.pack("<3d", 10, 10, 0), struct.pack("<6d", 0, 0, 0, 0, 1_000_000, 0)
    keys = struct.pack(f"<{len(KEYS)}H", *KEYS)
    room = {33550: 1024, 33922: 1088, 34735: 1152}  # where values are that don't fit into their tags
    tags = [
        (256, 4, 1, SIDE), (257, 4, 1, SIDE), (258, 3, 1, 16), (259, 3, 1, 1), (262, 3, 1, 1), (277, 3, 1, 1),
        (284, 3, 1, 1), (322, 3, 1, TILE), (323, 3, 1, TILE), (324, 16, count, OFFSETS_AT), (325, 16, count, COUNTS_AT),
        (339, 3, 1, 1), (33550, 12, 3, room[33550]), (33922, 12, 6, room[33922]), (34735, 3, len(KEYS), room[34735]),
    ]  # fmt: skip
    head = bytearray(PIXELS_AT)
    directory = struct.pack("<2sHHHQQ", b"II", 43, 8, 0, 16, len(tags)) + b"".join(
        struct.pack("<HHQQ", *tag) for tag in tags
    )
    for place, data in (
        (0, directory), (room[33550], scale), (room[33922], tie), (room[34735], keys),
        (OFFSETS_AT, offsets), (COUNTS_AT, counts),
    ):  # fmt: skip
        head[place : place + len(data)] = data
    return bytes(head)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(200, SIZE)

    def do_GET(self) -> None:
        if self.headers.get("If-Match", ETAG) != ETAG:
            self._answer(412, 0)
            return
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        data = read_range(first, min(last + 1, SIZE))
        self._answer(206, len(data), f"bytes {first}-{first + len(data) - 1}/{SIZE}")
        self.wfile.write(data)

    def _answer(self, status: int, length: int, part: str = "") -> None:
        self.send_response(status)
        headers = {"Content-Length": str(length), "ETag": ETAG, "Last-Modified": formatdate(0, usegmt=True)}
        for name, value in (headers | ({"Content-Range": part} if part else {})).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_said: object) -> None:
        """Nothing is logged."""


@contextmanager
def serve_huge_tiff() -> Iterator[Cloud]:
    """A bucket in which every key is this file."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        keys = {"access_key_id": "emulated", "secret_access_key": "emulated-secret", "region": "us-east-1"}
        yield Cloud(
            "s3://huge/below", {**keys, "endpoint": f"http://127.0.0.1:{server.server_port}", "allow_http": True}
        )
        server.shutdown()
