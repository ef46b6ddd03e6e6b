"""The body of a write through the general HTTP library, which leaves only while the lease lasts."""

from typing import Any

import aiohttp

from mooring.kit.fence import Fence


class FencedBody(aiohttp.BytesPayload):
    """Asks the fence when the library hands the body to the socket: a server acts on no request without its body.

    What remains: bytes that the socket does not take at once wait in the transport and leave unchecked. Requests of more
    than a few KiB through a proxy are the only case; every other write goes through `quick_connection`.
    """

    def __init__(self, value: bytes, content_type: str, fence: Fence) -> None:
        super().__init__(value, content_type=content_type)
        self._fence = fence

    async def write(self, writer: Any) -> None:
        self._check()
        await super().write(writer)

    async def write_with_length(self, writer: Any, content_length: int | None) -> None:
        self._check()
        await super().write_with_length(writer, content_length)

    def _check(self) -> None:
        """An OSError is what the library passes on to the one who waits for the answer, who then asks the fence too."""
        if not self._fence.is_open:
            raise ConnectionAbortedError("the lease has run out: this instance must not write")
