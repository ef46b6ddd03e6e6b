"""The clients of the stream, and what each has still to be sent.

Of each kind of event a client has at most one waiting, the newest: a client that reads slowly sees fewer of them, and costs
no more memory than one that reads quickly. The bytes are shared by all clients.
"""

import asyncio
from collections.abc import Mapping

from mooring.dashboard.interfaces import Refused

MAX_STREAMS = 8
RETRY_S = 10
"""When a client may ask again that found too many streams open; the page polls meanwhile."""
ORDER = ("replay", "nodes", "use", "queue", "pending", "flow")
"""In which order events are sent that wait together: a client must know the nodes before their use."""


def event_bytes(name: str, data: bytes) -> bytes:
    """An event as text/event-stream has it. JSON has no line ends, so that it takes one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


class StreamClient:
    """One client: what is to be sent to it, and what wakes its sender."""

    def __init__(self) -> None:
        self._waiting: dict[str, bytes] = {}
        self.news = asyncio.Event()

    def put(self, name: str, event: bytes) -> None:
        self._waiting[name] = event
        self.news.set()

    def take(self) -> bytes:
        """All that waits, in order."""
        self.news.clear()
        waiting, self._waiting = self._waiting, {}
        return b"".join(waiting[name] for name in ORDER if name in waiting)


class Streams:
    """All clients, and the newest event of each kind for those that come."""

    def __init__(self, limit: int = MAX_STREAMS) -> None:
        self._limit = limit
        self._clients: set[StreamClient] = set()
        self._newest: dict[str, bytes] = {}
        self.is_closed = False
        self.is_watched = asyncio.Event()
        """Whether there are clients: nothing is read for the stream otherwise."""

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def newest(self) -> Mapping[str, bytes]:
        return self._newest

    def join(self) -> StreamClient:
        """A new client, which gets the newest events first. Raises Refused (503) if there are too many."""
        if self.is_closed or len(self._clients) >= self._limit:
            raise Refused(503, f"{len(self._clients)} streams are open, and no more are allowed", RETRY_S)
        client = StreamClient()
        self._clients.add(client)
        for name, event in self._newest.items():
            client.put(name, event)
        self.is_watched.set()
        return client

    def leave(self, client: StreamClient) -> None:
        """The last one takes the newest events along: when somebody comes again they would be old."""
        self._clients.discard(client)
        if not self._clients:
            self._newest.clear()
            self.is_watched.clear()

    def publish(self, name: str, data: bytes) -> None:
        """Send an event to everyone. Without clients nothing is kept."""
        if not self._clients:
            return
        event = self._newest[name] = event_bytes(name, data)
        for client in self._clients:
            client.put(name, event)

    def close(self) -> None:
        """End all streams."""
        self.is_closed = True
        for client in self._clients:
            client.news.set()
