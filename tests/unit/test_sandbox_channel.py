"""A sandboxed process can only send valid JSON messages."""

import socket

import pytest

from anabranch.sandbox.channel import Channel, MalformedMessage


@pytest.mark.parametrize("line", ['{"a": NaN}', '{"a": -Infinity}', '{"a": 1e999}', "[1]", "{", "[" * 50_000, "\xff"])
def test_s4_what_is_no_message_is_garbled(line: str) -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(line.encode("latin-1") + b"\n")
        with pytest.raises(MalformedMessage):
            list(Channel(here).receive())
