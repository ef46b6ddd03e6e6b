"""Creates many objects on the API server of KUBECONFIG, over several connections. Objects that exist stay as they are."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from mooring.api.api_errors import ApiError
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.apiclient.lean_client import LeanClient

SENDERS = 32


async def create(path: str, items: Iterable[dict[str, Any]]) -> None:
    left = iter(items)
    async with LeanClient(find_connection(), "bench", SENDERS) as client:

        async def send() -> None:
            for item in left:
                try:
                    await client.send("POST", path, json.dumps(item).encode())
                except ApiError as refusal:
                    if refusal.reason != "AlreadyExists":
                        raise

        await asyncio.gather(*(send() for _ in range(SENDERS)))
