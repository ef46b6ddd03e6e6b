"""The requests that leader election makes."""

from typing import Any, Protocol

from mooring.apiclient.transport import Params


class LeaseClient(Protocol):
    """The methods of ApiClient that elector and candidate use."""

    async def get(self, path: str, params: Params | None = None) -> Any: ...

    async def post(self, path: str, body: Any, params: Params | None = None) -> Any: ...

    async def put(self, path: str, body: Any, params: Params | None = None) -> Any: ...
