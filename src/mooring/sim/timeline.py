"""`mooring conform timeline`: a scheduler on a virtual clock, told of changes one by one."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mooring.framework import config
from mooring.framework.registry import Registry
from mooring.kit.clock import VirtualClock
from mooring.model.decode import decode_json
from mooring.model.kinds import KINDS
from mooring.model.pod import Pod
from mooring.scheduler.assembly import build_scheduler
from mooring.sim.driver import START_NS, Driver

_OP_NS = 1_000_000


class Op(msgspec.Struct):
    op: str
    object: msgspec.Raw = msgspec.Raw(b"null")
    kind: str = ""
    name: str = ""
    seconds: int = 0


class Timeline(msgspec.Struct):
    name: str = ""
    config: Any = None
    ops: list[Op] = msgspec.field(default_factory=list)


class _Header(msgspec.Struct):
    kind: str = ""


_timeline = msgspec.json.Decoder(Timeline)
_header = msgspec.json.Decoder(_Header)


def run(line: bytes, registry: Registry) -> dict[str, Any]:
    """The state after each operation of a scenario."""
    scenario = _timeline.decode(line)
    chosen = config.default() if scenario.config is None else config.from_object(scenario.config)
    clock = VirtualClock(START_NS)
    driver = Driver(clock, build_scheduler(chosen, clock, registry))
    return {"name": scenario.name, "states": [_state(driver, _perform(driver, op)) for op in scenario.ops]}


def _perform(driver: Driver, op: Op) -> list[str]:
    """Do one operation. Returns the pods that were tried because of it."""
    driver.clock.advance_ns(_OP_NS)
    if op.op == "advance":
        attempted = driver.settle()
        for _ in range(op.seconds):
            driver.advance_second()
            attempted += driver.settle()
        return attempted
    if op.op == "delete":
        driver.delete(op.kind, op.name)
    else:
        kind = _header.decode(op.object).kind
        if kind in KINDS:
            item = decode_json(op.object, kind)
            (driver.create if op.op == "create" else driver.update)(item)
    return driver.settle()


def _state(driver: Driver, attempted: Sequence[str]) -> dict[str, Any]:
    bound, pending = {}, {}
    for pod in driver.pods():
        if pod.spec.node_name:
            bound[pod.key] = pod.spec.node_name
        else:
            pending[pod.key] = _pending(driver, pod)
    return {"attempted": list(attempted), "bound": bound, "pending": {k: v for k, v in pending.items() if v}}


def _pending(driver: Driver, pod: Pod) -> dict[str, Any]:
    scheduler = driver.scheduler
    entry = scheduler.queued(pod.key)
    if entry is None:
        return {}
    condition = next((c for c in pod.status.conditions or () if c.type == "PodScheduled"), None)
    answer: dict[str, Any] = {"where": scheduler.place_in_queue(pod.key), "attempts": entry.attempts}
    if condition is not None and condition.status == "False":
        answer["reason"], answer["message"] = condition.reason, condition.message
    if pod.status.nominated_node_name:
        answer["nominatedNode"] = pod.status.nominated_node_name
    return answer
