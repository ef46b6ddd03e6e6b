"""A conformance or benchmark scenario: objects as they are, and the pods to attempt in order."""

from collections.abc import Callable
from typing import Any

import msgspec

from mooring.cluster.nodes.table import ClusterError
from mooring.framework import config
from mooring.framework.registry import Registry
from mooring.model.decode import decode_json
from mooring.model.kinds import KINDS
from mooring.model.meta import KubeObject
from mooring.scheduler.decide import DecideOptions
from mooring.sim.placer import Placer

UNUSABLE = (msgspec.MsgspecError, ValueError, OverflowError, ClusterError, RecursionError)
"""What is raised for text that is no object, and for objects that cannot be counted or contradict each other."""


class ScenarioError(ValueError):
    """A scenario that cannot be used; the text says why."""


class Scenario(msgspec.Struct):
    name: str = ""
    config: Any = None
    objects: list[msgspec.Raw] = msgspec.field(default_factory=list)
    pods: list[str] = msgspec.field(default_factory=list)


class _ScenarioHeader(msgspec.Struct):
    kind: str = ""


_scenario = msgspec.json.Decoder(Scenario)
_header = msgspec.json.Decoder(_ScenarioHeader)


def parse(line: bytes | str) -> Scenario:
    """Raises ScenarioError for what is not a scenario in JSON."""
    try:
        return _scenario.decode(line)
    except RecursionError:
        raise ScenarioError("nesting that is too deep") from None
    except (msgspec.MsgspecError, ValueError) as fault:
        raise ScenarioError(str(fault)) from fault


def configuration(scenario: Scenario) -> config.KubeSchedulerConfiguration:
    """The scenario's configuration, or the default one. Raises ScenarioError."""
    try:
        return config.default() if scenario.config is None else config.from_object(scenario.config)
    except ValueError as fault:
        raise ScenarioError(f"config: {fault}") from fault


def put_objects(scenario: Scenario, put: Callable[[KubeObject], None]) -> None:
    """Hand over the scenario's objects one by one, without any server-side defaulting. Raises ScenarioError."""
    for i, raw in enumerate(scenario.objects):
        try:
            kind = _header.decode(raw).kind
            if kind in KINDS:
                put(decode_json(raw, kind))
        except UNUSABLE as fault:
            raise ScenarioError(f"objects[{i}]: {fault}") from fault


def load(scenario: Scenario, options: DecideOptions, registry: Registry | None = None) -> Placer:
    """A placer with the scenario's objects. Raises ScenarioError."""
    chosen = configuration(scenario)
    try:
        placer = Placer(chosen, options, registry)
    except ValueError as fault:
        raise ScenarioError(f"config: {fault}") from fault
    put_objects(scenario, placer.put)
    return placer
