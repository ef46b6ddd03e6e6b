"""`mooring run` as a process on an API server that lacks kinds: it becomes ready, binds, and says what it does without."""

import asyncio
import socket
import ssl
import urllib.request
from pathlib import Path
from urllib.error import URLError

import pytest
import yaml

from mooring.apiclient.client import ApiClient
from mooring.apiclient.connection_settings import ConnectionSettings
from older_server import NO_DEVICES, an_older_server
from running_cluster import command

pytestmark = pytest.mark.slow


def ready_page(port: int) -> str:
    """Empty while nobody listens, or the scheduler is not ready."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz?verbose", context=unverified, timeout=5) as reply:
            return str(reply.read().decode())
    except (URLError, OSError):
        return ""


def a_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def until_ready(port: int) -> str:
    async with asyncio.timeout(60):
        while not (page := await asyncio.to_thread(ready_page, port)):
            await asyncio.sleep(0.1)
    return page


def test_the_process_is_ready_without_kinds_that_are_not_served_and_names_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            an_older_server(NO_DEVICES) as server,
            ApiClient(ConnectionSettings(server.behind_url), "t/1") as client,
        ):
            cluster = {"name": "c", "cluster": {"server": server.url}}
            context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
            content = {"clusters": [cluster], "contexts": [context], "users": [{"name": "c", "user": {}}]}
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump({"current-context": "c", **content}))
            port = a_port()
            flags = [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1"]
            gates = "--feature-gates=DRADeviceTaintRules=true"
            words = command("run", *flags, gates, f"--secure-port={port}", "-v=2")
            log = (tmp_path / "log").open("wb")
            process = await asyncio.create_subprocess_exec(*words, stdout=log, stderr=log)
            try:
                page = await until_ready(port)
                notes = [line for line in page.splitlines() if line.startswith("note: ")]
                text = "note: the server does not serve devicetaintrules.resource.k8s.io: Mooring reads v1, v1beta2, v1alpha3"
                assert text in notes and len(notes) == 4 and page.endswith("readyz check passed\n")
                status = {"allocatable": {"pods": "9", "cpu": "2"}}
                await client.post("/api/v1/nodes", {"metadata": {"name": "n"}, "status": status})
                pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
                await client.post("/api/v1/namespaces/default/pods", pod)
                async with asyncio.timeout(20):
                    while not (await client.get("/api/v1/namespaces/default/pods/p"))["spec"].get("nodeName"):
                        await asyncio.sleep(0.05)
            finally:
                process.terminate()
                await process.wait()
                log.close()
            told = (tmp_path / "log").read_text()
            assert told.count("Failed to watch devicetaintrules.resource.k8s.io") == 1

    asyncio.run(main())
