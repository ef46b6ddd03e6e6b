"""A conformance or benchmark scenario: objects as they are, and the pods to attempt in order."""

from typing import Any

import msgspec

from mooring.app.assembly import build_runners
from mooring.cycle.decide import Manner
from mooring.framework import config
from mooring.framework.registry import Registry
from mooring.model.decode import decode_json
from mooring.model.kinds import KINDS
from mooring.sim.placer import Placer


class Scenario(msgspec.Struct):
    name: str = ""
    config: Any = None
    objects: list[msgspec.Raw] = msgspec.field(default_factory=list)
    pods: list[str] = msgspec.field(default_factory=list)


class _Header(msgspec.Struct):
    kind: str = ""


_scenario = msgspec.json.Decoder(Scenario)
_header = msgspec.json.Decoder(_Header)


def parse(line: bytes | str) -> Scenario:
    return _scenario.decode(line)


def load(scenario: Scenario, manner: Manner, registry: Registry | None = None) -> Placer:
    """A placer with the scenario's objects, without any server-side defaulting. Raises ValueError with the reason."""
    chosen = config.default() if scenario.config is None else config.from_object(scenario.config)
    placer = Placer(build_runners(chosen, registry), manner)
    for raw in scenario.objects:
        kind = _header.decode(raw).kind
        if kind in KINDS:
            placer.put(decode_json(raw, kind))
    return placer
