"""A plain client for live measurements: it lists nodes and pods with aiohttp and binds the pods in turn, deciding nothing.

python benchmarks/plain_client.py KUBECONFIG

`floor.py` does the same over connections of its own, which take half of the CPU time. This is the client that one writes in
thirty lines. The kubeconfig is JSON with a token. The program goes on until it is stopped, so that its CPU time can be read.
"""

import asyncio
import json
import ssl
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, TCPConnector

CONNECTIONS = 64
"""As many as `mooring run` has for binds."""


async def run(kubeconfig: dict[str, Any]) -> None:
    server, token = kubeconfig["clusters"][0]["cluster"]["server"], kubeconfig["users"][0]["user"]["token"]
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {token}"}
    connector = TCPConnector(ssl=trusting, limit=CONNECTIONS)
    async with ClientSession(server, connector=connector, headers=headers, raise_for_status=True) as session:
        nodes, pods = [
            (await (await session.get(path)).json())["items"]
            for path in ("/api/v1/nodes", "/api/v1/pods?fieldSelector=spec.nodeName=")
        ]
        pairs = zip(pods, cycle(nodes), strict=False)

        async def bind_some() -> None:
            for pod, node in pairs:
                meta, target = pod["metadata"], {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"]}
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
                async with session.post(path, json=binding) as answer:
                    await answer.read()

        await asyncio.gather(*(bind_some() for _ in range(CONNECTIONS)))
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run(json.loads(Path(sys.argv[1]).read_text())))
