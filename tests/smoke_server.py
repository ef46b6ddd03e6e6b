"""The API server of the smoke tests: that of a kubeconfig, or an embedded one. Objects that they make are deleted at the end.

    make smoke                                    # on an embedded server
    make smoke KUBECONFIG=path                    # on the server of the current context, if the cluster has no pods of users
    make smoke KUBECONFIG=path ANYWAY=1           # also if it has

The tests have nodes, a namespace and a schedulerName of their own. Their nodes are tainted, so that no other pods go there,
and their pods select these nodes, so that they go nowhere else. Nothing else in the cluster is changed.
"""

import asyncio
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from forked_commands import Ran, Started, run_mooring, start_mooring
from mooring.api.api_errors import ApiError
from mooring.apiclient.client import ApiClient, server_version
from mooring.apiclient.kubeconfig.loading import find_connection
from running_cluster import PATIENCE_S, a_process

KUBECONFIG, ANYWAY = "MOORING_SMOKE_KUBECONFIG", "MOORING_SMOKE_ANYWAY"
SYSTEM = ("kube-", "local-path-storage", "mooring-smoke-")
"""Namespaces that begin so may have pods: those of the cluster itself, and what an earlier run left."""
SMOKE = "mooring.dev/smoke"
"""The label and the taint of the nodes of a run."""
JsonObject = dict[str, Any]


def users_pods(pods: Sequence[JsonObject]) -> list[str]:
    """The pods that belong to somebody: a server that has some is no place for tests."""
    keys = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]
    return [f"{namespace}/{name}" for namespace, name in keys if not namespace.startswith(SYSTEM)]


def refuse_users_pods(pods: Sequence[JsonObject], where: str, anyway: str) -> None:
    """End the run before anything is written, unless it is wanted in spite of the pods."""
    found = users_pods(pods)
    if found and not anyway:
        told = f"{len(found)} pods of users, such as {found[0]}"
        pytest.exit(f"The cluster at {where} has {told}. Use an empty cluster, or add ANYWAY=1.", 2)


@dataclass
class SmokeServer:
    """Speaks to an API server with the credentials of its kubeconfig, and knows what to delete at the end."""

    kubeconfig: Path
    run: str = field(default_factory=lambda: f"mooring-smoke-{secrets.token_hex(3)}")
    """The name of the namespace, of the schedulerName, and the beginning of the names of nodes and classes."""
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        settings = find_connection(self.kubeconfig)
        self.url = settings.server
        self._client: ApiClient = self._await(_opened(lambda: ApiClient(settings, "mooring-smoke/1")))
        self.version = self._await(server_version(self._client))

    def _await(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    def close(self) -> None:
        """Delete what was made, the newest first, and what `mooring run` wrote beside it. Where no controllers run, the
        namespace stays as Terminating."""
        try:
            for group, plural in (("events.k8s.io", "events"), ("coordination.k8s.io", "leases")):
                self.delete(f"/apis/{group}/v1/namespaces/{self.run}/{plural}")
            for path in reversed(self.made):
                self.delete(path)
        finally:
            self._await(self._client.__aexit__(None, None, None))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # ---- requests

    def get(self, path: str) -> JsonObject | None:
        """The object; None: there is none."""
        try:
            return self._await(self._client.get(path))  # type: ignore[no-any-return]
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def create(self, path: str, body: JsonObject) -> JsonObject:
        made: JsonObject = self._await(self._client.post(path, body))
        self.made.append(f"{path}/{made['metadata']['name']}")
        return made

    def would_create(self, path: str, body: JsonObject) -> JsonObject:
        """The object as the server would store it: a dry run. Raises ApiError."""
        return self._await(self._client.post(path, body, {"dryRun": "All"}))  # type: ignore[no-any-return]

    def patch(self, path: str, body: JsonObject) -> JsonObject:
        kind = "application/merge-patch+json"
        return self._await(self._client.patch(path, body, kind))  # type: ignore[no-any-return]

    def delete(self, path: str) -> None:
        """Delete at once, as a kubelet does in the end."""
        try:
            self._await(self._client.delete(path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}))
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    def wait(self, path: str, holds: Callable[[JsonObject], Any]) -> JsonObject:
        """The object at a path as soon as it is as wanted."""
        found: JsonObject = self.until(lambda: self.get(path), lambda seen: seen is not None and holds(seen))
        return found

    def until(self, ask: Callable[[], Any], holds: Callable[[Any], Any]) -> Any:
        """An answer as soon as it is as wanted."""
        ends = time.monotonic() + PATIENCE_S
        while not holds(seen := ask()):
            assert time.monotonic() < ends, f"that never became what it should: {seen}"
            time.sleep(0.05)
        return seen

    # ---- objects of a run

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.run}/pods"

    def begin(self) -> None:
        """A namespace with the account that pods have where the server wants one."""
        self.create("/api/v1/namespaces", {"metadata": {"name": self.run}})
        try:
            self.create(f"/api/v1/namespaces/{self.run}/serviceaccounts", {"metadata": {"name": "default"}})
        except ApiError as error:  # a controller was faster
            if error.code != 409:
                raise

    def a_node(self, name: str, cpu: str = "4", group: str = "all", **labels: str) -> str:
        """A node that is ready, for pods of this run alone. Pods go to nodes of their group."""
        own = {SMOKE: f"{self.run}.{group}", "topology.kubernetes.io/zone": labels.pop("zone", "a"), **labels}
        node = f"{self.run}-{name}"
        spec = {"taints": [{"key": SMOKE, "value": self.run, "effect": "NoSchedule"}]}
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
        ready = {"type": "Ready", "status": "True", "reason": "Smoke", "message": ""}
        self.create(
            "/api/v1/nodes",
            {
                "metadata": {"name": node, "labels": {**own, "kubernetes.io/hostname": node}},
                "spec": spec,
                "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
            },
        )
        return node

    def a_pod(self, name: str, cpu: str = "100m", group: str = "all", **spec: Any) -> str:
        """A pod of this run; its path."""
        container = {"name": "main", "image": "registry.k8s.io/pause", "resources": {"requests": {"cpu": cpu}}}
        container |= spec.pop("container", {})
        metadata = {"name": name, "labels": {"app": name.partition("-")[0]}}
        usual = {
            "schedulerName": self.run,
            "automountServiceAccountToken": False,
            "nodeSelector": {SMOKE: f"{self.run}.{group}"},
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        }
        self.create(self.pods, {"metadata": metadata, "spec": {**usual, **spec}})
        return f"{self.pods}/{name}"

    def has_event(self, name: str, reason: str) -> str:
        """The text of an event about a pod, as soon as there is one."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.run}/events"
        about = partial(_about, name=name, reason=reason)
        listed = self.wait(path, lambda found: [*filter(about, found["items"])])
        return str(next(filter(about, listed["items"]))["note"])


async def _opened(make: Callable[[], ApiClient]) -> ApiClient:
    return await make().__aenter__()


def _about(event: JsonObject, name: str, reason: str) -> bool:
    return bool(event["regarding"].get("name") == name and event.get("reason") == reason)


def is_bound(pod: JsonObject) -> bool:
    return bool(pod["spec"].get("nodeName"))


def scheduled(pod: JsonObject) -> JsonObject:
    """The condition PodScheduled; empty: there is none."""
    found = (each for each in pod.get("status", {}).get("conditions", ()) if each["type"] == "PodScheduled")
    return next(found, {})


# ---- the scheduler


@dataclass
class SmokeRun:
    """`mooring run` for the pods of a run."""

    server: SmokeServer
    folder: Path
    process: Started | None = None

    def start(self, *flags: str) -> Started:
        """Start a process that takes the lease of this run. The log is `log` of the folder."""
        config = self.folder / "config.yaml"
        election = {"leaderElect": True, "resourceName": self.server.run, "resourceNamespace": self.server.run}
        shown: Mapping[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {**election, "leaseDuration": "5s", "renewDeadline": "3s", "retryPeriod": "1s"},
            "profiles": [{"schedulerName": self.server.run}],
        }
        config.write_text(yaml.safe_dump(shown))
        with (self.folder / "log").open("ab") as log:
            words = ["run", f"--config={config}", f"--kubeconfig={self.server.kubeconfig}", "--secure-port=0", "-v=2"]
            return start_mooring(*words, *flags, stdout=log, stderr=log)

    def ask(self, *words: str) -> Ran:
        """A command about this cluster."""
        return run_mooring(*words, "--kubeconfig", str(self.server.kubeconfig))


@contextmanager
def a_smoke_run() -> Iterator[SmokeRun]:
    """A scheduler on the server of the environment, or on an embedded one without a scheduler of its own."""
    with ExitStack() as stack:
        named = os.environ.get(KUBECONFIG, "")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-smoke-")))
        server = SmokeServer(Path(named or stack.enter_context(a_process("--nodes", "0", "--no-scheduler")).kubeconfig))
        stack.callback(server.close)
        pods = server.get("/api/v1/pods") or {}
        refuse_users_pods(pods["items"], server.url, os.environ.get(ANYWAY, ""))
        server.begin()
        run = SmokeRun(server, folder)
        run.process = run.start()
        try:
            yield run
        finally:
            run.process.terminate()
            run.process.wait()
