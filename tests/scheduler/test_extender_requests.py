"""What extenders are sent, word for word, and about which pods they are asked (extender.md §2-7)."""

from typing import Any

import pytest

from build import a_node
from extending import URL, Extended, a_config, a_pending, a_running, as_json, keep
from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import Call
from mooring.model.pod import Pod
from mooring.scheduler.extender_asking import in_asking_order, is_interested

GPU = "example.com/gpu"


def sent_by(world: Extended, verb: str) -> dict[str, Any]:
    (call,) = (call for call in world.calls if call.verb == verb)
    return as_json(call)


def test_a_filter_is_sent_pod_and_nodes() -> None:
    world = Extended({"filterVerb": "filter"}, nodes=(a_node("n1", labels={"disk": "ssd"}), "n2"))
    world.answers["filter"] = keep("n1")
    world.place(a_pending(labels={"app": "web"}, cpu="1"))
    sent = sent_by(world, "filter")
    assert list(sent) == ["Pod", "Nodes", "NodeNames"]
    assert sent["NodeNames"] is None
    assert list(sent["Nodes"]) == ["metadata", "items"] and sent["Nodes"]["metadata"] == {}
    assert [node["metadata"]["name"] for node in sent["Nodes"]["items"]] == ["n1", "n2"]
    assert sent["Nodes"]["items"][0]["metadata"]["labels"] == {"disk": "ssd"}
    assert "kind" not in sent["Pod"] and "apiVersion" not in sent["Pod"]
    assert sent["Pod"]["metadata"]["uid"] == "uid-pod" and sent["Pod"]["metadata"]["labels"] == {"app": "web"}
    assert sent["Pod"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}


def test_an_extender_with_a_cache_is_sent_names() -> None:
    world = Extended({"filterVerb": "filter", "prioritizeVerb": "prioritize", "nodeCacheCapable": True})
    world.answers |= {"filter": keep("n1", "n3"), "prioritize": []}
    world.place(a_pending())
    assert {k: v for k, v in sent_by(world, "filter").items() if k != "Pod"} == {
        "Nodes": None,
        "NodeNames": ["n1", "n2", "n3"],
    }
    assert {k: v for k, v in sent_by(world, "prioritize").items() if k != "Pod"} == {
        "Nodes": None,
        "NodeNames": ["n1", "n3"],
    }


@pytest.mark.parametrize("has_cache", [False, True])
def test_victims_are_sent_whole_or_by_uid(has_cache: bool) -> None:
    world = Extended({"preemptVerb": "preempt", "nodeCacheCapable": has_cache}, nodes=("n1",))
    world.put(a_running("low", "n1", cpu="3"))
    world.answers["preempt"] = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-low"}]}}}
    world.place(a_pending(cpu="3", priority=10))
    sent = sent_by(world, "preempt")
    assert list(sent) == ["Pod", "NodeNameToVictims", "NodeNameToMetaVictims"]
    if has_cache:
        assert sent["NodeNameToVictims"] is None
        assert sent["NodeNameToMetaVictims"] == {"n1": {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 0}}
    else:
        assert sent["NodeNameToMetaVictims"] is None
        (victims,) = sent["NodeNameToVictims"].values()
        assert victims["NumPDBViolations"] == 0
        assert [pod["metadata"]["name"] for pod in victims["Pods"]] == ["low"]
        assert victims["Pods"][0]["spec"]["nodeName"] == "n1"


def test_a_bind_is_sent_names_and_uid() -> None:
    world = Extended({"bindVerb": "bind"}, nodes=("n2",))
    world.answers["bind"] = {"Error": ""}
    world.place(a_pending("p1"))
    (call,) = world.calls
    assert call.binds
    assert as_json(call) == {"PodName": "p1", "PodNamespace": "default", "PodUID": "uid-p1", "Node": "n2"}


@pytest.mark.parametrize("prefix", ["http://h/sched", "http://h/sched/", "http://h/sched//"])
def test_slashes_at_the_end_of_the_prefix_are_dropped(prefix: str) -> None:
    assert Call(Extender(url_prefix=prefix), "filter", {}).url == "http://h/sched/filter"


# ---- interest


def with_resources(**resources: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "resources": resources}]


INTEREST: dict[str, tuple[Pod, bool]] = {
    "a container requests it": (a_pending(requests={GPU: "1"}), True),
    "a container limits it": (a_pending(containers=with_resources(limits={GPU: "1"})), True),
    "an init container requests it": (a_pending(initContainers=with_resources(requests={GPU: "1"})), True),
    "nobody asks for it": (a_pending(cpu="1"), False),
    "another resource of that domain": (a_pending(requests={"example.com/fpga": "1"}), False),
    "the overhead names it": (a_pending(overhead={GPU: "1"}), False),
    "the pod as a whole requests it": (a_pending(resources={"requests": {GPU: "1"}}), False),
    "an ephemeral container requests it": (a_pending(ephemeralContainers=with_resources(requests={GPU: "1"})), False),
}


@pytest.mark.parametrize("case", INTEREST)
def test_interest_goes_by_the_resources_of_containers(case: str) -> None:
    pod, expected = INTEREST[case]
    (extender,) = a_config({"managedResources": [{"name": GPU}]}).extenders
    assert is_interested(extender, pod) is expected
    assert is_interested(Extender(), pod), "one that manages nothing wants all pods"


def test_an_extender_without_interest_is_asked_nothing() -> None:
    verbs = {"filterVerb": "f", "prioritizeVerb": "p", "bindVerb": "b", "preemptVerb": "v"}
    world = Extended({**verbs, "managedResources": [{"name": GPU}]})
    assert world.place(a_pending(cpu="1")) != ""
    world.place(a_pending("big", cpu="5", priority=10))
    assert world.calls == []


def test_ignored_resources_are_left_to_the_extender() -> None:
    managed = [{"name": GPU, "ignoredByScheduler": True}]
    world = Extended({"filterVerb": "filter", "managedResources": managed, "nodeCacheCapable": True})
    world.answers["filter"] = keep("n2")
    assert world.place(a_pending(requests={GPU: "1"})) == "n2", "no node has any, and only the extender is asked"


def test_without_that_word_the_scheduler_looks_too() -> None:
    world = Extended({"filterVerb": "filter", "managedResources": [{"name": GPU}], "nodeCacheCapable": True})
    assert world.place(a_pending(requests={GPU: "1"})) == ""
    assert world.calls == []
    assert world.why()[1].startswith(f"0/3 nodes are available: 3 Insufficient {GPU}.")


# ---- order


def test_those_that_may_fail_come_last() -> None:
    prefixes = [("a", True), ("b", False), ("c", True), ("d", False)]
    extenders = [Extender(url_prefix=prefix, ignorable=ignorable) for prefix, ignorable in prefixes]
    assert [extender.url_prefix for extender in in_asking_order(extenders)] == ["b", "d", "a", "c"]


def test_each_filter_gets_what_the_one_before_left() -> None:
    world = Extended(
        {"filterVerb": "last", "ignorable": True, "nodeCacheCapable": True},
        {"filterVerb": "first", "nodeCacheCapable": True},
        {"prioritizeVerb": "none"},
        {"filterVerb": "second", "nodeCacheCapable": True},
    )
    world.answers |= {"first": keep("n1", "n2"), "second": keep("n2", "n3"), "last": keep("n2"), "none": []}
    assert world.place(a_pending()) == "n2"
    assert [(call.verb, as_json(call)["NodeNames"]) for call in world.calls] == [
        ("first", ["n1", "n2", "n3"]),
        ("second", ["n1", "n2"]),
        ("last", ["n2"]),
    ], "and with one node left nobody is asked for scores"


def test_the_url_names_the_extender() -> None:
    world = Extended({"filterVerb": "filter", "urlPrefix": f"{URL}//"})
    world.answers["filter"] = keep("n1")
    world.place(a_pending())
    assert [call.url for call in world.calls] == [f"{URL}/filter"]
