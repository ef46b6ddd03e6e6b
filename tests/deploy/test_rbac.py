"""The roles of the chart: `mooring run` does all its work with them, and no rule is there that it does not need."""

import asyncio
import signal
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml
from role_rules import Grant, Permissions, asked, permissions_of

from asking import path_of
from deploying import DEPLOY, Item, items_of, the
from fault_proxy import CALM, FaultProxy
from forked_commands import start_mooring
from mooring.api.kinds import BY_KIND, WORKLOADS
from mooring.apiclient.reflectors.reflector import WATCHED, watched_with
from programs import HELM, needs
from running_cluster import PATIENCE_S, Process, a_process

pytestmark = [pytest.mark.slow, needs(HELM)]

EXAMPLES = DEPLOY.parent / "examples"
GROUPS = "--set=featureGates.GenericWorkload=true"
WATCHED_FOR_GROUPS = watched_with({"GenericWorkload": True, "DRADeviceTaintRules": True})
WATCHED_FOR_RULES = watched_with({"DRADeviceTaintRules": True})

SELDOM = {
    "reads of single objects: after a bind without an answer, and where a self-check finds a difference": {
        (each.group, each.plural, "get", "") for each in WATCHED_FOR_GROUPS
    },
    "lists, where a server has no streamed ones, and of the self-check": {
        (each.group, each.plural, "list", "") for each in WATCHED_FOR_GROUPS
    },
    "the API server itself asks for it before it changes an allocation": {
        ("resource.k8s.io", "resourceclaims/binding", "patch", "")
    },
    "claims for extended resources (tests/drivers/test_object_writes.py)": {
        ("resource.k8s.io", "resourceclaims", verb, "") for verb in ("create", "delete", "patch")
    },
    "a volume that exists is bound to a claim": {("", "persistentvolumes", "patch", "")},
    "an event that is told again": {("events.k8s.io", "events", "patch", "")},
}  # fmt: skip
"""Grants that the run below may not use, by the reason why they are there."""


def rendered(*arguments: str) -> list[Item]:
    template = [
        HELM.required(),
        "template",
        "sched",
        str(DEPLOY / "helm" / "mooring"),
        "--namespace",
        "team",
        *arguments,
    ]
    return items_of(subprocess.check_output(template, text=True))


# ---- what is granted


def reads(watched: Any) -> set[Grant]:
    return {(each.group, each.plural, verb, "") for each in watched for verb in ("get", "list", "watch")}


def test_everything_that_is_watched_can_be_read_and_nothing_else() -> None:
    without_rules = "--set=featureGates.DRADeviceTaintRules=false"
    with_groups = watched_with({"GenericWorkload": True})
    cases = (
        ((), WATCHED_FOR_RULES),
        ((without_rules,), WATCHED),
        ((GROUPS,), WATCHED_FOR_GROUPS),
        ((GROUPS, without_rules), with_groups),
    )
    for arguments, watched in cases:
        granted = permissions_of(rendered(*arguments), "sched").grants
        in_all = {grant for grant in granted if grant[2] in ("get", "list", "watch") and not grant[3]}
        assert in_all == reads(watched)


def test_composite_groups_are_read_with_their_gate_and_never_written() -> None:
    """v1.37, 1.1: kube-scheduler may write their status, and never does."""
    usual = permissions_of(rendered(), "sched").grants
    more = {*permissions_of(rendered("--set=featureGates.CompositePodGroup=true"), "sched").grants} - {*usual}
    assert more == {("scheduling.k8s.io", "compositepodgroups", verb, "") for verb in ("get", "list", "watch")}


def test_the_dashboard_may_read_the_workloads_that_questions_name() -> None:
    granted = permissions_of(rendered("--set=dashboard.enabled=true"), "sched").grants
    more = {*granted} - {*permissions_of(rendered(), "sched").grants}
    needed = {(each.group, each.plural, verb, "") for each in WORKLOADS.values() for verb in ("get", "list")}
    assert more == needed - reads(WATCHED_FOR_RULES)


def test_no_rule_is_for_secrets_or_for_roles() -> None:
    granted = permissions_of(rendered(GROUPS, "--set=dashboard.enabled=true"), "sched").grants
    assert not {resource for _, resource, _, _ in granted} & {"secrets", "roles", "clusterroles", "serviceaccounts"}


def test_candidates_of_the_lease_are_written_only_with_coordinated_election() -> None:
    coordinated = permissions_of(rendered("--set=featureGates.CoordinatedLeaderElection=true"), "sched").grants
    usual = permissions_of(rendered(), "sched").grants
    more = set(coordinated) - set(usual)
    assert {grant[:3] for grant in more} == {
        ("coordination.k8s.io", "leasecandidates", verb) for verb in ("create", "get", "update")
    }


def test_the_lease_is_the_only_one_that_can_be_changed() -> None:
    granted = permissions_of(rendered(), "sched").grants
    assert granted["coordination.k8s.io", "leases", "update", "team"] == {"sched"}
    assert ("coordination.k8s.io", "leases", "update", "") not in granted


def test_requests_are_read_as_an_api_server_reads_them() -> None:
    told = [
        asked(line)
        for line in ("PATCH /api/v1/namespaces/a/pods/p/status", "GET /api/v1/nodes?watch=true", "GET /apis")
    ]
    assert told[2] is None and told[0] is not None and told[1] is not None
    assert (told[0].verb, told[0].resource, told[0].namespace, told[0].name) == ("patch", "pods/status", "a", "p")
    assert (told[1].verb, told[1].resource) == ("watch", "nodes")


# ---- what is used


def create(cluster: Process, *items: Item) -> None:
    for item in items:
        resource = BY_KIND[item["apiVersion"], item["kind"]]
        reply = cluster.ask("POST", path_of(resource, namespace=item["metadata"].get("namespace", "default")), item)
        assert reply.code == 201, reply.body


def a_pod(name: str, cpu: str, **spec: Any) -> Item:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def is_bound(pod: Item) -> bool:
    return bool(pod["spec"].get("nodeName"))


def all_bound(count: int) -> Callable[[Item], bool]:
    return lambda listed: len(listed["items"]) == count and all(map(is_bound, listed["items"]))


def work(cluster: Process, port: int) -> None:
    """A bind, a failure, a preemption, volumes, devices, a group of pods, and a look at the metrics."""
    pods = "/api/v1/namespaces/default/pods"
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    node = cluster.ask("GET", "/api/v1/nodes").body["items"][0]
    here = {"kubernetes.io/hostname": node["metadata"]["labels"]["kubernetes.io/hostname"]}
    half = int(node["status"]["allocatable"]["cpu"]) // 2 + 1
    create(cluster, high, a_pod("low", str(half), nodeSelector=here), a_pod("giant", "500"))
    cluster.wait(f"{pods}/low", is_bound)
    create(cluster, a_pod("urgent", str(half), nodeSelector=here, priorityClassName="high"))
    cluster.wait(f"{pods}/urgent", is_bound)
    cluster.wait(f"{pods}/giant", lambda pod: bool(pod["status"].get("conditions")))
    for name, label, count in (("volumes/database.yaml", "app=database", 3), ("devices/training.yaml", "", 8)):
        items = items_of((EXAMPLES / name).read_text())
        create(cluster, *items)
        selector = label or f"batch.kubernetes.io/job-name={items[-1]['metadata']['name']}"
        cluster.wait(f"{pods}?labelSelector={selector.replace('=', '%3D')}", all_bound(count))
    group, job = items_of((EXAMPLES / "gang/podgroup.yaml").read_text())
    job["metadata"]["name"] = "gang"
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "10m"
    create(cluster, group, job)
    cluster.wait(f"{pods}?labelSelector=batch.kubernetes.io/job-name%3Dgang", all_bound(4))
    look_at_metrics(port)


def look_at_metrics(port: int) -> None:
    """Without a token, and with one: the scheduler asks who that is, whatever the answer is worth."""
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    for headers in ({}, {"Authorization": "Bearer some-token"}):
        shown = urllib.request.Request(f"https://127.0.0.1:{port}/metrics", headers=headers)
        with suppress(HTTPError), urllib.request.urlopen(shown, context=unverified, timeout=PATIENCE_S) as reply:
            assert b"scheduler_schedule_attempts_total" in reply.read()


def a_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def run_with(cluster: Process, items: list[Item], granted: Permissions, folder: Path) -> str:
    """`mooring run` behind a proxy that allows what is granted. Returns the log."""
    config = folder / "config.yaml"
    config.write_text(the(items, "ConfigMap", "sched")["data"]["config.yaml"])
    async with FaultProxy(cluster.server, CALM, seed=1) as proxy:
        proxy.allows = granted.allows
        access = yaml.safe_load(cluster.kubeconfig.read_text())
        access["clusters"][0]["cluster"]["server"] = proxy.url
        (folder / "kubeconfig").write_text(yaml.safe_dump(access))
        port, reached = a_port(), f"kubeconfig={folder / 'kubeconfig'}"
        flags = [f"--{reached}", f"--authentication-{reached}", f"--authorization-{reached}", f"--config={config}"]
        gates = "--feature-gates=GenericWorkload=true,DRADeviceTaintRules=true"
        arguments = (
            "run",
            "-v=2",
            *flags,
            gates,
            "--self-check=1s",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
        )
        with (folder / "log").open("wb") as log:
            scheduler = start_mooring(*arguments, stdout=log, stderr=log)
        try:
            await asyncio.to_thread(work, cluster, port)
        finally:
            scheduler.send_signal(signal.SIGTERM)
            await asyncio.to_thread(scheduler.wait, PATIENCE_S)
    return (folder / "log").read_text()


def test_a_scheduler_does_all_its_work_with_these_roles_and_uses_them(tmp_path: Path) -> None:
    items = rendered(GROUPS, "--set=schedulerName=default-scheduler")
    granted = permissions_of(items, "sched")
    with a_process(
        *("--plain-http", "--no-scheduler", "--nodes", "6", "--node-template", str(EXAMPLES / "devices/node.yaml")),
        *("--feature-gates", "GenericWorkload=true"),
    ) as cluster:
        create(cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        log = asyncio.run(run_with(cluster, items, granted, tmp_path))
    assert granted.refused == [], log[-3000:]
    seldom = set().union(*SELDOM.values())
    assert set(granted.grants) - granted.used <= seldom, log[-3000:]
    writes = {grant for grant in granted.used if grant[2] not in ("get", "list", "watch")}
    assert ("", "pods", "delete", "") in writes and ("resource.k8s.io", "resourceclaims/status", "patch", "") in writes
