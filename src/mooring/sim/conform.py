"""`mooring conform`: answers scenarios in the form of the conformance corpus, one JSON line each.

The README of the corpus fixes the form of the answers, so the names of fields here must not change. Modes: `decide` and
`compact` attempt pods one after another, `timeline` runs a scheduler on a virtual clock, `config` builds profiles.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.framework.config import ConfigError
from mooring.framework.contract.status import Rejection
from mooring.framework.profile.profiles import build_profiles
from mooring.framework.profile.registry import Registry
from mooring.inputs.input_errors import ScenarioError
from mooring.kit.clock import VirtualClock
from mooring.model.pod import Pod
from mooring.rules.conditions import typed_condition
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.decision import DecisionDetails, DecisionError, Diagnosis, NoFit, Placement
from mooring.scheduler.failure import POD_SCHEDULED
from mooring.sim.scenario import UNUSABLE, Scenario, Step, configuration, decoded, gates_of, load, parse
from mooring.state.scheduler_assembly import all_plugins, build_scheduler

Answer = dict[str, Any]


def decide(line: bytes) -> Answer:
    """All verdicts and scores of every attempt."""
    return _run(line, DecideOptions(explain=True), _full_step)


def compact(line: bytes) -> Answer:
    """The result of every attempt, without its details."""
    return _run(line, DecideOptions(record=True), _compact_step)


def check_config(line: bytes) -> Answer:
    """The profiles that a configuration leads to, or its errors."""
    try:
        scenario = parse(line)
    except ScenarioError as fault:
        return {"name": "", "stage": "decode", "error": str(fault)}
    return config_answer(scenario.name, scenario.config, _registry())


def follow(line: bytes) -> Answer:
    """The state of queue and cluster after each operation."""
    name = ""
    try:
        name = parse(line).name
        return run_timeline(line, _registry())
    except UNUSABLE as fault:
        return {"name": name, "error": str(fault), "states": []}


MODES: dict[str, Callable[[bytes], Answer]] = {
    "decide": decide,
    "compact": compact,
    "timeline": follow,
    "config": check_config,
}


def answer_all(mode: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """One answer for each line, in order. An unusable line gets its error as the answer."""
    for line in lines:
        if line.strip():
            yield msgspec.json.encode(MODES[mode](line)) + b"\n"


_plugins: list[Registry] = []
"""The registry of all plugins, made for the first scenario: finding them takes longer than most scenarios."""


def _registry() -> Registry:
    if not _plugins:
        _plugins.append(all_plugins())
    return _plugins[0]


def _run(line: bytes, options: DecideOptions, show: Callable[[Step], Answer]) -> Answer:
    """Attempt the pods of a scenario in order."""
    name = ""
    try:
        scenario = parse(line)
        name = scenario.name
        placer = load(scenario, options, _registry())
    except ScenarioError as fault:
        return {"name": name, "error": str(fault), "steps": []}
    steps = []
    for key in scenario.pods:
        step = show(placer.place(key))
        step["pod"] = key
        steps.append(step)
    return {"name": name, "steps": steps}


def _full_step(step: Step) -> Answer:
    """The answer of the mode `decide` for one attempt."""
    answer: Answer = {"result": step.outcome.value}
    decision = step.decision
    if step.gate is not None:
        answer["rejected"] = {"": _show(step.gate)}
    if isinstance(decision, DecisionError):
        answer["error"] = decision.error
    if isinstance(decision, Placement):
        answer["node"] = decision.node
        _add_diagnosis(answer, decision.diagnosis, is_final=False)
    if isinstance(decision, NoFit):
        answer["message"] = decision.message
        _add_diagnosis(answer, decision.diagnosis, is_final=True)
    if isinstance(decision, Placement | NoFit) and decision.details is not None:
        _add_details(answer, decision.details)
    if step.room is not None:
        answer["preemption"] = _preemption(step)
    return answer


def _preemption(step: Step) -> Answer:
    """The candidates and the choice of preemption, or its own message without those of other PostFilter plugins."""
    room, failure = step.room, step.decision.failure if isinstance(step.decision, NoFit) else None
    assert room is not None and failure is not None
    if room.nomination is None:
        return {"message": room.message[max(room.message.find("preemption: "), 0) :]}
    names = failure.attempt.context.nodes.names
    answer: Answer = {"node": room.nomination.node_name}
    found = step.findings
    if found is not None:
        answer["acceptable"] = sorted(names[row] for row in found.least_harmful())
        answer["candidates"] = {
            names[row]: {
                "victims": [victim.key for victim in found.victims(row)],
                "pdbViolations": found.violations(row),
            }
            for row in found.rows.tolist()
        }
    return answer


def _compact_step(step: Step) -> Answer:
    """The answer of the mode `compact` for one attempt."""
    answer: Answer = {"result": step.outcome.value}
    if isinstance(step.decision, Placement):
        answer["node"] = step.decision.node
        answer["numFeasible"] = step.decision.feasible_count
        answer["topScore"] = step.decision.score
        _add_diagnosis(answer, step.decision.diagnosis, is_final=False)
    if isinstance(step.decision, NoFit):
        answer["message"] = step.decision.message
        _add_diagnosis(answer, step.decision.diagnosis, is_final=False)
    if step.room is not None:
        answer["preemption"] = _preemption(step)
    return answer


def _add_diagnosis(answer: Answer, diagnosis: Diagnosis | None, is_final: bool) -> None:
    if diagnosis is None:
        return
    answer["unschedulablePlugins"] = sorted(diagnosis.plugins)
    if is_final and diagnosis.absent is not None:
        answer["absentNodes"] = _show(diagnosis.absent)


def _add_details(answer: Answer, details: DecisionDetails) -> None:
    answer["feasible"] = sorted(details.feasible)
    answer["rejected"] = {node: _show(rejection) for node, rejection in details.rejected.items()}
    if details.scores:
        answer["scores"] = details.scores
        answer["totals"] = details.totals


def _show(rejection: Rejection) -> Answer:
    return {"plugin": rejection.plugin, "code": rejection.code.name, "reasons": list(rejection.reasons)}


# ---- timeline: a scheduler on a virtual clock, one change after another


_OP_NS = 1_000_000
"""Each operation takes 1 ms, so that no two have the same time."""


class TimelineOp(msgspec.Struct):
    """One operation: create, update or delete an object, or advance the clock."""

    op: str
    object: msgspec.Raw = msgspec.Raw(b"null")
    kind: str = ""
    name: str = ""
    seconds: int = 0


class Timeline(Scenario):
    """A scenario of the mode `timeline`."""

    ops: list[TimelineOp] = msgspec.field(default_factory=list)


def run_timeline(line: bytes, registry: Registry) -> Answer:
    """The state after each operation of a scenario."""
    scenario = msgspec.json.decode(line, type=Timeline)
    gates = gates_of(scenario)
    clock = VirtualClock(START_NS)
    driver = Driver(clock, build_scheduler(configuration(scenario, gates), clock, registry, gates=gates))
    return {"name": scenario.name, "states": [_state(driver, _perform(driver, op)) for op in scenario.ops]}


def _perform(driver: Driver, op: TimelineOp) -> list[str]:
    """Do one operation. Returns the pods that were attempted because of it."""
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
        item = decoded(op.object)
        if item is not None:
            (driver.create if op.op == "create" else driver.update)(item)
    return driver.settle()


def _state(driver: Driver, attempted: Sequence[str]) -> Answer:
    """Attempted, bound and pending pods after an operation."""
    bound, pending = {}, {}
    for pod in driver.pods():
        if pod.spec.node_name:
            bound[pod.key] = pod.spec.node_name
        else:
            pending[pod.key] = _pending(driver, pod)
    return {"attempted": list(attempted), "bound": bound, "pending": {k: v for k, v in pending.items() if v}}


def _pending(driver: Driver, pod: Pod) -> Answer:
    """Where a pending pod is in the queue, and what its status says; empty for a pod that no profile schedules."""
    scheduler = driver.scheduler
    entry = scheduler.queued(pod.key)
    if entry is None:
        return {}
    condition = typed_condition(pod.status.conditions, POD_SCHEDULED)
    answer: Answer = {"where": scheduler.place_in_queue(pod.key), "attempts": entry.attempts}
    if condition is not None and condition.status == "False":
        answer["reason"], answer["message"] = condition.reason, condition.message
    if pod.status.nominated_node_name:
        answer["nominatedNode"] = pod.status.nominated_node_name
    return answer


# ---- config: the plugins of each profile, or the errors of a configuration


def config_answer(name: str, written: Any, registry: Registry) -> Answer:
    """The profiles of a configuration, or upstream's default one if nothing is written."""
    try:
        profiles = build_profiles(config.default() if written is None else config.from_object(written), registry)
    except ConfigError as error:
        return {"name": name, "stage": error.stage, "error": str(error)}
    return {"name": name, "stage": "ok", "plugins": {key: profile.describe() for key, profile in profiles.items()}}
