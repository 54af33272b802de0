"""Server-sent events, line by line."""

from typing import NamedTuple

__all__ = ["Message", "Messages"]


class Message(NamedTuple):
    """A message: its event name, its id (if it has one) and its data."""

    name: str
    id: str | None
    data: str


class Messages:
    """Builds messages from lines; an incomplete message at the end is dropped."""

    def __init__(self) -> None:
        """Before the first line."""
        self._begin()

    def _begin(self) -> None:
        self._name = "message"
        self._id: str | None = None
        self._data: list[str] = []

    def read(self, line: str) -> Message | None:
        """The message that this line completes, if any."""
        if not line:
            return self._end()
        field, _, value = line.partition(":")
        self._take(field, value.removeprefix(" "))
        return None

    def _take(self, field: str, value: str) -> None:
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        elif field == "id":
            self._id = value

    def _end(self) -> Message | None:
        message = Message(self._name, self._id, "\n".join(self._data)) if self._data else None
        self._begin()
        return message
