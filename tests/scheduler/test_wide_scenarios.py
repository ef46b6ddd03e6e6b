"""Decisions on scenarios that combine everything, held against a plain reading of the objects (plain_filters.py), which uses
nothing of Mooring."""

import json
from copy import deepcopy
from typing import Any

from hypothesis import given, settings

from how_many import examples
from mooring.framework.attempts.runner import Runner
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Decision, DecisionError, NoFit, Placement
from mooring.sim.scenario import Outcome, Placer, Step, load, parse
from mooring.state.scheduler_assembly import all_plugins
from plain_filters import FILTERS, World, rejecting
from wide_scenarios import SCENARIOS

Json = dict[str, Any]
OPTIONS = DecideOptions(explain=True)
PLUGINS = all_plugins()


class Reading:
    """The cluster as the objects say, kept by hand beside the scheduler's own."""

    def __init__(self, scenario: Json) -> None:
        found: dict[str, list[Json]] = {}
        for item in deepcopy(scenario["objects"]):
            found.setdefault(item["kind"], []).append(item)
        spaces = {each["metadata"]["name"]: each["metadata"]["labels"] for each in found.get("Namespace", ())}
        self.pods = {self.key(pod): pod for pod in found["Pod"]}
        self.world = World({each["metadata"]["name"]: each for each in found["Node"]}, list(found["Pod"]), spaces)
        self.nominated: dict[str, str] = {}
        profiles = {each["schedulerName"]: each["plugins"] for each in scenario["config"]["profiles"]}
        self.filters = {
            name: [each for each in FILTERS if each not in _disabled(plugins, "filter")]
            for name, plugins in profiles.items()
        }

    @staticmethod
    def key(pod: Json) -> str:
        return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"

    def passing(self, pod: Json, world: World | None = None) -> list[str]:
        here, plugins = world or self.world, self.filters[pod["spec"]["schedulerName"]]
        return [name for name, node in here.nodes.items() if not rejecting(here, pod, node, plugins)]

    def without(self, leaving: list[str]) -> World:
        staying = [pod for pod in self.world.pods if self.key(pod) not in leaving]
        return World(self.world.nodes, staying, self.world.namespaces)


def _disabled(plugins: Json, point: str) -> set[str]:
    return {each["name"] for each in plugins.get(point, {}).get("disabled", ())}


def _told(decision: Decision) -> Any:
    """All that a decision says, in plain values."""
    if isinstance(decision, DecisionError):
        return decision.error
    details = decision.details
    assert details is not None
    rejected = {name: (each.plugin, each.code, each.reasons) for name, each in details.rejected.items()}
    if isinstance(decision, NoFit):
        return decision.message, rejected
    return decision.node, sorted(details.feasible), rejected, details.scores, details.totals


def _check_kept(placer: Placer, key: str) -> None:
    """What is kept from earlier attempts does not show."""
    pod = placer.pending.get(key)
    if pod is None:
        return
    runner = placer.runner_of(pod)
    assert runner is not None
    kept = decide(runner, pod, placer.cluster, OPTIONS)
    assert _told(kept) == _told(decide(Runner(runner.profile), pod, placer.cluster, OPTIONS))


def _check_decision(reading: Reading, pod: Json, step: Step) -> None:
    """Exactly the nodes are feasible that the plain reading lets pass, or some of them where pods are nominated."""
    decision = step.decision
    if not isinstance(decision, Placement | NoFit):
        return
    assert decision.details is not None
    expected, feasible = reading.passing(pod), sorted(decision.details.feasible)
    if isinstance(decision, Placement):
        assert decision.node in expected
    others = {node for key, node in reading.nominated.items() if key != reading.key(pod)}
    if reading.key(pod) in reading.nominated:
        return  # its own node alone may have been looked at
    assert set(feasible) <= set(expected)
    if "NodeAffinity" not in reading.filters[pod["spec"]["schedulerName"]]:
        return  # its PreFilter may still name the only nodes to look at
    assert set(expected) - set(feasible) <= others, "only nominated pods take what is free"


def _check_victims(reading: Reading, pod: Json, step: Step) -> None:
    """Victims are lower, on the nominated node, and the pod fits without them."""
    nomination = step.room.nomination if step.room is not None else None
    if nomination is None:
        return
    assert pod["spec"].get("preemptionPolicy") != "Never"
    keys = [victim.key for victim in nomination.victims]
    for victim in (reading.pods[key] for key in keys):
        assert victim["spec"]["priority"] < pod["spec"]["priority"]
        assert victim["spec"]["nodeName"] == nomination.node_name
    assert nomination.node_name in reading.passing(pod, reading.without(keys))
    found = step.findings
    assert found is not None
    for row in found.rows.tolist():
        assert 0 <= found.violations(row) <= len(found.victims(row))


def _follow(reading: Reading, pod: Json, step: Step) -> None:
    """Do to the objects what the scheduler did."""
    key = reading.key(pod)
    if step.outcome is Outcome.SCHEDULED:
        assert isinstance(step.decision, Placement)
        pod["spec"]["nodeName"] = step.decision.node
        reading.nominated.pop(key, None)
    nomination = step.room.nomination if step.room is not None else None
    if nomination is not None:
        for victim in nomination.victims:
            gone = reading.pods[victim.key]
            del gone["spec"]["nodeName"]
        reading.nominated[key] = nomination.node_name


@given(SCENARIOS)
@settings(max_examples=examples(100))
def test_decisions_are_those_of_a_plain_reading(scenario: Json) -> None:
    placer, reading = load(parse(json.dumps(scenario)), OPTIONS, PLUGINS), Reading(scenario)
    for key in scenario["pods"]:
        pod = reading.pods[key]
        _check_kept(placer, key)
        step = placer.place(key)
        if step.outcome is Outcome.ALREADY_SCHEDULED:
            assert pod["spec"].get("nodeName")
            continue
        _check_decision(reading, pod, step)
        _check_victims(reading, pod, step)
        _follow(reading, pod, step)
