"""The floor of live measurements: a client that lists nodes and pods and binds the pods round-robin, deciding nothing.

python benchmarks/floor.py KUBECONFIG

The CPU time that a scheduler in Python takes beyond this is the price of its decisions, watches, cache, queue and events. The
kubeconfig is JSON with a token, as a script writes it that starts an API server for a measurement. The program goes on until
it is stopped, so that its CPU time can be read after the last pod is bound.
"""

import asyncio
import json
import ssl
import sys
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop

CONNECTIONS = 64
"""As many as `mooring run` has for binds."""


class Connection:
    """One connection that is kept open; one request at a time."""

    def __init__(self, kubeconfig: dict[str, Any]) -> None:
        server = urlsplit(kubeconfig["clusters"][0]["cluster"]["server"])
        self._address = server.hostname, server.port
        self._head = f"Host: {server.netloc}\r\nAuthorization: Bearer {kubeconfig['users'][0]['user']['token']}\r\n"
        self._head += "Content-Type: application/json\r\n"

    async def open(self, trusting: ssl.SSLContext) -> "Connection":
        self._in, self._out = await asyncio.open_connection(*self._address, ssl=trusting, limit=1 << 26)
        return self

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The body of the answer. Exits on a refusal."""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Length: {len(body)}\r\n\r\n"
        self._out.write(head.encode() + body)
        status, *headers = (await self._in.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        length = next((int(each.split(":")[1]) for each in headers if each.startswith("content-length:")), None)
        parts = [] if length is None else [await self._in.readexactly(length)]
        while length is None:  # in chunks
            size = int(await self._in.readuntil(b"\r\n"), 16)
            parts.append((await self._in.readexactly(size + 2))[:size])
            if not size:
                break
        answer = b"".join(parts)
        if not status.split()[1].startswith("2"):
            sys.exit(f"floor: {method} {path}: {status}: {answer.decode()}")
        return answer


async def run(kubeconfig: dict[str, Any]) -> None:
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # without the authorities of the system
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    first = await Connection(kubeconfig).open(trusting)
    nodes = json.loads(await first.ask("GET", "/api/v1/nodes"))["items"]
    pods = json.loads(await first.ask("GET", "/api/v1/pods?fieldSelector=spec.nodeName="))["items"]
    # An API server closes a connection without a request after half a minute, so that these are opened after the lists.
    connections = await asyncio.gather(*(Connection(kubeconfig).open(trusting) for _ in range(CONNECTIONS)))
    names = (node["metadata"]["name"] for node in cycle(nodes))
    pairs = (
        (pod["metadata"]["namespace"], pod["metadata"]["name"], node) for pod, node in zip(pods, names, strict=False)
    )

    async def bind_some(connection: Connection) -> None:
        for namespace, name, node in pairs:
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
            path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
            await connection.ask("POST", path, json.dumps(binding).encode())

    await asyncio.gather(*(bind_some(connection) for connection in connections))
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(run(json.loads(Path(sys.argv[1]).read_text())))
