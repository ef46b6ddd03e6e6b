"""Filtering by extenders: who passes, what the pod is told, and what follows from failures (extender.md §4)."""

from typing import Any

import pytest

from build import a_node
from extending import URL, Extended, a_pending, a_running, as_json, keep
from mooring.framework.contract.intents import Call, CallFault

NAMES = {"filterVerb": "filter", "nodeCacheCapable": True}
NODES = {"filterVerb": "filter"}
GONE = CallFault(f'Post "{URL}/filter": dial tcp 127.0.0.1:9999: connect: connection refused')
SKIPPED = "Skipping extender as it returned error and has ignorable flag set"


def a_listed(*names: str) -> dict[str, Any]:
    return {"items": [{"metadata": {"name": name}} for name in names]}


PASSES: dict[str, tuple[dict[str, Any], Any, str]] = {
    "a name": (NAMES, {"NodeNames": ["n2"]}, "n2"),
    "a whole node": (NODES, {"Nodes": a_listed("n3")}, "n3"),
    "keys in small letters": (NAMES, {"nodenames": ["n2"]}, "n2"),
    "keys as Kubernetes writes them": (NAMES, {"nodeNames": ["n2"]}, "n2"),
    "items in capitals": (NODES, {"NODES": {"Items": [{"Metadata": {"Name": "n3"}}]}}, "n3"),
    "the same name twice": (NAMES, {"NodeNames": ["n2", "n2"]}, "n2"),
    "unknown keys are passed over": (NAMES, {"NodeNames": ["n2"], "more": [1]}, "n2"),
    "names count before nodes": (NAMES, {"NodeNames": ["n2"], "Nodes": a_listed("n3")}, "n2"),
    "nodes count where names are null": (NAMES, {"NodeNames": None, "Nodes": a_listed("n3")}, "n3"),
    "an empty error is none": (NAMES, {"NodeNames": ["n2"], "Error": ""}, "n2"),
    "no name": (NAMES, {"NodeNames": []}, ""),
    "neither names nor nodes": (NAMES, {}, ""),
    "null": (NAMES, None, ""),
    "nodes without items": (NODES, {"Nodes": {}}, ""),
    "names for one that asked with nodes": (NODES, {"NodeNames": ["n2"]}, ""),
    "a node that nobody knows": (NODES, {"Nodes": a_listed("ghost")}, ""),
    "a node that nobody knows, and another": (NODES, {"Nodes": a_listed("ghost", "n1")}, "n1"),
}


@pytest.mark.parametrize("case", PASSES)
def test_who_passes(case: str) -> None:
    extender, answer, expected = PASSES[case]
    world = Extended(extender)
    world.answers["filter"] = answer
    assert world.place(a_pending()) == expected
    if not expected:
        assert world.why() == ("Unschedulable", NOBODY)


NOBODY = "0/3 nodes are available: preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."


ERRORS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "the extender says so": (NAMES, {"Error": "out of licences", "NodeNames": ["n1"]}, "out of licences"),
    "it cannot be reached": (NAMES, GONE, GONE.message),
    "a name that was not asked about": (
        NAMES,
        {"NodeNames": ["n1", "ghost"]},
        f'extender "{URL}" claims a filtered node "ghost" which is not found in the input node list',
    ),
    "a name that a plugin rejected": (
        NAMES,
        {"NodeNames": ["closed"]},
        f'extender "{URL}" claims a filtered node "closed" which is not found in the input node list',
    ),
    "a list": (NAMES, [], "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult"),
    "a number for names": (
        NAMES,
        {"NodeNames": 5},
        "json: cannot unmarshal number 5 into Go struct field ExtenderFilterResult.NodeNames",
    ),
    "a number for a reason": (
        NAMES,
        {"FailedNodes": {"n1": 1}},
        "json: cannot unmarshal number 1 into Go struct field ExtenderFilterResult.FailedNodes of type string",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_failure_ends_the_attempt(case: str) -> None:
    extender, answer, expected = ERRORS[case]
    world = Extended(extender, nodes=("n1", "n2", a_node("closed", unschedulable=True)))
    world.answers["filter"] = answer
    assert world.place(a_pending(priority=5)) == ""
    assert world.why() == ("SchedulerError", expected)
    assert world.rejectors() == set(), "only its backoff decides when it is tried again"
    assert world.scheduler.core.queue.where("default/pod") == "backoff"
    assert world.reports == []


@pytest.mark.parametrize("case", ERRORS)
def test_one_that_may_fail_is_passed_over(case: str) -> None:
    extender, answer, expected = ERRORS[case]
    nodes = ("n1", a_node("closed", unschedulable=True))
    world = Extended({**extender, "ignorable": True}, nodes=nodes)
    world.answers["filter"] = answer
    assert world.place(a_pending()) == "n1"
    assert world.reports == [f"{SKIPPED}: extender {URL}: {expected}"]


def test_after_one_that_failed_the_next_gets_the_same_nodes() -> None:
    flaky = {"filterVerb": "flaky", "nodeCacheCapable": True, "ignorable": True}
    world = Extended(flaky, {**NAMES, "ignorable": True})
    world.answers |= {"flaky": {"Error": "no", "FailedNodes": {"n1": "x"}}, "filter": keep("n3")}
    assert world.place(a_pending()) == "n3"
    assert as_json(world.calls[1])["NodeNames"] == ["n1", "n2", "n3"]


# ---- what the pod is told


def test_reasons_are_counted_like_those_of_plugins() -> None:
    world = Extended(NAMES, nodes=("n1", "n2", "n3", "n4", a_node("closed", unschedulable=True)))
    world.answers["filter"] = {
        "NodeNames": [],
        "FailedNodes": {"n1": "no licence", "n2": "too hot"},
        "FailedAndUnresolvableNodes": {"n2": "no licence", "n3": "no licence"},
    }
    assert world.place(a_pending(preemptionPolicy="Never")) == ""
    reason, message = world.why()
    assert reason == "Unschedulable"
    assert message == (
        "0/5 nodes are available: 1 node(s) were unschedulable, 3 no licence. "
        "preemption: not eligible due to preemptionPolicy=Never."
    )
    assert world.rejectors() == {"Extender", "NodeUnschedulable"}


def test_a_later_extender_has_the_last_word_on_a_node() -> None:
    world = Extended(NAMES, {"filterVerb": "second", "nodeCacheCapable": True}, nodes=("n1", "n2"))
    world.answers |= {
        "filter": {"NodeNames": ["n2"], "FailedNodes": {"n1": "first"}},
        "second": {"NodeNames": [], "FailedNodes": {"n1": "second", "n2": "second"}},
    }
    world.place(a_pending(preemptionPolicy="Never"))
    assert world.why()[1].startswith("0/2 nodes are available: 2 second. ")


def test_an_unschedulable_pod_is_tried_again_after_any_event() -> None:
    world = Extended(NAMES)
    world.answers["filter"] = {"NodeNames": []}
    assert world.place(a_pending()) == ""
    assert world.rejectors() == {"Extender"}
    assert world.scheduler.core.queue.where("default/pod") == "unschedulable"
    world.put(a_running("other", "n1"))
    assert world.scheduler.core.queue.where("default/pod") in ("backoff", "active")


def test_a_pod_that_only_plugins_rejected_does_not_wait_for_extenders() -> None:
    world = Extended(NAMES)
    assert world.place(a_pending(cpu="100")) == ""
    assert world.calls == [] and world.rejectors() == {"NodeResourcesFit"}


# ---- preemption reads the two classes of failure


@pytest.mark.parametrize(
    ("answer", "room"),
    [
        pytest.param({"FailedNodes": {"n1": "x"}}, True, id="failed: other pods may leave"),
        pytest.param({"FailedAndUnresolvableNodes": {"n1": "x"}}, False, id="unresolvable: nobody need leave"),
        pytest.param({}, False, id="dropped without a word: nobody need leave"),
    ],
)
def test_preemption_tries_nodes_that_failed(answer: dict[str, Any], room: bool) -> None:
    """A node that fits as it is has no victims to offer, which upstream takes for an error of its own."""
    world = Extended(NAMES, nodes=("n1",))
    world.put(a_running("low", "n1", cpu="1"))
    world.answers["filter"] = {"NodeNames": [], **answer}
    world.place(a_pending(cpu="1", priority=10))
    error = 'preemption: expected at least one victim pod on node "n1"'
    assert (error in world.why()[1]) is room
    assert ("Preemption is not helpful for scheduling" in world.why()[1]) is not room


def test_nodes_without_victims_do_not_hide_those_with_some() -> None:
    world = Extended(NAMES, nodes=("n1", "n2"))
    world.put(a_running("low", "n1", cpu="1"), a_running("full", "n2", cpu="4"))
    world.answers["filter"] = {"NodeNames": [], "FailedNodes": {"n1": "x"}}
    world.place(a_pending(cpu="1", priority=10))
    assert world.pod().status.nominated_node_name == "n2"


# ---- the nominated node


def a_promised(node: str) -> Any:
    return a_pending(status={"nominatedNodeName": node})


def test_a_promised_node_is_asked_about_alone() -> None:
    world = Extended(NAMES)
    world.answers["filter"] = keep("n1", "n2", "n3")
    assert world.place(a_promised("n2")) == "n2"
    assert [as_json(call)["NodeNames"] for call in world.calls] == [["n2"]]


def test_where_extenders_refuse_it_all_nodes_are_asked_about() -> None:
    world = Extended(NAMES)
    world.answers["filter"] = keep("n1")
    assert world.place(a_promised("n2")) == "n1"
    assert [as_json(call)["NodeNames"] for call in world.calls] == [["n2"], ["n1", "n2", "n3"]]


def test_a_failure_over_the_promised_node_is_not_the_end() -> None:
    world = Extended(NAMES)

    def answer(call: Call) -> Any:
        return GONE if as_json(call)["NodeNames"] == ["n2"] else {"NodeNames": ["n3"]}

    world.answers["filter"] = answer
    assert world.place(a_promised("n2")) == "n3"
    assert world.reports == [f"Evaluation failed on nominated node n2: {GONE.message}"]


# ---- how many nodes are looked at


@pytest.mark.parametrize(
    ("extender", "asked"),
    [
        pytest.param({"filterVerb": "filter"}, 3, id="an extender that filters sees all nodes"),
        pytest.param({"bindVerb": "bind"}, 0, id="one that only binds leaves the first node to be taken"),
    ],
)
def test_without_score_plugins_one_node_is_enough_unless_extenders_tell_nodes_apart(
    extender: dict[str, Any], asked: int
) -> None:
    none = {"score": {"disabled": [{"name": "*"}]}, "preScore": {"disabled": [{"name": "*"}]}}
    world = Extended(
        {**extender, "nodeCacheCapable": True},
        profiles=[{"schedulerName": "default-scheduler", "plugins": none}],
    )
    world.answers |= {"filter": keep("n3"), "bind": {}}
    world.place(a_pending())
    seen = [len(as_json(call)["NodeNames"]) for call in world.calls if call.verb == "filter"]
    assert seen == ([asked] if asked else [])


def test_what_an_extender_says_replaces_what_a_plugin_said() -> None:
    world = Extended(NAMES, nodes=("n1", a_node("closed", unschedulable=True)))
    world.answers["filter"] = {"NodeNames": [], "FailedNodes": {"n1": "x", "closed": "x"}}
    world.place(a_pending(preemptionPolicy="Never"))
    assert world.why()[1].startswith("0/2 nodes are available: 2 x. "), "each node is counted once"
