"""How fast the embedded cluster is: pods created, scheduled and Running a second, in process and over HTTPS.

    python benchmarks/embedded.py --nodes 5000 --pods 20000            in process
    python benchmarks/embedded.py --nodes 5000 --pods 5000 --http      created over HTTPS by another process

Prints one line of JSON.
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from typing import Any

from mooring.api.kinds import RESOURCES
from mooring.apiclient.client import ApiClient
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.apiserver.resource_api import ResourceApi
from mooring.app.node_actions import own_connection
from mooring.controllers.nodes.simulated_nodes import missing_nodes
from mooring.embedded.embedded_cluster import EmbeddedCluster
from mooring.embedded.seeding import seed
from mooring.kit.process import relax_collector

PODS = RESOURCES["", "v1", "pods"]
POD = {
    "metadata": {"generateName": "p-", "labels": {"app": "bench"}},
    "spec": {
        "containers": [{"name": "c", "image": "nginx:1", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]
    },
}
BURST = 200
SENDERS = 32


def in_process(nodes: int, pods: int) -> dict[str, Any]:
    cluster = EmbeddedCluster()
    seed(cluster.api, missing_nodes(nodes, ()))
    cluster.settle()
    relax_collector()
    begin, begin_cpu = time.perf_counter(), time.process_time()
    for start in range(0, pods, BURST):
        for _ in range(min(BURST, pods - start)):
            cluster.api.create(PODS, "default", POD)
        cluster.step()
    while _running(cluster.api) < pods:
        cluster.settle()
    figures = _figures(nodes, pods, time.perf_counter() - begin)
    return figures | {"cpu_us_per_pod": round((time.process_time() - begin_cpu) / pods * 1e6)}


def _running(api: ResourceApi) -> int:
    return sum(pod["status"]["phase"] == "Running" for pod in api.store.all(PODS.storage))


def _figures(nodes: int, pods: int, seconds: float) -> dict[str, Any]:
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {
        "nodes": nodes,
        "pods": pods,
        "seconds": round(seconds, 2),
        "pods_per_s": round(pods / seconds),
        "memory_mib": memory_mib,
    }


def over_http(nodes: int, pods: int) -> int:
    """The cluster in one process, this script as its client in another."""
    mooring = [sys.executable, "-m", "mooring.cli.main", "up", "-q", "--nodes", str(nodes)]
    client = f"{sys.executable} {__file__} --client --nodes {nodes} --pods {pods}"
    return subprocess.run([*mooring, "--exec", client], check=False).returncode


async def client(nodes: int, pods: int) -> dict[str, Any]:
    path = "/api/v1/namespaces/default/pods"
    await own_connection(find_connection(), "bench")  # it fills the cluster: no other than `mooring up`
    async with ApiClient(find_connection(), "bench", qps=-1) as api:
        running = asyncio.create_task(_see_running(api, path, pods))
        begin = time.perf_counter()
        numbers = iter(range(pods))

        async def send() -> None:
            for _ in numbers:
                await api.post(path, POD)

        await asyncio.gather(*(send() for _ in range(SENDERS)))
        created_s = time.perf_counter() - begin
        await running
        figures = _figures(nodes, pods, time.perf_counter() - begin)
    del figures["memory_mib"]
    return figures | {"created_per_s": round(pods / created_s)}


async def _see_running(api: ApiClient, path: str, pods: int) -> None:
    seen = set()
    async for lines in api.watch(path, {"fieldSelector": "status.phase=Running"}):
        for line in lines:
            event = json.loads(line)
            seen.add(event["object"]["metadata"]["name"])
        if len(seen) >= pods:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20000)
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--client", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.http:
        sys.exit(over_http(asked.nodes, asked.pods))
    if asked.client:
        print(json.dumps(asyncio.run(client(asked.nodes, asked.pods))))
    else:
        print(json.dumps(in_process(asked.nodes, asked.pods)))


if __name__ == "__main__":
    main()
