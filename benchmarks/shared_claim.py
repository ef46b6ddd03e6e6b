"""256 pods that share one ResourceClaim, that have a claim each, and that have none: how long until all are bound.

    KUBECONFIG=admin.kubeconfig python benchmarks/shared_claim.py -- mooring run --secure-port=0 --kubeconfig={kubeconfig}

The command after -- is the scheduler. The API server should have no other scheduler, no other pods and no controllers; what
is created stays there. Each case runs in a namespace of its own, in turn, so that its rounds can be compared.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from creating import create

from mooring.apiclient.client import ApiClient
from mooring.apiclient.kubeconfig.loading import find_connection

PODS = 256
"""As many as one claim can be reserved for."""
CASES = ("none", "own", "shared")
LOOK_S = 0.1
PATIENCE_S = 180.0
GROUP = "/apis/resource.k8s.io/v1"
JsonObject = dict[str, Any]


def node(number: int) -> JsonObject:
    room = {"pods": "1000", "cpu": "64", "memory": "256Gi"}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"capacity": room, "allocatable": room, "conditions": conditions}
    return {"metadata": {"name": f"node-{number:02d}"}, "status": status}


def slice_of_devices(number: int, rounds: int) -> JsonObject:
    """128 devices, as many as a slice may have."""
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": "gpus", "generation": 1, "resourceSliceCount": slices(rounds)},
        "allNodes": True,
        "devices": [{"name": f"d{number}-{n}"} for n in range(128)],
    }
    return {"metadata": {"name": f"gpus-{number}"}, "spec": spec}


def slices(rounds: int) -> int:
    return rounds * (PODS + 1) // 128 + 1


def claim(name: str) -> JsonObject:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def pod(number: int, case: str) -> JsonObject:
    container: JsonObject = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}}}
    spec: JsonObject = {"containers": [container]}
    if case != "none":
        name = "shared" if case == "shared" else f"own-{number}"
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        container["resources"]["claims"] = [{"name": "gpu"}]
    return {"metadata": {"name": f"pod-{number}"}, "spec": spec}


async def prepare(rounds: int) -> None:
    everything = {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]}
    await create("/api/v1/nodes", map(node, range(10)))
    await create(f"{GROUP}/deviceclasses", [{"metadata": {"name": "gpu.example.com"}, "spec": everything}])
    await create(f"{GROUP}/resourceslices", (slice_of_devices(n, rounds) for n in range(slices(rounds))))


async def measure(client: ApiClient, case: str, number: int) -> JsonObject:
    namespace = f"{case}-{number}"
    await create("/api/v1/namespaces", [{"metadata": {"name": namespace}}])
    names = {"none": [], "shared": ["shared"], "own": [f"own-{n}" for n in range(PODS)]}[case]
    claims, pods = f"{GROUP}/namespaces/{namespace}/resourceclaims", f"/api/v1/namespaces/{namespace}/pods"
    await create(claims, map(claim, names))
    began_s = time.monotonic()
    await create(pods, (pod(n, case) for n in range(PODS)))
    bound = 0
    while bound < PODS and time.monotonic() < began_s + PATIENCE_S:
        await asyncio.sleep(LOOK_S)
        listed = (await client.get(pods))["items"]
        bound = sum(bool(item["spec"].get("nodeName")) for item in listed)
    return {"case": case, "bound": bound, "seconds": round(time.monotonic() - began_s, 2)}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("command", nargs="+", help="the scheduler, with {kubeconfig} where its file belongs")
    asked = parser.parse_args()
    await prepare(asked.rounds)
    words = [word.replace("{kubeconfig}", os.environ["KUBECONFIG"]) for word in asked.command]
    scheduler = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        async with ApiClient(find_connection(), "bench", -1) as client:
            await measure(client, "none", -1)  # until the scheduler is there
            for number in range(asked.rounds):
                for case in CASES:
                    print(json.dumps(await measure(client, case, number)), flush=True)
    finally:
        scheduler.send_signal(signal.SIGTERM)
        scheduler.wait(30)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
