"""The stage of a simulation: a cluster with its scheduler on a virtual clock, and what is remembered of its decisions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TypeGuard

import msgspec

from mooring.cluster.cluster import Cluster
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.faults import describe
from mooring.framework.registry import Registry
from mooring.framework.runner import Runner
from mooring.kit.clock import VirtualClock
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.validation.problem import Problem, Problems, show
from mooring.scheduler.assembly import build_scheduler
from mooring.scheduler.decide import DecideOptions, deciding
from mooring.scheduler.decision import Decision, Placement
from mooring.scheduler.extenders.interest import InterestedExtenders
from mooring.scheduler.extenders.steps import Steps
from mooring.sim.controllers import ClaimController, VolumeController
from mooring.sim.driver import START_NS, Driver
from mooring.sim.results import InputError, NoSuchPod, SimulatedEviction, Stories

_COMPARED = 20_000
"""How many pods a name that is not there is compared with: that takes a second."""
_COMPARED_LETTERS = 253 + 64
"""No key of a pod is longer."""
NOTES = 5
"""How many faults are told one by one."""


class SimulatedCluster:
    """A cluster as the objects describe it, before its pending pods come.

    Raises ConfigError for a configuration that cannot be built, InputError for objects that contradict each other.
    """

    def __init__(
        self,
        objects: Sequence[KubeObject],
        config: KubeSchedulerConfiguration,
        registry: Registry | None = None,
        *,
        records: bool = True,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        self.clock = VirtualClock(START_NS)
        self.stories = Stories(self.clock, only="")
        """Nobody's, until `stories.only` names a pod."""
        self.unasked = tuple(config.extenders)
        """Extenders of the configuration: a simulation sends no requests."""
        offline = msgspec.structs.replace(config, extenders=[])
        options = DecideOptions(record=records)
        self.scheduler = build_scheduler(
            offline, self.clock, registry, options, self.stories.tell, self._report, gates=gates
        )
        self.driver = Driver(self.clock, self.scheduler, with_versions=True)
        self.pending = [item for item in objects if _is_pending(item)]
        self.finished = [item for item in objects if isinstance(item, Pod) and item.is_finished]
        self.choices: dict[str, Placement] = {}
        """The last decision of each pod that was to go to a node, by key; kept where records are."""
        self.explained: set[str] = set()
        """The pods of which the last decision is kept with all details, by key."""
        self.explained_decisions: dict[str, Decision] = {}
        """... and those decisions."""
        self._decided: list[str] = []
        self.evictions: list[SimulatedEviction] = []
        self.faults: dict[str, str] = {}
        """What should not have happened: a sentence, and what it was about."""
        self._pods = {item.key: item for item in objects if isinstance(item, Pod)}
        self._records = records
        self.stories.follow(self.scheduler)
        self.scheduler.decide_with(self._deciding)
        self.driver.on_evicted = self._evicted
        volumes = VolumeController(self.driver, self.cluster.storage)
        self.driver.on_changed = volumes.changed
        self.driver.on_removed = ClaimController(self.driver).removed
        self._set_up(objects)
        volumes.begin()

    @property
    def cluster(self) -> Cluster:
        return self.scheduler.cluster

    def runner(self, pod: Pod) -> Runner | None:
        return self.scheduler.runner(pod.spec.scheduler_name)

    def find(self, name: str, pods: Iterable[Pod] = ()) -> Pod:
        """The pod that is meant by `namespace/name` or by `name` alone: one of the input, or one of these."""
        known = [*(pod for pod in self._pods.values() if not pod.is_finished), *pods]
        found = [pod for pod in known if name in (pod.key, pod.name)]
        if len(found) == 1:
            return found[0]
        if found:
            raise NoSuchPod(f"{name!r} could be any of {some([pod.key for pod in found], 5)}: add its namespace")
        if any(name in (pod.key, pod.name) for pod in self.finished):
            raise NoSuchPod(f"pod {name!r} has finished: there is nothing to decide about it")
        raise NoSuchPod(f"no pod {name!r} in the input, which has {count(len(known), 'pod')}{_alike(name, known)}")

    def take_decided(self) -> list[str]:
        """The pods that were decided on since this was last asked, by key: several where a group was tried."""
        decided, self._decided = self._decided, []
        return decided

    def notes(self) -> list[str]:
        """What should not have happened, for the reader of a report."""
        notes = [f"{text}: {what}" if what else text for text, what in self.faults.items()]
        if len(notes) > NOTES:
            notes[NOTES:] = [f"... and {count(len(notes) - NOTES, 'more fault')} of this kind"]
        return notes

    def _set_up(self, objects: Sequence[KubeObject]) -> None:
        """Nodes first, then all that is there before the pods that are to be placed."""
        if problems := [*_shared_ids(objects)]:
            raise InputError(problems)
        for item in sorted(objects, key=lambda item: not isinstance(item, Node)):
            if not _is_pending(item):
                self.driver.create(item)

    def _deciding(
        self,
        runner: Runner,
        pod: Pod,
        cluster: Cluster,
        options: DecideOptions,
        seed: int,
        interested: InterestedExtenders | None,
    ) -> Steps[Decision]:
        if pod.key in self.explained:
            options = replace(options, explain=True)
        return self._remember(pod, (yield from deciding(runner, pod, cluster, options, seed, interested)))

    def _remember(self, pod: Pod, decision: Decision) -> Decision:
        if pod.key in self.explained:
            self.explained_decisions[pod.key] = decision
        if self._records:
            self._decided.append(pod.key)
        if self._records and isinstance(decision, Placement):
            self.choices[pod.key] = replace(decision, diagnosis=None, details=None, context=None)
        return decision

    def _evicted(self, victim: Pod, preemptor: Pod) -> None:
        pod = self._pods.get(victim.key, victim)
        self.evictions.append(SimulatedEviction(pod, victim.spec.node_name, preemptor.key))

    def _report(self, text: str, error: Exception | None) -> None:
        self.faults.setdefault(text, "" if error is None else describe(error))


def _is_pending(item: KubeObject) -> TypeGuard[Pod]:
    return isinstance(item, Pod) and not item.spec.node_name and not item.is_finished


def _shared_ids(objects: Iterable[KubeObject]) -> Problems:
    """Pods that claim to be the same one: the copy of a pod that was given a new name and kept its uid."""
    first: dict[str, Pod] = {}
    for item in objects:
        other = first.setdefault(item.id, item) if isinstance(item, Pod) else item
        if isinstance(item, Pod) and other is not item:
            found = f"{show(item.id)}, which Pod {other.key} has"
            yield Problem("metadata.uid", found, "a uid of its own, or empty", f"Pod {item.key}")


def _alike(name: str, pods: Sequence[Pod]) -> str:
    """The names that were probably meant, for the end of a message."""
    by_name = {spelt: pod.key for pod in pods[:_COMPARED] for spelt in (pod.name, pod.key)}
    found = dict.fromkeys(by_name[spelt] for spelt in get_close_matches(name[:_COMPARED_LETTERS], by_name, n=5))
    return f"; did you mean {' or '.join([*found][:3])}?" if found else ""


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def some(names: Sequence[str], limit: int = 3) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
