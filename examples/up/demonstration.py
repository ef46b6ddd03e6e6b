"""What `make run` shows: pods placed, one pending with its reason, and a preemption, on a cluster of `mooring up`.

At a terminal the cluster stays until Ctrl-C, so that one can open its dashboard.

mooring up --exec 'python examples/up/demonstration.py'
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from mooring.api.kinds import BY_KIND
from mooring.apiclient.client import ApiClient
from mooring.apiclient.kubeconfig.loading import find_connection
from mooring.app.node_actions import own_connection

FOLDER = Path(__file__).parent
PODS = "/api/v1/namespaces/default/pods"
PATIENCE_S = 30.0


async def main() -> None:
    access = await own_connection(
        find_connection(), "demonstration"
    )  # it fills the cluster: no other than `mooring up`
    async with ApiClient(access, "demonstration", qps=-1) as client:
        say("Five simulated nodes of 8 cores each, in three zones:")
        show(await client.list("/api/v1/nodes"), lambda node: [name(node), zone(node), ready(node)])

        say("A Deployment of six pods, spread over the zones, a DaemonSet, a Job, and a pod that asks for 64 cores:")
        await apply(client, FOLDER / "workloads.yaml")
        await until(client, lambda pods: sum(runs(pod) for pod in pods) >= 11 and refusal_of(pods, "giant"))
        await show_pods(client)

        say("Why is `giant` still pending? The scheduler says so on the pod, as kube-scheduler does:")
        print(f"  {refusal_of((await client.list(PODS))['items'], 'giant')}")

        say("Batch work fills the cluster; then a pod comes that is worth more, and needs five cores:")
        await apply(client, FOLDER / "preemption.yaml")
        await until(client, lambda pods: any(name(pod) == "urgent" and runs(pod) for pod in pods))
        await show_pods(client, ("urgent", "batch"))
        say("It preempted, and what it drove out waits:")
        events = (await client.list("/api/v1/namespaces/default/events"))["items"]
        for event in events:
            if event["reason"] == "Preempted" or event["involvedObject"]["name"] == "urgent":
                print(f"  {event['reason']:<17}{event['involvedObject']['name']:<24}{event['message'][:110]}")
        print("\nYour turn: `mooring up` starts such a cluster for kubectl; `mooring --help` shows the rest.")
    if sys.stdout.isatty() and os.environ.get("MOORING_DASHBOARD"):
        await look_around(os.environ["MOORING_DASHBOARD"])


async def look_around(dashboard: str) -> None:
    """Keep the cluster for somebody at a terminal who opens the link, until Ctrl-C."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    print(f"\nThe cluster runs until you press Ctrl-C. Look at it in a browser:\n  {dashboard}", flush=True)
    await stopped.wait()


async def apply(client: ApiClient, path: Path) -> None:
    for item in yaml.safe_load_all(path.read_text()):
        resource = BY_KIND[item["apiVersion"], item["kind"]]
        scope = "/namespaces/default" if resource.namespaced else ""
        await client.post(f"{resource.path}{scope}/{resource.plural}", item)


async def until(client: ApiClient, holds: Any) -> None:
    """Wait until something is true of the pods."""
    end = time.monotonic() + PATIENCE_S
    while not holds((await client.list(PODS))["items"]):
        if time.monotonic() > end:
            raise SystemExit("the cluster did not get there in time; please report this")
        await asyncio.sleep(0.2)


async def show_pods(client: ApiClient, prefixes: tuple[str, ...] = ("",)) -> None:
    pods = await client.list(PODS)
    pods["items"] = [pod for pod in pods["items"] if name(pod).startswith(prefixes)]
    show(pods, lambda pod: [name(pod), pod["status"]["phase"], pod["spec"].get("nodeName", "-")])


def show(listing: dict[str, Any], cells: Any) -> None:
    for item in listing["items"]:
        print("  " + "".join(f"{cell:<28}" for cell in cells(item)).rstrip())


def say(text: str) -> None:
    print(f"\n{text}")


def name(item: dict[str, Any]) -> str:
    return str(item["metadata"]["name"])


def zone(node: dict[str, Any]) -> str:
    return str(node["metadata"]["labels"]["topology.kubernetes.io/zone"])


def ready(node: dict[str, Any]) -> str:
    conditions = node["status"].get("conditions", ())
    return "Ready" if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions) else "not ready"


def runs(pod: dict[str, Any]) -> bool:
    return pod["status"]["phase"] in ("Running", "Succeeded")


def refusal_of(pods: list[dict[str, Any]], wanted: str) -> str:
    for pod in pods:
        for condition in pod["status"].get("conditions", ()):
            if name(pod) == wanted and condition["type"] == "PodScheduled" and condition["status"] == "False":
                return str(condition["message"])
    return ""


if __name__ == "__main__":
    asyncio.run(main())
