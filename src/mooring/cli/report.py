"""The report of a simulation as text for people or JSON for programs, and its tables for other commands.

The JSON is a public interface: fields may be added, but not renamed or removed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mooring.kit.clock import NS_PER_S
from mooring.model.quantity import show_amount
from mooring.scheduler.decision import DecisionDetails, DecisionError, NoFit, Placement
from mooring.sim.results import Explanation, Fate, NodeUse, PodResult, Report, SimulatedEviction, Story

# ---- tables as kubectl prints them: aligned columns for cut and grep


def format_table(headers: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "") -> str:
    """Columns aligned to the left, three spaces apart, no trailing blanks."""
    lines = [list(headers), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    return "\n".join(
        indent + "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def percent(part: int, whole: int) -> str:
    return f"{100 * part // whole}%" if whole else "-"


# ---- the report

ROWS = 100
"""How many rows a table shows; `-o wide` shows all."""

SHOWN_ALWAYS = ("cpu", "memory")
"""Resources that come first and are shown even if nodes have none."""


def as_tables(report: Report, wide: bool) -> Iterator[str]:
    """The parts of the report in their order, each a block of lines; the last is the summary."""
    if report.placed:
        yield _placed(report.placed, wide)
    if report.preempted:
        yield _preempted(report.preempted, wide)
    if report.nodes:
        yield _nodes(report.nodes, wide)
    if report.pending:
        yield _pending(report.pending, wide)
    yield f"{_summary(report)}, {len(report.nodes)} {'node' if len(report.nodes) == 1 else 'nodes'}"


def as_json(report: Report) -> dict[str, Any]:
    """The whole report. Amounts are whole numbers: cpu in milli-CPU, memory in bytes."""
    answer: dict[str, Any] = {
        "pods": [_pod_json(result) for result in report.pods],
        "nodes": [
            {
                "name": node.name,
                "pods": node.pods,
                "newPods": node.new_pods,
                "allowedPods": node.allowed_pods,
                "requested": {name: used for name, (used, _) in node.amounts.items()},
                "allocatable": {name: room for name, (_, room) in node.amounts.items()},
            }
            for node in report.nodes
        ],
        "preempted": evictions_as_json(report.preempted),
        "simulatedSeconds": report.simulated_s,
        "notes": report.notes,
    }
    if report.explanation is not None:
        answer["explanation"] = _explanation_json(report.explanation)
        answer["explanations"] = [_explanation_json(explanation) for explanation in report.explanations]
    if report.story is not None:
        answer["story"] = story_as_json(report.story)
    return answer


def evictions_as_json(evictions: Iterable[SimulatedEviction]) -> list[dict[str, str]]:
    return [
        {
            "namespace": eviction.pod.namespace,
            "name": eviction.pod.name,
            "node": eviction.node,
            "for": eviction.preemptor,
        }
        for eviction in evictions
    ]


def tell(story: Story, wide: bool) -> str:
    """The story of a pod, one line for each moment: the first and the last ones, or all with `wide`."""
    lines = [str(moment) for moment in story.moments]
    if story.left_out:
        lines = [f"... {story.left_out} earlier moments are left out", *lines]
    if not wide and len(lines) > ROWS:
        half = ROWS // 2
        lines = [*lines[:half], f"... {len(lines) - 2 * half} more: -o wide shows all", *lines[-half:]]
    return "\n".join((f"The story of {story.pod}", *(lines or ["nothing happened to it"])))


def story_as_json(story: Story) -> list[dict[str, Any]]:
    """The moments of a story. Times are in seconds since the beginning; moments of an attempt have attempt and cycle."""
    return [
        {"at": moment.at_ns / NS_PER_S, "text": moment.text}
        | ({"attempt": moment.attempt, "cycle": moment.cycle} if moment.attempt else {})
        for moment in story.moments
    ]


def explain(explanation: Explanation, wide: bool) -> Iterator[str]:
    """The explanation of a pod: scores of the feasible nodes, reasons of the rejected ones."""
    yield _verdict(explanation)
    if explanation.victims:
        yield f"Preempted for it: {', '.join(explanation.victims)}"
    if explanation.preemption:
        yield explanation.preemption
    decision = explanation.decision
    if not isinstance(decision, Placement | NoFit) or decision.details is None:
        return
    details = decision.details
    if details.scores:
        yield _score_table(explanation, details, wide)
    elif details.feasible:
        yield f"The only feasible node: {details.feasible[0]}. The scheduler took it without scoring."
    if details.rejected:
        yield _rejected(details, wide)
    absent = decision.diagnosis.absent if decision.diagnosis is not None else None
    if absent is not None:
        yield f"All other nodes: {absent.message}"


def _verdict(explanation: Explanation) -> str:
    """The outcome of a pod in one line."""
    pod, decision = explanation.pod.key, explanation.decision
    where = (
        f" (it is on {explanation.now_on} now; this is the decision if it were not placed)"
        if explanation.now_on
        else ""
    )
    if isinstance(decision, Placement):
        but = "" if explanation.fate is Fate.SCHEDULED else f", but: {explanation.message}"
        return f"{pod} goes to {decision.node}{where}{but}"
    if isinstance(decision, NoFit):
        return f"{pod} fits no node{where}: {decision.message}"
    return f"{pod} was not placed ({explanation.fate.value}){where}: {_why(explanation)}"


def _why(explanation: Explanation) -> str:
    """Why a pod was not placed."""
    return explanation.decision.error if isinstance(explanation.decision, DecisionError) else explanation.message


def _score_table(explanation: Explanation, details: DecisionDetails, wide: bool) -> str:
    scores, totals = details.scores, details.totals
    plugins = list(next(iter(scores.values())))
    ranked = sorted(totals, key=lambda node: (-totals[node], node))
    rows = [(node, totals[node], *(scores[node][plugin] for plugin in plugins)) for node in ranked]
    heads = ("NODE", "TOTAL", *(f"{plugin}*{explanation.weights.get(plugin, 1)}" for plugin in plugins))
    return "Scores (after weights)\n" + cut_table(heads, rows, wide)


def _rejected(details: DecisionDetails, wide: bool) -> str:
    rows = [(node, r.plugin, r.code.name, r.message) for node, r in sorted(details.rejected.items())]
    return "Rejected\n" + cut_table(("NODE", "PLUGIN", "VERDICT", "REASON"), rows, wide)


def _summary(report: Report) -> str:
    if not report.pods:
        return "no pending pods"
    placed = f"{len(report.placed)} of {len(report.pods)} pending {'pod' if len(report.pods) == 1 else 'pods'} placed"
    return f"{placed}, {len(report.preempted)} preempted" if report.preempted else placed


def _placed(results: list[PodResult], wide: bool) -> str:
    heads: tuple[str, ...] = ("NAMESPACE", "POD", "NODE")
    if wide:
        heads = (*heads, "PRIORITY", "SCHEDULER", "FEASIBLE", "SCORE", "NEXT BEST")
    rows = [(r.pod.namespace, r.pod.name, r.node, *(_wide_cells(r) if wide else ())) for r in results]
    return "Placed\n" + cut_table(heads, rows, wide)


def _preempted(evictions: list[SimulatedEviction], wide: bool) -> str:
    rows = [(eviction.pod.namespace, eviction.pod.name, eviction.node, eviction.preemptor) for eviction in evictions]
    return "Preempted\n" + cut_table(("NAMESPACE", "POD", "NODE", "FOR"), rows, wide)


def _wide_cells(result: PodResult) -> tuple[object, ...]:
    others = ", ".join(f"{node} ({score})" for node, score in result.best if node != result.node)
    score = result.score if result.feasible_count > 1 else "-"
    return result.pod.priority, result.pod.spec.scheduler_name, result.feasible_count, score, others or "-"


def _nodes(nodes: list[NodeUse], wide: bool) -> str:
    """A row for each node. Extended resources are always shown, others only with `-o wide`."""
    extra = sorted({name for node in nodes for name, (_, room) in node.amounts.items() if room} - set(SHOWN_ALWAYS))
    shown = [*SHOWN_ALWAYS, *(name for name in extra if wide or "/" in name)]
    heads = ("NODE", "PODS", "NEW", *(name.upper() if name in SHOWN_ALWAYS else name for name in shown))
    rows = [
        (node.name, f"{node.pods}/{node.allowed_pods}", node.new_pods, *(_amount(node, name) for name in shown))
        for node in nodes
    ]
    return "Nodes (requested/allocatable)\n" + cut_table(heads, rows, wide)


def _amount(node: NodeUse, resource: str) -> str:
    """Requested and allocatable amount with the share, in units that people read."""
    used, room = node.amounts.get(resource, (0, 0))
    if not room and not used:
        return "-"
    return f"{show_amount(resource, used)}/{show_amount(resource, room)} {percent(used, room)}"


def _pending(results: list[PodResult], wide: bool) -> str:
    """The pending pods, grouped by reason: a Deployment that does not fit would fill the screen with the same line."""
    by_reason: defaultdict[tuple[Fate, str, str], list[str]] = defaultdict(list)
    for result in results:
        by_reason[result.fate, result.message, _promise(result)].append(result.pod.key)
    lines = ["Pending"]
    for (fate, message, promise), pods in by_reason.items():
        shown = pods if wide else pods[:5]
        more = "" if len(shown) == len(pods) else f" and {len(pods) - len(shown)} more"
        lines.append(f"  {', '.join(shown)}{more}{promise}")
        lines.append(f"    {fate.value}: {message}")
    return "\n".join(lines)


def _promise(result: PodResult) -> str:
    """The nominated node of a pod; the message of a pod that waits for Permit names its node already."""
    return f" (nominated to {result.nominated})" if result.nominated and result.fate is not Fate.WAITING else ""


def cut_table(heads: Sequence[str], rows: Sequence[Sequence[object]], wide: bool) -> str:
    if wide or len(rows) <= ROWS:
        return format_table(heads, rows)
    return f"{format_table(heads, rows[:ROWS])}\n... and {len(rows) - ROWS} more: -o wide shows all"


def _pod_json(result: PodResult) -> dict[str, Any]:
    """One entry of `pods`."""
    answer: dict[str, Any] = {
        "namespace": result.pod.namespace,
        "name": result.pod.name,
        "result": result.fate.value,
        "attempts": result.attempts,
    }
    if result.fate is Fate.SCHEDULED:
        answer["node"] = result.node
        answer["feasibleNodes"] = result.feasible_count
        answer["best"] = [{"node": node, "score": score} for node, score in result.best]
    else:
        answer["message"] = result.message
    if result.nominated:
        answer["nominatedNode"] = result.nominated
    return answer


def _explanation_json(explanation: Explanation) -> dict[str, Any]:
    """One entry of `explanations`."""
    decision = explanation.decision
    answer: dict[str, Any] = {"pod": explanation.pod.key, "result": explanation.fate.value}
    if explanation.now_on:
        answer["nowOn"] = explanation.now_on
    if isinstance(decision, Placement):
        answer["node"] = decision.node
    if isinstance(decision, NoFit):
        answer["message"] = decision.message
    elif explanation.fate is not Fate.SCHEDULED:
        answer["message"] = _why(explanation)
    if explanation.preemption:
        answer["preemption"] = explanation.preemption
    if explanation.victims:
        answer["victims"] = explanation.victims
    if isinstance(decision, Placement | NoFit) and decision.details is not None:
        details = decision.details
        answer["scores"], answer["totals"], answer["feasible"] = details.scores, details.totals, details.feasible
        answer["rejected"] = {
            node: {"plugin": r.plugin, "code": r.code.name, "reasons": list(r.reasons)}
            for node, r in details.rejected.items()
        }
    return answer
