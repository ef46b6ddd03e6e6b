"""Evictions: budgets are asked, counted down, and in the end say no."""

from typing import Any

import pytest

from asking import MERGE_PATCH, PODS, a_manifest, ask
from cluster_api import an_api
from mooring.apiserver.resource_api import ResourceApi

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def an_api_with_pods(count: int = 3, ready: bool = True) -> ResourceApi:
    """Pods p0, p1, ... of an app, running."""
    api = an_api()
    for number in range(count):
        name = f"p{number}"
        body = a_manifest(name)
        body["metadata"]["labels"] = {"app": "a"}
        ask(api, "POST", PODS, body)
        ask(api, "POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": {"name": "n"}})
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        ask(
            api,
            "PATCH",
            f"{PODS}/{name}/status",
            {"status": {"phase": "Running", "conditions": conditions}},
            MERGE_PATCH,
        )
    return api


def add_budget(api: ResourceApi, allowed: int, name: str = "b", **spec: Any) -> None:
    body = {
        "metadata": {"name": name},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}, **spec},
    }
    assert ask(api, "POST", BUDGETS, body).code == 201
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 2 + allowed,
        "desiredHealthy": 2,
        "observedGeneration": 1,
    }
    assert ask(api, "PATCH", f"{BUDGETS}/{name}/status", {"status": status}, MERGE_PATCH).code == 200


def evict(api: ResourceApi, name: str, **eviction: Any) -> tuple[int, dict[str, Any]]:
    reply = ask(api, "POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name}, **eviction})
    return reply.code, reply.body


def is_leaving(api: ResourceApi, name: str) -> bool:
    return "deletionTimestamp" in ask(api, "GET", f"{PODS}/{name}").body["metadata"]


def test_without_a_budget_an_eviction_is_a_deletion() -> None:
    api = an_api_with_pods()
    code, body = evict(api, "p0")
    assert (code, body["status"]) == (201, "Success")
    assert is_leaving(api, "p0")
    conditions = ask(api, "GET", f"{PODS}/p0").body["status"]["conditions"]
    (mark,) = [each for each in conditions if each["type"] == "DisruptionTarget"]
    assert (mark["status"], mark["reason"], mark["message"]) == (
        "True",
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )


def test_a_budget_is_counted_down_and_then_says_no() -> None:
    api = an_api_with_pods()
    add_budget(api, allowed=1)
    assert evict(api, "p0")[0] == 201
    status = ask(api, "GET", f"{BUDGETS}/b").body["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["p0"])
    code, body = evict(api, "p1")
    assert (code, body["reason"]) == (429, "TooManyRequests")
    assert body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert body["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 2 healthy pods and has 3 currently",
        }
    ]
    assert not is_leaving(api, "p1")


def test_a_dry_run_counts_nothing() -> None:
    api = an_api_with_pods()
    add_budget(api, allowed=1)
    version = api.store.version
    assert evict(api, "p0", deleteOptions={"dryRun": ["All"]})[0] == 201
    assert ask(api, "POST", f"{PODS}/p0/eviction", {"metadata": {"name": "p0"}}, dryRun="All").code == 201
    assert api.store.version == version


def test_a_budget_that_nobody_has_looked_at_yet_says_not_now() -> None:
    api = an_api_with_pods()
    body = {"metadata": {"name": "b"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}}}
    ask(api, "POST", BUDGETS, body)
    code, refused = evict(api, "p0")
    assert (code, refused["details"]["retryAfterSeconds"]) == (429, 10)
    assert refused["message"].endswith("The disruption budget b is still being processed by the server.")


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_a_pod_that_does_not_run_is_nobodys_loss(phase: str) -> None:
    api = an_api_with_pods()
    add_budget(api, allowed=0)
    ask(api, "PATCH", f"{PODS}/p0/status", {"status": {"phase": phase}}, MERGE_PATCH)
    assert evict(api, "p0")[0] == 201


def test_a_pod_that_is_not_ready_may_go_where_the_budget_says_so() -> None:
    api = an_api_with_pods(ready=False)
    add_budget(api, allowed=0, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert evict(api, "p0")[0] == 201


def test_a_pod_that_is_not_ready_may_go_while_enough_others_are() -> None:
    api = an_api_with_pods(ready=False)
    add_budget(api, allowed=0)
    assert evict(api, "p0")[0] == 201
    ask(api, "PATCH", f"{BUDGETS}/b/status", {"status": {"currentHealthy": 1}}, MERGE_PATCH)
    assert evict(api, "p1")[0] == 429


def test_a_pod_with_two_budgets_cannot_be_evicted() -> None:
    api = an_api_with_pods()
    add_budget(api, 1, "b")
    add_budget(api, 1, "c")
    code, body = evict(api, "p0")
    assert code == 500
    assert body["message"].startswith("This pod has more than one PodDisruptionBudget")


def test_a_budget_of_another_namespace_or_app_is_not_asked() -> None:
    api = an_api_with_pods()
    add_budget(api, 0, selector={"matchLabels": {"app": "other"}})
    elsewhere = {"metadata": {"name": "b"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}}}
    ask(api, "POST", BUDGETS.replace("default", "kube-system"), elsewhere)
    assert evict(api, "p0")[0] == 201


def test_the_options_of_a_deletion_count() -> None:
    api = an_api_with_pods()
    assert evict(api, "p0", deleteOptions={"preconditions": {"uid": "another"}})[0] == 409
    assert evict(api, "p0", deleteOptions={"gracePeriodSeconds": 0})[0] == 201
    assert ask(api, "GET", f"{PODS}/p0").code == 404


def test_a_budget_is_not_charged_for_what_does_not_happen() -> None:
    api = an_api_with_pods()
    add_budget(api, allowed=1)
    assert evict(api, "p0", deleteOptions={"preconditions": {"uid": "another"}})[0] == 409
    assert ask(api, "GET", f"{BUDGETS}/b").body["status"]["disruptionsAllowed"] == 1


@pytest.mark.parametrize(("name", "body", "code"), [("p0", {"metadata": {"name": "p1"}}, 400), ("none", {}, 404)])
def test_an_eviction_of_nobody(name: str, body: dict[str, Any], code: int) -> None:
    assert ask(an_api_with_pods(), "POST", f"{PODS}/{name}/eviction", body).code == code
