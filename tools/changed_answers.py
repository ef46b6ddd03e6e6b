"""Compares Mooring with the answers of kube-scheduler v1.36.4, and lists those that v1.37 changes on purpose.

python tools/changed_answers.py
    writes tests/conformance/changed_in_v1.37.txt: one scenario a row, with the section of the specification of v1.37 that
    explains the change. It fails, and names the scenarios, where no section does

The corpus of v1.37 (tests/conformance/v1.37) says what is right. The one of v1.36.4 has many more scenarios, and most of
its answers hold in v1.37 too. Changes of wording are no changes of decisions: `in_words_of_v137` takes them out of both
sides. What differs then is a change of a rule, and `section_of` says of which one: it looks at what differs, and whether
the scenario has what the changed rule is about.
"""

import json
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from corpus import CHECK, rows  # noqa: E402
from mooring.plugins import in_tree  # noqa: E402
from mooring.sim.conform import config_answer, decide, follow  # noqa: E402

LIST = ROOT / "tests" / "conformance" / "changed_in_v1.37.txt"
FILES = (
    *("taints", "nodeaffinity", "ports", "images", "resources", "spread", "podaffinity", "gates", "profiles", "mixed"),
    *("sequence", "preempt", "volumes", "dra", "config", "timeline", "timeline-volumes"),
)

Json = Any
Difference = tuple[str, Json, Json]
"""Where, what v1.36.4 answered, and what was found."""

# ---- Answers


def answered(mode: str, scenario: Json) -> Json:
    """Mooring's answer to a scenario."""
    if mode == "config":
        return config_answer(scenario["name"], scenario["config"], in_tree())
    return (follow if mode == "timeline" else decide)(json.dumps(scenario).encode())


def differences_from_v136(mode: str, row: Json) -> list[Difference]:
    """What differs from the answer of v1.36.4, apart from its words."""
    expected, found = in_words_of_v137(mode, row["expected"], answered(mode, row["scenario"]))
    return CHECK.compare(mode, expected, found)  # type: ignore[no-any-return]


# ---- The same answers in other words

_FILLER = re.compile(r"(no new claims to deallocate|still not schedulable), (?=preemption: )")
_FOUND = re.compile(r" preemption: found a potential placement for pod on node \S+, preempting \d+ victims$")
_NEW_PRE_FILTERS = ("NodeName", "NodeUnschedulable", "TaintToleration")


def in_words_of_v137(mode: str, expected: Json, found: Json) -> tuple[Json, Json]:
    """Both answers without what v1.37 only words in another way."""
    if mode == "config":
        plugins = {name: _points_of_v137(points) for name, points in (expected.get("plugins") or {}).items()}
        return {**expected, "plugins": plugins}, found
    if mode == "timeline":
        states = [_with_messages(state, partial(_FILLER.sub, "")) for state in expected or ()]
        return states, {**found, "states": [_with_messages(s, partial(_FOUND.sub, "")) for s in found["states"]]}
    steps = found.get("steps") or []
    return expected, {**found, "steps": [_without_zeros(*pair) for pair in zip(expected or (), steps, strict=False)]}


def _points_of_v137(points: dict[str, list[str]]) -> dict[str, list[str]]:
    """Sections 3.1 and 3.2: NodeName comes before NodeUnschedulable, and three plugins have PreFilter. A set that a profile
    disables as a whole stays empty."""
    points = {point: [*names] for point, names in points.items()}
    filters = points.get("filter", [])
    if {"NodeName", "NodeUnschedulable"} <= {*filters}:
        places = sorted(map(filters.index, ("NodeName", "NodeUnschedulable")))
        filters[places[0]], filters[places[1]] = "NodeName", "NodeUnschedulable"
    if "NodeAffinity" in points.get("preFilter", ()):
        has = filters or _NEW_PRE_FILTERS
        points["preFilter"] = [*(name for name in _NEW_PRE_FILTERS if name in has), *points["preFilter"]]
    return points


def _with_messages(state: Json, retell: Callable[[str], str]) -> Json:
    """Section 8.1: DynamicResources says nothing where it has nothing to do, and preemption says what it found."""
    pending = {
        key: {**pod, "message": retell(pod["message"])} if pod.get("message") else pod
        for key, pod in (state.get("pending") or {}).items()
    }
    return {**state, "pending": pending}


def _without_zeros(expected: Json, found: Json) -> Json:
    """Section 18.1: VolumeBinding scores all pods, with 0 where there is nothing to provision."""
    scores, known = found.get("scores") or {}, expected.get("scores") or {}
    if any("VolumeBinding" in by_plugin for by_plugin in known.values()):
        return found
    if any(by_plugin.get("VolumeBinding") for by_plugin in scores.values()):
        return found
    return {**found, "scores": {node: _without(by_plugin, "VolumeBinding") for node, by_plugin in scores.items()}}


def _without(by_plugin: dict[str, int], name: str) -> dict[str, int]:
    return {plugin: score for plugin, score in by_plugin.items() if plugin != name}


# ---- Which rule changed


def section_of(scenario: Json, difference: Difference) -> str | None:
    """The section that explains the first difference of a scenario; None: no changed rule does."""
    return next((section for section, explains in _RULES.items() if explains(scenario, difference)), None)


def _objects(scenario: Json) -> list[Json]:
    """All objects of a scenario, in timelines those of all steps."""
    return [*(scenario.get("objects") or ()), *(op["object"] for op in scenario.get("ops") or () if "object" in op)]


def _of(kind: str, scenario: Json) -> dict[str, Json]:
    """The objects of a kind by namespace and name, the last form of each."""
    return {_key(item): item for item in _objects(scenario) if item["kind"] == kind}


def _key(item: Json) -> str:
    namespace, name = item["metadata"].get("namespace"), item["metadata"]["name"]
    return f"{namespace}/{name}" if namespace else name


def _step(where: str) -> tuple[int, str]:
    """The number of the step or state that a difference is in, and what differs there."""
    found = re.fullmatch(r"(?:step|state) (\d+): (.*)", where)
    return (int(found[1]), found[2]) if found else (-1, where)


def _ties_of_victims(scenario: Json, difference: Difference) -> bool:
    """12.2: other pods are victims, of the same priorities, and none of them has started."""
    where, expected, found = difference
    if _step(where)[1] == "preemption.candidates":
        pairs = [({*each["victims"]}, {*found.get(node, {}).get("victims", ())}) for node, each in expected.items()]
    elif _step(where)[1] == "bound":
        pairs = [({*expected}, {*found})]
    else:
        return False
    pods = _of("Pod", scenario)
    return all(_are_alike(pods, before - after, after - before) for before, after in pairs)


def _are_alike(pods: dict[str, Json], some: set[str], others: set[str]) -> bool:
    some_priorities, other_priorities = (
        sorted(pods[key]["spec"].get("priority", 0) for key in each) for each in (some, others)
    )
    has_started = any((pods[key].get("status") or {}).get("startTime") for key in some | others)
    return some_priorities == other_priorities and not has_started


def _scores_of_capacity(scenario: Json, difference: Difference) -> bool:
    """18.1: the pod has a claim for which a volume is bound or provisioned on the node that is chosen."""
    number, what = _step(difference[0])
    if what not in ("node", "totals") and "[VolumeBinding]" not in what:
        return False
    classes = _of("StorageClass", scenario)
    pod = _of("Pod", scenario)[scenario["pods"][number]]
    claims = _of("PersistentVolumeClaim", scenario)
    for volume in pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        claim = claims.get(f"{pod['metadata']['namespace']}/{name}", {})
        of_class = classes.get(claim.get("spec", {}).get("storageClassName", ""), {})
        if of_class.get("volumeBindingMode") == "WaitForFirstConsumer":
            return True
    return False


def _taints_wake_fewer(scenario: Json, difference: Difference) -> bool:
    """4.5: a node changed its taints or was uncordoned, and fewer pods are attempted than before."""
    number, what = _step(difference[0])
    if what != "attempted" or not {*difference[2]} < {*difference[1]}:
        return False
    changed = scenario["ops"][number].get("object")
    if changed is None or changed["kind"] != "Node":
        return False
    before = [each for each in _objects({"ops": scenario["ops"][:number]}) if _is_same(each, changed)]
    return bool(before) and _taints(before[-1]) != _taints(changed)


def _is_same(one: Json, other: Json) -> bool:
    return one["kind"] == other["kind"] and _key(one) == _key(other)


def _taints(node: Json) -> Json:
    return node["spec"].get("taints") or [], node["spec"].get("unschedulable", False)


def _any_term_wakes(scenario: Json, difference: Difference) -> bool:
    """4.7: a pod changed or left, and pods with required anti-affinity are attempted that were not."""
    number, what = _step(difference[0])
    op = scenario["ops"][number] if what == "attempted" else {}
    if (op.get("object") or op).get("kind") != "Pod":
        return False
    pods, more = _of("Pod", scenario), {*difference[2]} - {*difference[1]}
    return bool(more) and all(
        ((pods[key]["spec"].get("affinity") or {}).get("podAntiAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        for key in more
    )


_RULES: dict[str, Callable[[Json, Difference], bool]] = {
    "4.5": _taints_wake_fewer,
    "4.7": _any_term_wakes,
    "12.2": _ties_of_victims,
    "18.1": _scores_of_capacity,
}
"""Section -> whether it explains a difference. A section that changes more decisions gets its rule here."""


# ---- The list


def changed_answers(name: str) -> dict[str, str | None]:
    """The scenarios of a file that v1.37 answers otherwise, with the section that explains it."""
    mode = CHECK.mode_of(name)
    found = {row["scenario"]["name"]: (row, differences_from_v136(mode, row)) for row in rows(name)}
    return {each: section_of(row["scenario"], wrong[0]) for each, (row, wrong) in found.items() if wrong}


def listed(name: str) -> dict[str, str]:
    """The rows of the list for a file: scenario -> section."""
    rows_of_list = (row.split() for row in LIST.read_text().splitlines() if not row.startswith("#"))
    return {scenario: section for file, scenario, section in rows_of_list if file == name}


def main() -> None:
    """Write the list anew."""
    head = "# Scenarios of the corpus of v1.36.4 with other answers in v1.37: file, scenario, section of the specification.\n"
    found = {name: changed_answers(name) for name in FILES}
    unexplained = [
        f"{name} {each}" for name, answers in found.items() for each, section in answers.items() if not section
    ]
    if unexplained:
        sys.exit("no changed rule explains: " + ", ".join(unexplained))
    lines = [f"{name} {each} {section}\n" for name, answers in found.items() for each, section in answers.items()]
    LIST.write_text("".join([head, "# tools/changed_answers.py writes this file.\n", *lines]))


if __name__ == "__main__":
    main()
