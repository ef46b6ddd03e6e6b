"""The policies that give pods to the second scheduler: their CEL is evaluated here, on pods as controllers create them."""

import random
import uuid
from collections.abc import Iterable
from typing import Any

import pytest

from deploying import DEPLOY
from mooring.cel.expression import compile_expression
from mooring.cel.language.checker import Declarations
from mooring.cel.values import DYN
from mooring.rules.device_expressions import declarations
from rollout_policies import ITEMS, LIMIT, Labels, a_template, evaluated, items_of, scheduler_of

SHARE = {"mooring.dev/rollout": "share"}
ALL = {"mooring.dev/rollout": "all"}
DRAW = random.Random(7)
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
NAMES: dict[str, Iterable[Any]] = {
    "pods of 10,000 owners": [
        a_template(owner=str(uuid.UUID(int=DRAW.getrandbits(128), version=4))) for _ in range(10_000)
    ],
    "10,000 pods with numbers": [a_template(f"web-{i}") for i in range(10_000)],
    "10,000 pods with random names": [a_template(f"web-{''.join(DRAW.choices(LETTERS, k=10))}") for _ in range(10_000)],
}


@pytest.mark.parametrize("pods", NAMES.values(), ids=NAMES)
def test_the_share_of_pods_is_the_one_that_is_asked_for(pods: list[Any]) -> None:
    """One walk over the names: whether a pod is in a share follows from its bucket, as the next test shows."""
    (policy,) = items_of("MutatingAdmissionPolicy")
    key, bucket = (each["expression"] for each in policy["spec"]["variables"])
    device = declarations(True)
    compiled = [
        compile_expression(text, Declarations(device.library, dict.fromkeys(names, DYN), types=device.types))
        for text, names in ((key, ("object", "request")), (bucket, ("variables",)))
    ]
    buckets, dearest = [], 0
    for pod in pods:
        found, _ = compiled[0].evaluate({"object": pod, "request": {"namespace": "shop"}}, LIMIT)
        number, cost = compiled[1].evaluate({"variables": {"key": found}}, LIMIT)
        buckets.append(number)
        dearest = max(dearest, cost)
    for percent in (1, 5, 10, 25, 50, 75, 100):
        share = sum(number < percent for number in buckets) / 100
        assert share == pytest.approx(percent, abs=1.5)
    assert dearest < LIMIT / 1000


def test_a_pod_is_in_the_share_if_its_bucket_is_below_it() -> None:
    pod = a_template("web-1")
    turns = [percent for percent in range(101) if scheduler_of(pod, labels=SHARE, percent=str(percent)) == "mooring"]
    assert turns == [*range(turns[0], 101)]
    assert turns[0] > 0, "no pod is in a share of 0 %"


def test_pods_of_one_owner_go_together_and_a_larger_share_keeps_those_of_a_smaller_one() -> None:
    owners = [str(uuid.UUID(int=DRAW.getrandbits(128), version=4)) for _ in range(50)]
    chosen = {
        percent: {
            owner
            for owner in owners
            if scheduler_of(a_template(owner=owner), labels=SHARE, percent=percent) == "mooring"
        }
        for percent in ("10", "50")
    }
    assert chosen["10"] < chosen["50"] < {*owners}


@pytest.mark.parametrize(
    ("pod", "namespace", "labels", "scheduler"),
    [
        (a_template("a"), "shop", {}, "default-scheduler"),
        (a_template("a"), "shop", ALL, "mooring"),
        (a_template("a", metadata={"labels": ALL}), "shop", {}, "mooring"),
        (a_template("a", metadata={"labels": ALL}), "kube-system", ALL, "default-scheduler"),
        (a_template("a", priorityClassName="system-node-critical"), "shop", ALL, "default-scheduler"),
        (a_template("a", priorityClassName="important"), "shop", ALL, "mooring"),
        (a_template("a", schedulerName="another"), "shop", ALL, "another"),
    ],
    ids=[
        "a namespace without the label",
        "all pods of a namespace",
        "a pod with the label",
        "kube-system",
        "a critical pod",
        "a pod with another priority class",
        "a pod of a third scheduler",
    ],
)
def test_labels_of_namespaces_and_pods_choose(pod: Any, namespace: str, labels: Labels, scheduler: str) -> None:
    assert scheduler_of(pod, namespace, labels) == scheduler


def test_going_back_is_a_share_of_0() -> None:
    assert scheduler_of(a_template("web-1"), labels=SHARE, percent="0") == "default-scheduler"


@pytest.mark.parametrize(
    ("namespace", "more", "refused"),
    [
        ("shop", {}, []),
        ("kube-system", {}, ["pods in kube-system are scheduled by kube-scheduler, not by mooring"]),
        (
            "shop",
            {"priorityClassName": "system-cluster-critical"},
            ["pods with a system priority class are scheduled by kube-scheduler, not by mooring"],
        ),
    ],
    ids=["any pod", "a pod of kube-system", "a critical pod"],
)
def test_the_guard_keeps_critical_pods_from_the_second_scheduler(namespace: str, more: Any, refused: list[str]) -> None:
    (guard,) = items_of("ValidatingAdmissionPolicy")
    pod, request = a_template("a", **{**more, "schedulerName": "mooring"}), {"namespace": namespace}
    assert all(evaluated(each["expression"], object=pod) for each in guard["spec"]["matchConditions"])
    told = [
        each["message"]
        for each in guard["spec"]["validations"]
        if not evaluated(each["expression"], object=pod, request=request)
    ]
    assert told == refused


def test_policies_name_what_exists() -> None:
    policies = {item["metadata"]["name"] for item in ITEMS if item["kind"].endswith("AdmissionPolicy")}
    assert {item["spec"]["policyName"] for item in ITEMS if item["kind"].endswith("Binding")} == policies
    second = (DEPLOY / "second-scheduler.yaml").read_text()
    assert "schedulerName: mooring" in second
