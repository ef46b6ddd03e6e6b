"""A cluster with TeamQueues on a virtual clock: teams are told by their quota of cpu, and who has what can be read."""

from collections.abc import Mapping
from typing import Any

from team_queues import TeamQueues
from team_queues.ledger import TeamLedger

from build import a_node, a_pod
from gangs import a_group
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.kit.clock import VirtualClock
from mooring.plugin import KubeObject, Pod
from mooring.plugins import in_tree
from mooring.scheduler.observer import SchedulerListeners
from mooring.state.scheduler_assembly import build_scheduler

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
POST_FILTERS = ("DynamicResources", "TeamQueues", "DefaultPreemption")
PLUGINS = {
    "multiPoint": {"enabled": [{"name": "TeamQueues"}]},
    "queueSort": {"disabled": [{"name": "PrioritySort"}]},
    "postFilter": {"enabled": [{"name": name} for name in POST_FILTERS]},
    "podGroupPostFilter": {"enabled": [{"name": name} for name in POST_FILTERS]},
}


def a_team(name: str, cpu: str = "4", **more: Any) -> dict[str, Any]:
    """Its namespace has its name."""
    return {"name": name, "namespaces": [name], "quota": {"cpu": cpu}, **more}


def configured(*teams: Mapping[str, Any]) -> dict[str, Any]:
    profile = {"plugins": PLUGINS, "pluginConfig": [{"name": "TeamQueues", "args": {"teams": list(teams)}}]}
    return {**HEAD, "profiles": [profile]}


class TeamStage:
    """After each step the scheduler has nothing left to do at that moment, and its invariants hold."""

    def __init__(self, *teams: Mapping[str, Any], gates: Mapping[str, bool] | None = None) -> None:
        self.clock = VirtualClock(START_NS)
        self.faults: list[str] = []
        self.evicted: list[str] = []
        registry = in_tree()
        registry.register(TeamQueues)
        gates = gates or {}
        self.scheduler = build_scheduler(
            config.from_object(configured(*teams), feature_gates=gates),
            self.clock,
            registry,
            listeners=SchedulerListeners(report=lambda text, fault: self.faults.append(f"{text}: {fault}")),
            gates=gates,
        )
        self.core = self.scheduler.core
        self.driver = Driver(self.clock, self.scheduler, with_versions=True)
        self.driver.on_evicted = lambda victim, by: self.evicted.append(victim.name)
        plugin = next(iter(self.core.runners.values())).profile.plugins["TeamQueues"]
        assert isinstance(plugin, TeamQueues)
        self.ledger: TeamLedger = plugin.ledger

    def nodes(self, *names: str, cpu: str = "4", **more: Any) -> None:
        for name in names:
            self.driver.create(a_node(name, cpu=cpu, **more))
        self.settle()

    def pods(self, team: str, *names: str, cpu: str = "1", **more: Any) -> None:
        """They come all at once, before any of them can be tried."""
        for name in names:
            metadata = {"uid": f"uid-{name}", **more.get("metadata", {})}
            spec = {key: value for key, value in more.items() if key != "metadata"}
            spec = {"schedulerName": "default-scheduler", **spec}
            self.driver.create(a_pod(name, namespace=team, cpu=cpu, metadata=metadata, **spec))
        self.settle()

    def gang(self, team: str, group: str, *names: str, min_count: int | None = None, **more: Any) -> None:
        priority = {"priority": more["priority"]} if "priority" in more else {}
        self.driver.create(a_group(group, len(names) if min_count is None else min_count, team, **priority))
        self.pods(team, *names, schedulingGroup={"podGroupName": group}, **more)

    def create(self, item: KubeObject) -> None:
        self.driver.create(item)
        self.settle()

    def delete(self, team: str, *names: str) -> None:
        for name in names:
            self.driver.delete("Pod", f"{team}/{name}")
        self.settle()

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.driver.advance_second()
            self.settle()

    def settle(self) -> None:
        assert any(self.driver.attempt_once() is None for _ in range(1000)), "the scheduler never comes to rest"
        self.driver.settle()
        assert self.scheduler.check() == []
        assert self.ledger.check() == []
        assert self.faults == []

    # ---- what can be seen

    def running(self, team: str = "") -> list[str]:
        """The pods that have a node."""
        found = [pod for pod in self.driver.pods() if pod.spec.node_name and team in ("", pod.namespace)]
        return sorted(pod.name for pod in found)

    def used(self, team: str) -> int:
        """Milli-CPU that the pods of the team hold on nodes, counted one by one."""
        return sum(held(pod) for pod in self.driver.pods() if pod.spec.node_name and pod.namespace == team)

    def gate(self, team: str, name: str) -> str:
        entry = self.core.queue.get(f"{team}/{name}")
        return "" if entry is None else entry.gating_message

    def said(self, team: str, name: str) -> str:
        """Why the pod is not scheduled, as its status says."""
        pod = self.driver.objects["Pod", f"{team}/{name}"]
        assert isinstance(pod, Pod)
        found = [c.message or "" for c in pod.status.conditions or () if c.type == "PodScheduled"]
        return found[0] if found else ""


def held(pod: Pod) -> int:
    return pod.shape.held["cpu"][0] if "cpu" in pod.shape.held else 0
