"""`mooring conform`: answers scenarios in the form of the conformance corpus, one line each."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from mooring.framework.registry import Registry
from mooring.framework.status import Rejection
from mooring.scheduler.assembly import all_plugins
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.decision import DecisionDetails, Diagnosis, NoFit, Placement
from mooring.sim import conform_config, timeline
from mooring.sim.placer import Step
from mooring.sim.scenario import UNUSABLE, ScenarioError, load, parse

Answer = dict[str, Any]


def decide(line: bytes) -> Answer:
    """Every verdict and every score of every attempt."""
    return _run(line, DecideOptions(explain=True), _full_step)


def compact(line: bytes) -> Answer:
    """The result of every attempt, without its details."""
    return _run(line, DecideOptions(record=True), _compact_step)


def check_config(line: bytes) -> Answer:
    """What becomes of a configuration."""
    try:
        scenario = parse(line)
    except ScenarioError as fault:
        return {"name": "", "stage": "decode", "error": str(fault)}
    return conform_config.answer({"name": scenario.name, "config": scenario.config}, _registry())


def follow(line: bytes) -> Answer:
    """The state of queue and cluster after each operation, on a virtual clock."""
    name = ""
    try:
        name = parse(line).name
        return timeline.run(line, _registry())
    except UNUSABLE as fault:
        return {"name": name, "error": str(fault), "states": []}


MODES: dict[str, Callable[[bytes], Answer]] = {
    "decide": decide,
    "compact": compact,
    "timeline": follow,
    "config": check_config,
}


def answer_all(mode: str, lines: Iterable[bytes]) -> Iterator[bytes]:
    """One answer a line, in order. A line that cannot be used is answered with its error, and the next one is taken."""
    for line in lines:
        if line.strip():
            yield msgspec.json.encode(MODES[mode](line)) + b"\n"


_plugins: list[Registry] = []


def _registry() -> Registry:
    if not _plugins:
        _plugins.append(all_plugins())
    return _plugins[0]


def _run(line: bytes, options: DecideOptions, show: Callable[[Step], Answer]) -> Answer:
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
    answer: Answer = {"result": step.outcome.value}
    decision = step.decision
    if step.gate is not None:
        answer["rejected"] = {"": _show(step.gate)}
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
    """What preemption found; where other PostFilter plugins spoke before it, only its own words."""
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
