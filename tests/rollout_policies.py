"""The policies of deploy/rollout, as Mooring's evaluator of CEL reads them: which scheduler a pod gets."""

from typing import Any

import yaml

from deploying import DEPLOY
from mooring.cel.expression import compile_expression
from mooring.cel.language.checker import Declarations
from mooring.cel.values import DYN, Fault
from mooring.rules.device_expressions import declarations

LIMIT = 1_000_000
"""The most that one expression of a policy may cost in the API server (PerCallLimit)."""
CHANGE = '? Object{spec: Object.spec{schedulerName: "mooring"}} : Object{}'
ITEMS = [*yaml.safe_load_all((DEPLOY / "rollout" / "policies.yaml").read_text())]
Labels = dict[str, str]


def items_of(kind: str) -> list[Any]:
    return [item for item in ITEMS if item["kind"] == kind]


def evaluated(text: str, **variables: Any) -> Any:
    device = declarations(True)
    known = Declarations(device.library, dict.fromkeys(variables, DYN), types=device.types)
    value, cost = compile_expression(text, known).evaluate(variables, LIMIT)
    assert not isinstance(value, Fault), value
    assert cost < LIMIT
    return value


def holds(selector: Any, labels: Labels) -> bool:
    """Whether a label selector of a manifest selects these labels. An absent one selects all."""
    wanted = (selector or {}).get("matchLabels", {})
    others = (selector or {}).get("matchExpressions", [])
    assert {each["operator"] for each in others} <= {"NotIn"}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        labels.get(each["key"]) not in each["values"] for each in others
    )


def takes(match: Any, pod: Any, namespace: Labels) -> bool:
    return holds(match.get("namespaceSelector"), namespace) and holds(
        match.get("objectSelector"), pod["metadata"].get("labels", {})
    )


def scheduler_of(pod: Any, namespace: str = "shop", labels: Labels | None = None, percent: str | None = None) -> str:
    """The scheduler of a pod after all bindings of the policy. `percent` is what the ConfigMap of shares says."""
    (policy,), request = items_of("MutatingAdmissionPolicy"), {"namespace": namespace}
    in_namespace = {"kubernetes.io/metadata.name": namespace, **(labels or {})}
    spec, name = policy["spec"], pod["spec"]["schedulerName"]
    for binding in items_of("MutatingAdmissionPolicyBinding"):
        given = {"object": {**pod, "spec": {**pod["spec"], "schedulerName": name}}, "request": request}
        matches = [spec["matchConstraints"], binding["spec"]["matchResources"]]
        is_meant = all(takes(match, pod, in_namespace) for match in matches)
        if not is_meant or not all(evaluated(each["expression"], **given) for each in spec["matchConditions"]):
            continue
        chosen = binding["spec"]["paramRef"]["name"]
        (params,) = (item for item in items_of("ConfigMap") if item["metadata"]["name"] == chosen)
        data = {"percent": percent} if percent is not None and chosen.endswith("share") else params["data"]
        variables: dict[str, Any] = {}
        for each in spec["variables"]:
            variables[each["name"]] = evaluated(each["expression"], **given, variables=variables)
        (mutation,) = spec["mutations"]
        written = mutation["applyConfiguration"]["expression"]
        assert written.endswith(CHANGE)
        condition = written.removesuffix(CHANGE)
        if evaluated(condition, **given, params={"data": data}, variables=variables):
            name = "mooring"
    return str(name)


def a_template(name: str = "", owner: str = "", **more: Any) -> Any:
    """A pod as the API server sees it before it has a uid: controllers name most pods by generateName."""
    metadata: Any = {"name": name} if name else {"generateName": "web-6d4b75cb6d-"}
    metadata |= {"ownerReferences": [{"kind": "ReplicaSet", "uid": owner}]} if owner else {}
    return {
        "metadata": {**metadata, **more.pop("metadata", {})},
        "spec": {"schedulerName": "default-scheduler", **more},
    }
