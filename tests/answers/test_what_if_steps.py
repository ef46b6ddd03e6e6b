"""Each step of a what-if question alone: what is read from a change, what controllers do about it, and what is told."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from written import GROUP_GATES, a_pod_group

from mooring.answers.trial.changing_cluster import ChangingCluster, why_pending
from mooring.answers.what_if.difference import WhatIf
from mooring.answers.what_if.question import Change, described, what_if, what_if_after
from mooring.answers.what_if.targets import whole
from mooring.api.kinds import KINDS, WORKLOADS
from mooring.drivers.simulated_driver import START_NS
from mooring.framework.contract.points import BindPlugin, PermitPlugin, Plugin, PostBindPlugin, Wait
from mooring.framework.contract.status import PluginError
from mooring.inputs.field_checks import Validation
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.kit.clock import NS_PER_S
from what_if_building import (
    ZONE,
    a_budget,
    a_cluster,
    a_daemon_pods,
    a_daemon_set,
    a_deployment,
    a_running_pod,
    a_stateful_set,
    a_zone_node,
    owned_by,
)

NODES = [a_zone_node("a-1", "a"), a_zone_node("a-2", "a"), a_zone_node("b-1", "b")]
HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
JsonObject = dict[str, Any]


def ask(*parts: Any, changes: list[Change]) -> WhatIf:
    return what_if(a_cluster(*parts), changes)


def refused(change: Change, *parts: Any) -> str:
    with pytest.raises(InputError) as caught:
        ask(*(parts or (NODES,)), changes=[change])
    return str(caught.value)


def on_nodes(answer: WhatIf) -> dict[str, str]:
    """Where each pod is in the end."""
    return {key.removeprefix("default/"): node for key, node in answer.after_nodes.items()}


def a_tainted(name: str, *taints: JsonObject) -> JsonObject:
    node = a_zone_node(name, "a")
    node["spec"] = {"taints": [*taints]}
    return node


def without_server_fields(item: JsonObject) -> JsonObject:
    """A manifest as a user writes it."""
    held = {name: item["metadata"][name] for name in ("name", "namespace", "labels") if name in item["metadata"]}
    return {**item, "metadata": held}


# ---- which nodes and objects a change means


def test_a_node_may_be_named_with_its_kind() -> None:
    web = a_deployment("web", ["a-1"], cpu="3")
    for target in ("a-1", "node/a-1", "no/a-1", "nodes/a-1"):
        assert on_nodes(ask(NODES[::2], web, changes=[("drain", target)])) == {"web-0": "b-1"}, target
    assert refused(("drain", "node/zzz")) == 'drain node/zzz: no node "zzz" among 3 nodes'
    tainted = ask(NODES[::2], web, changes=[("taint", "node/a-1=x=y:NoExecute")])
    assert on_nodes(tainted) == {"web-0": "b-1"}
    added = ask(NODES[0], web, a_running_pod("more", cpu="3"), changes=[("add-nodes", "1=node/a-1")])
    assert on_nodes(added) == {"web-0": "a-1", "more": "a-1-new-1"}


def test_a_selector_means_all_nodes_that_match() -> None:
    web = a_deployment("web", ["a-2", "a-1"])
    for target in (f"{ZONE}=a", f"{ZONE}!=b", f"{ZONE} in (a,c)", f"!gpu,{ZONE}=a"):
        assert on_nodes(ask(NODES, web, changes=[("drain", target)])) == {"web-0": "b-1", "web-1": "b-1"}, target
    assert refused(("drain", "a in b")).startswith('drain a in b: "a in b" is no label selector: ')


def test_an_unknown_kind_is_refused_with_all_that_there_are() -> None:
    kinds = sorted({spec.kind for spec in (*WORKLOADS.values(), *KINDS.values())})
    told = f'no kind "Thing"; the kinds are {", ".join(kinds)}'
    assert refused(("scale", "Thing/web=1")) == f"scale Thing/web=1: {told}"
    assert {"Deployment", "Pod", "Node", "PodDisruptionBudget"} <= {*kinds}


def test_five_of_the_objects_of_one_name_are_told() -> None:
    pods = []
    for i in range(6):
        pod = a_running_pod("web", "a-1", cpu="1m")
        pod["metadata"] |= {"namespace": f"ns-{i}", "uid": f"uid-{i}"}
        pods.append(pod)
    named = ", ".join(f"ns-{i}/web" for i in range(5))
    told = f'delete pod/web: "web" could be any of {named} and 1 more: add the namespace'
    assert refused(("delete", "pod/web"), NODES, pods) == told


def test_a_number_needs_a_name_and_has_a_limit() -> None:
    form = "KIND/[NAMESPACE/]NAME=N, such as Deployment/shop/web=5"
    assert refused(("scale", "=5")) == f'scale =5: "=5" must be {form}'
    web = a_deployment("web", ["a-1"])
    for number in ("", "x", "-1", "1.0", "٣", "1000001", "0000000000003"):
        told = f'"{number}" must be a whole number from 0 to 1000000'
        assert refused(("scale", f"Deployment/web={number}"), NODES, web) == f"scale Deployment/web={number}: {told}"
    assert len(on_nodes(ask(NODES, web, changes=[("scale", "Deployment/web=000000000003")]))) == 3
    assert [whole("7", 7), whole("0", 7)] == [7, 0]
    with pytest.raises(InputError, match='^"8" must be a whole number from 0 to 7$'):
        whole("8", 7)


# ---- the question


def test_changes_may_be_written_as_python_names() -> None:
    answer = ask(NODES[:1], changes=[("add_nodes", (1, "a-1")), ("remove_nodes", "a-1"), ("add_nodes", (0, NODES[2]))])
    assert answer.changes == ["add_nodes 1=a-1", "remove_nodes a-1", "add_nodes 0=a Node"]
    assert answer.after.total.nodes == 1


def test_a_change_that_is_misspelt_is_refused_with_the_one_that_is_meant() -> None:
    changes = "drain, cordon, uncordon, remove-nodes, add-nodes, scale, apply, delete, config, taint, label"
    assert refused(("drian", "a-1")) == f"no change 'drian'; the changes are {changes}; did you mean drain?"


def test_a_file_is_named_in_the_change(tmp_path: Path) -> None:
    assert described("apply", tmp_path / "x.yaml") == f"apply {tmp_path / 'x.yaml'}"
    assert described("apply", [{}]) == "apply" and described("drain", 3) == "drain"
    assert described("add-nodes", (1, 2, 3)) == "add-nodes"


def test_problems_of_a_file_name_the_file_and_others_the_change(tmp_path: Path) -> None:
    file = tmp_path / "pod.json"
    file.write_text(
        json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": 3}})
    )
    assert refused(("apply", str(file))).startswith(f"{file}")
    wrong = tmp_path / "config.yaml"
    wrong.write_text(json.dumps({**HEADER, "parallelism": -1}))
    told = "parallelism: Invalid value: -1: should be an integer value greater than zero"
    assert refused(("config", str(wrong))) == f"{wrong}: {told}"
    assert refused(("config", wrong)) == f"{wrong}: {told}"
    assert refused(("config", {**HEADER, "parallelism": -1})) == f"configuration: {told}"


def test_a_configuration_may_be_read_already() -> None:
    off = {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}
    config = load([], config={**HEADER, "profiles": [{"plugins": off}]}).config
    answer = ask(NODES[0], a_running_pod("wide", cpu="99"), changes=[("config", config)])
    assert [(each.key, each.node) for each in answer.placed] == [("default/wide", "a-1")]
    assert answer.changes == ["config"]


def test_what_happens_before_the_changes_is_no_difference() -> None:
    """A pod that waits takes the place of another one: not because of a change."""
    vip = a_running_pod("vip", cpu="4", priority=9)
    answer = ask(NODES[0], a_running_pod("low", "a-1", cpu="4"), vip, changes=[("label", "a-1=x=y")])
    assert on_nodes(answer) == {"vip": "a-1"}
    assert answer.summary()[:2] == ["Everything fits.", "No pod moves."] and not (answer.preempted or answer.gone)


def test_extenders_are_not_called_and_pods_on_unknown_nodes_are_told() -> None:
    cluster = a_cluster(NODES, a_running_pod("lost", "gone"))
    extender = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}
    config = load([], config={**HEADER, "extenders": [extender]}).config
    answer = what_if(replace(cluster, config=config), [])
    assert answer.notes == [
        "1 extender of the configuration not called",
        "1 pod on nodes that are not in the input",
    ]
    assert ask(NODES, changes=[]).notes == []


class Hold(PermitPlugin):
    """Lets pods wait for a day."""

    name = "Hold"

    def permit(self, cycle: Any, node_name: str) -> Wait:
        return Wait(86400)


class Broken(PostBindPlugin):
    name = "Broken"

    def post_bind(self, context: Any, node_name: str) -> None:
        raise PluginError("out of order")


def with_plugin(plugin: type[Plugin], *parts: JsonObject) -> LoadedCluster:
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": plugin.name}]}}}
    return load([*parts], config={**HEADER, "profiles": [profile]}, plugins=[plugin])


def test_a_pod_that_waits_for_a_plugin_says_so() -> None:
    answer = what_if(with_plugin(Hold, NODES[0]), [("apply", without_server_fields(a_running_pod("held")))])
    assert [(each.key, each.message) for each in answer.pending] == [
        ("default/held", "has room on a-1 and waits for Hold"),
    ]


def test_faults_of_plugins_are_noted_also_those_before_another_configuration() -> None:
    cluster = with_plugin(Broken, NODES[0])
    pod = ("apply", without_server_fields(a_running_pod("unlucky")))
    for changes in ([pod], [pod, ("config", HEADER)]):
        answer = what_if(cluster, changes)
        assert answer.notes == ["PostBind of plugin Broken failed on pod default/unlucky: out of order"]
        assert on_nodes(answer) == {"unlucky": "a-1"}


class BindsItself(BindPlugin):
    """Tells a node of its own accord: no server hears of it."""

    name = "BindsItself"

    def bind(self, context: Any, node_name: str) -> None:
        return None


def test_a_pod_that_a_plugin_binds_has_its_node() -> None:
    plugins = {"bind": {"disabled": [{"name": "*"}], "enabled": [{"name": "BindsItself"}]}}
    config = {**HEADER, "profiles": [{"plugins": plugins}]}
    cluster = load([NODES[0]], config=config, plugins=[BindsItself])
    answer = what_if(cluster, [("apply", without_server_fields(a_running_pod("bound")))])
    assert [(each.key, each.node) for each in answer.placed] == [("default/bound", "a-1")] and answer.fits


def test_unknown_fields_of_applied_objects_are_refused_unless_they_may_be_there() -> None:
    strange = {**without_server_fields(a_running_pod("p")), "colour": "red"}
    assert "colour" in refused(("apply", strange))
    assert what_if(a_cluster(NODES), [("apply", strange)], Validation.IGNORE).notes == []
    (warning,) = what_if(a_cluster(NODES), [("apply", strange)], Validation.WARN).notes
    assert "colour" in warning


def test_pods_that_wait_for_their_deletion_are_not_pending() -> None:
    ending = a_running_pod("ending", cpu="99")
    ending["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    leaving = a_running_pod("leaving", "a-1")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    done = a_running_pod("done", "a-1")
    done["status"] = {"phase": "Succeeded"}
    answer = ask(NODES, ending, leaving, done, changes=[])
    assert on_nodes(answer) == {"leaving": "a-1"} and answer.fits


def test_a_pod_that_was_not_attempted_says_so() -> None:
    changing = ChangingCluster(a_cluster(NODES, a_running_pod("new")))
    assert why_pending(changing, "default/new") == "it was not attempted"
    assert why_pending(changing, "default/other") == ""


# ---- nodes are cordoned, drained and removed


def test_a_node_keeps_its_taints_while_it_is_cordoned() -> None:
    node = a_tainted("a-1", {"key": "dedicated", "value": "db", "effect": "NoSchedule"})
    pod = without_server_fields(a_running_pod("new"))
    answer = ask(node, changes=[("cordon", "a-1"), ("cordon", "a-1"), ("uncordon", "a-1"), ("apply", pod)])
    assert answer.pending[0].message.startswith("0/1 nodes are available: 1 node(s) had untolerated taint")
    free = ask(NODES[0], changes=[("cordon", "a-1"), ("uncordon", "a-1"), ("uncordon", "a-1"), ("apply", pod)])
    assert on_nodes(free) == {"new": "a-1"}


def test_a_cordoned_node_has_the_taint_that_controllers_give_it() -> None:
    changing = ChangingCluster(a_cluster(NODES[:2]))
    what_if_after(changing, [("cordon", "a-1"), ("taint", "a-1=x:NoSchedule"), ("cordon", "a-2"), ("uncordon", "a-2")])
    nodes = changing.nodes()
    assert [(each.key, each.effect) for each in nodes["a-1"].taints] == [
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
        ("x", "NoSchedule"),
    ]
    assert nodes["a-1"].spec.unschedulable and not nodes["a-2"].spec.unschedulable and nodes["a-2"].taints == []


def test_a_drain_that_gives_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.answers.trial.changing_nodes._SETTLED", 0)
    answer = ask(NODES, a_deployment("web", ["a-1"]), changes=[("drain", "a-1")])
    (blocked,) = answer.blocked
    assert (blocked.budget, blocked.message) == ("", "the drain gave up after 0 waits")
    assert answer.summary()[0] == "Not everything fits: the eviction of 1 pod is blocked."


def test_a_pod_that_leaves_later_is_not_blocked_in_the_end() -> None:
    budget = a_budget("all", "web", minAvailable=1)
    web = a_deployment("web", ["a-1"])
    answer = ask(NODES, web, budget, changes=[("drain", "a-1"), ("remove-nodes", "a-1")])
    assert not answer.blocked and [each.key for each in answer.moved] == ["default/web-0"]
    left = ask(NODES, web, budget, changes=[("drain", "a-1"), ("scale", "Deployment/web=0")])
    assert not left.blocked and [each.key for each in left.gone] == ["default/web-0"]


def test_evictions_that_are_refused_are_those_of_the_last_pods_in_order_of_their_names() -> None:
    web = a_deployment("web", ["a-2", "a-1", "a-1", "b-1"])
    answer = ask(NODES, web, a_budget("three", "web", minAvailable=4), changes=[("drain", f"{ZONE}=a")])
    assert [(each.key, each.node) for each in answer.blocked] == [
        ("default/web-0", "a-2"),
        ("default/web-1", "a-1"),
        ("default/web-2", "a-1"),
    ]


def test_a_drain_passes_over_a_pod_that_was_preempted_meanwhile() -> None:
    """The first replacement takes the room of the second pod of the drain, on a node that both may use."""
    tolerant = [{"operator": "Exists"}]
    strong = a_deployment("strong", ["a-1"], cpu="4", priority=9, tolerations=tolerant)
    weak = a_deployment("weak", ["a-2"], cpu="4", tolerations=tolerant)
    answer = ask(NODES[:2], strong, weak, changes=[("drain", f"{ZONE}=a")])
    assert answer.blocked == [] and sorted(on_nodes(answer)) == ["strong-0", "weak-0"]


def test_two_daemon_pods_with_and_without_toleration_on_a_node_that_is_tainted() -> None:
    tolerant = a_daemon_set("firm", ["a-1"], tolerations=[{"key": "x", "operator": "Exists"}])
    other = a_daemon_set("brief", ["a-1"])
    answer = ask(NODES[0], tolerant, other, changes=[("taint", "a-1=x:NoExecute")])
    assert [(each.key, each.reason) for each in answer.gone] == [
        ("default/brief-0", "its DaemonSet does not run on the node any more"),
    ]
    stays = ask(NODES[0], tolerant, other, changes=[("taint", "a-1=x:NoSchedule")])
    assert stays.gone == [] and on_nodes(stays) == {"firm-0": "a-1", "brief-0": "a-1"}


def test_a_daemon_set_makes_no_pod_for_a_node_whose_taint_it_does_not_tolerate() -> None:
    tainted = a_tainted("b-9", {"key": "x", "effect": "NoSchedule"})
    answer = ask(NODES[0], a_daemon_set("agent", ["a-1"]), changes=[("apply", tainted)])
    assert on_nodes(answer) == {"agent-0": "a-1"}
    cleared = ask(NODES[0], a_daemon_set("agent", ["a-1"]), changes=[("apply", tainted), ("taint", "b-9=x-")])
    assert on_nodes(cleared) == {"agent-0": "a-1", "agent-b-9": "b-9"}


def test_a_daemon_pod_that_waits_for_its_node_is_not_made_twice() -> None:
    waiting = a_daemon_pods("agent", ["a-1"], cpu="2")[0]
    del waiting["spec"]["nodeName"]
    waiting["status"] = {"phase": "Pending"}
    full = a_running_pod("full", "a-1", cpu="3")
    agents = [a_daemon_set("agent", [], cpu="2")[0], waiting]
    answer = ask(NODES[0], full, agents, changes=[("label", "a-1=x=y")])
    assert on_nodes(answer) == {"full": "a-1", "agent-0": ""}
    away = ask(NODES[0], full, agents, changes=[("taint", "a-1=x:NoExecute")])
    assert [(each.key, each.node, each.is_wanted) for each in away.gone] == [
        ("default/agent-0", "", True),
        ("default/full", "a-1", False),
    ]


def test_a_daemon_pod_that_waits_for_another_node_stays() -> None:
    waiting = a_daemon_pods("agent", ["b-1"], cpu="9")[0]
    del waiting["spec"]["nodeName"]
    waiting["status"] = {"phase": "Pending"}
    agents = [a_daemon_set("agent", [], cpu="1")[0], waiting]
    answer = ask(NODES[::2], agents, changes=[("label", "a-1=x=y")])
    assert on_nodes(answer) == {"agent-0": "", "agent-a-1": "a-1"}


def test_daemons_of_other_nodes_are_left_alone() -> None:
    agents = a_daemon_set("agent", ["a-1", "a-2"], nodeSelector={ZONE: "a"})
    answer = ask(NODES, agents, changes=[("label", f"a-1={ZONE}=z")])
    assert on_nodes(answer) == {"agent-1": "a-2"}


def test_copied_daemons_keep_what_else_they_prefer() -> None:
    stranger = a_daemon_pods("stranger", ["a-1"])[0]
    line = {"key": "disk", "operator": "In", "values": ["ssd"]}
    preferred = [{"weight": 5, "preference": {"matchExpressions": [line]}}]
    stranger["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    stranger["spec"]["affinity"]["podAffinity"] = {}
    changing = ChangingCluster(a_cluster(NODES[0], a_running_pod("bare", "a-1"), stranger))
    what_if_after(changing, [("add-nodes", "1=a-1")])
    (copy,) = changing.pods_on("a-1-new-1")
    assert copy.key == "default/stranger-a-1-new-1"
    affinity = copy.spec.affinity
    assert affinity is not None and affinity.pod_affinity is not None and affinity.node_affinity is not None
    assert affinity.node_affinity.preferred is not None and affinity.node_affinity.required is not None
    terms = affinity.node_affinity.required.node_selector_terms or []
    assert [(each.key, each.operator, each.values) for term in terms for each in term.match_fields or []] == [
        ("metadata.name", "In", ["a-1-new-1"]),
    ]


def test_daemons_without_an_affinity_are_copied_as_well() -> None:
    stranger = a_running_pod("stranger", "a-1", cpu="100m", owner=owned_by("DaemonSet", "stranger"))
    answer = ask(NODES[0], stranger, changes=[("add-nodes", "2=a-1")])
    assert on_nodes(answer) == {
        "stranger": "a-1",
        "stranger-a-1-new-1": "a-1-new-1",
        "stranger-a-1-new-2": "a-1-new-2",
    }


# ---- nodes are added, tainted and labelled


def test_new_nodes_take_names_that_are_free() -> None:
    taken = [a_zone_node("a-1-new-1"), a_zone_node("a-1-new-3")]
    changing = ChangingCluster(a_cluster(NODES[0], taken))
    what_if_after(changing, [("add-nodes", "2=a-1"), ("add-nodes", (1, without_server_fields(a_zone_node("big"))))])
    assert sorted(changing.nodes()) == ["a-1", "a-1-new-1", "a-1-new-2", "a-1-new-3", "a-1-new-4", "big-1"]


PAIR = "must be N=TEMPLATE, or a pair of a number and a node or a dictionary"
TEMPLATES: dict[str, tuple[Any, str]] = {
    "no number": ("=a-1", 'add-nodes =a-1: "" must be a whole number from 0 to 100000'),
    "no template": ("a-1", 'add-nodes a-1: "a-1" must be N=TEMPLATE, such as 3=node-1 or 3=node.yaml'),
    "a pair with a list": ((1, []), f"add-nodes 1=a Node: a list {PAIR}"),
    "a number alone": (3, f"add-nodes: 3 {PAIR}"),
    "a number that is none": ((True, "a-1"), 'add-nodes True=a-1: "True" must be a whole number from 0 to 100000'),
    "a number below 0": ((-1, "a-1"), 'add-nodes -1=a-1: "-1" must be a whole number from 0 to 100000'),
    "a number that is too high": (
        "100001=a-1",
        'add-nodes 100001=a-1: "100001" must be a whole number from 0 to 100000',
    ),
    "a name that is nearly right": (
        "1=a-11",
        'add-nodes 1=a-11: "a-11" is neither a node of the cluster nor a file; did you mean a-1?',
    ),
}


@pytest.mark.parametrize(("value", "text"), TEMPLATES.values(), ids=TEMPLATES.keys())
def test_a_template_that_cannot_be_used(value: Any, text: str) -> None:
    assert refused(("add-nodes", value), NODES[:1]) == text


def test_a_template_is_one_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a long path is cut in messages
    file = Path("nodes.json")
    file.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [without_server_fields(n) for n in NODES]})
    )
    assert refused(("add-nodes", f"1={file}")) == f'add-nodes 1={file}: "{file}" has 3 Node manifests; write one'
    pod = without_server_fields(a_running_pod("p"))
    assert refused(("add-nodes", (1, pod))) == "add-nodes 1=a Node: an object has 0 Node manifests; write one"
    file.write_text(json.dumps({**without_server_fields(NODES[0]), "spec": {"taints": 3}}))
    assert refused(("add-nodes", f"1={file}")).startswith(f"{file}")


def test_files_of_this_machine_are_not_read_for_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("node.json").write_text(json.dumps(without_server_fields(NODES[2])))
    changing = ChangingCluster(a_cluster(NODES[:1]), reads_files=False)
    with pytest.raises(InputError) as caught:
        what_if_after(changing, [("add-nodes", "1=node.json")])
    assert str(caught.value) == 'add-nodes 1=node.json: "node.json" is not a node of the cluster'


def taints_after(*changes: str, taints: tuple[JsonObject, ...] = ()) -> list[tuple[str, str, str]]:
    changing = ChangingCluster(a_cluster(a_tainted("a-1", *taints)))
    what_if_after(changing, [("taint", change) for change in changes])
    return [(each.key, each.value or "", each.effect) for each in changing.nodes()["a-1"].taints]


def test_taints_are_set_replaced_and_removed_by_key_and_effect() -> None:
    old = ({"key": "x", "value": "1", "effect": "NoSchedule"}, {"key": "x", "value": "1", "effect": "PreferNoSchedule"})
    assert taints_after("a-1=x=2:NoSchedule", taints=old) == [
        ("x", "1", "PreferNoSchedule"),
        ("x", "2", "NoSchedule"),
    ]
    assert taints_after("a-1=y:NoSchedule") == [("y", "", "NoSchedule")]
    assert taints_after(f"{ZONE}=a=y=z:NoSchedule") == [("y", "z", "NoSchedule")]
    assert taints_after("a-1=x:NoSchedule-", taints=old) == [("x", "1", "PreferNoSchedule")]
    assert taints_after("a-1=x-", taints=old) == taints_after("a-1=x=1-", taints=old) == []
    assert taints_after("a-1=z-", taints=old) == [("x", "1", "NoSchedule"), ("x", "1", "PreferNoSchedule")]


@pytest.mark.parametrize("value", ["a-1=x:Never", "a-1=x:", "a-1:NoSchedule", "a-1=x:Never-", "a-1-", "a-1=x"])
def test_a_taint_of_another_form_is_refused(value: str) -> None:
    form = "NODE|SELECTOR=key[=value]:Effect, with a - at the end to remove it"
    effects = "the effects are NoSchedule, PreferNoSchedule, NoExecute"
    assert refused(("taint", value)) == f'taint {value}: "{value}" must be {form}; {effects}'


def test_keys_and_values_that_a_server_refuses_are_refused() -> None:
    assert refused(("taint", "a-1=b@d=x:NoSchedule")).startswith(
        'taint a-1=b@d=x:NoSchedule: key: Invalid value: "b@d": '
    )
    assert refused(("label", "a-1=x=b@d")).startswith('label a-1=x=b@d: value: Invalid value: "b@d": ')
    assert refused(("label", "a-1=b@d-")).startswith('label a-1=b@d-: key: Invalid value: "b@d": ')


def labels_after(*changes: str) -> dict[str, str]:
    changing = ChangingCluster(a_cluster(a_zone_node("a-1", "a", disk="ssd")))
    what_if_after(changing, [("label", change) for change in changes])
    return {key: value for key, value in changing.nodes()["a-1"].labels.items() if "hostname" not in key}


def test_labels_are_set_replaced_and_removed() -> None:
    assert labels_after("a-1=x=y") == {ZONE: "a", "disk": "ssd", "x": "y"}
    assert labels_after("a-1=disk=hdd") == {ZONE: "a", "disk": "hdd"}
    assert labels_after("disk=ssd=disk=hdd") == {ZONE: "a", "disk": "hdd"}
    assert labels_after("a-1=disk-") == labels_after(f"{ZONE}=a=disk-") == {ZONE: "a"}
    assert labels_after("a-1=none-") == {ZONE: "a", "disk": "ssd"}
    form = "NODE|SELECTOR=key=value, or NODE|SELECTOR=key- to remove it"
    for value in ("a-1", "a-1-", "a-1=disk"):
        assert refused(("label", value)) == f'label {value}: "{value}" must be {form}'


# ---- workloads are scaled


def test_more_pods_are_like_the_newest_one() -> None:
    """Admission may have changed pods since the template was written; the newest one shows how."""
    web = a_deployment("web", ["a-1", "a-1"], cpu="1")
    for pod, cpu, created in zip(web[2:], ("2", "500m"), ("2026-01-03", "2026-01-02"), strict=True):
        pod["metadata"]["creationTimestamp"] = f"{created}T00:00:00Z"
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    answer = ask(NODES, web, changes=[("scale", "Deployment/web=3")])
    assert answer.after.total.amounts["cpu"][0] == 2000 + 500 + 2000


def test_names_of_more_pods_are_numbers_that_are_free() -> None:
    web = a_deployment("web", ["a-1", "a-1"])
    other = a_running_pod("web-2", "a-1")
    answer = ask(NODES, web, other, changes=[("scale", "Deployment/web=4")])
    assert [each.key for each in answer.placed] == ["default/web-3", "default/web-4"]


SURPLUS = {
    "a pod without a node": ({"node": ""}, {}),
    "a pod that is not ready": ({"is_ready": False}, {}),
    "the younger pod": ({"created": "2026-01-09"}, {"created": "2026-01-02"}),
}


@pytest.mark.parametrize(("first", "second"), SURPLUS.values(), ids=SURPLUS.keys())
@pytest.mark.parametrize("turned", [False, True])
def test_a_smaller_scale_deletes(first: Mapping[str, Any], second: Mapping[str, Any], turned: bool) -> None:
    deployment, replica_set, *_ = a_deployment("web", ["", ""], cpu="1")
    pods = []
    for name, given in zip(("y", "x") if turned else ("x", "y"), (first, second), strict=True):
        facts = {"node": "a-1" if name == "x" else "a-2", "is_ready": True, "created": "2026-01-02", **given}
        cpu = "1" if facts["node"] else "99"
        pod = a_running_pod(
            name, facts["node"], cpu, owned_by("ReplicaSet", "web-rs"), facts["is_ready"], labels={"app": "web"}
        )
        pod["metadata"]["creationTimestamp"] = f"{facts['created']}T00:00:00Z"
        pods.append(pod)
    answer = ask(NODES, deployment, replica_set, pods, changes=[("scale", "Deployment/web=1")])
    assert [each.key for each in answer.gone] == [f"default/{'y' if turned else 'x'}"]


def test_pods_of_a_stateful_set_leave_from_the_highest_number_and_come_at_those_that_are_missing() -> None:
    db = a_stateful_set("db", ["a-1"] * 11, cpu="10m")
    shrunk = ask(NODES, db, changes=[("scale", "sts/db=8")])
    assert [each.key for each in shrunk.gone] == ["default/db-10", "default/db-8", "default/db-9"]
    gap = [item for item in a_stateful_set("db", ["a-1"] * 3) if item["metadata"]["name"] != "db-1"]
    assert [each.key for each in ask(NODES, gap, changes=[("scale", "sts/db=3")]).placed] == ["default/db-1"]
    same = ask(NODES, gap, changes=[("scale", "sts/db=2")])
    assert [each.key for each in same.placed] == ["default/db-1"], "its pods are those with the numbers 0 and 1"
    assert [(each.key, each.reason) for each in same.gone] == [("default/db-2", "its workload is scaled down")]


def test_a_stateful_set_leaves_pods_with_other_names_alone_and_may_begin_at_another_number() -> None:
    others = [a_running_pod(name, "a-1", owner=owned_by("StatefulSet", "db")) for name in ("db-x", "other-7", "db-2-9")]
    answer = ask(NODES, a_stateful_set("db", ["a-1", "a-1"]), others, changes=[("scale", "sts/db=1")])
    assert sorted(on_nodes(answer)) == ["db-0", "db-2-9", "db-x", "other-7"]
    late = a_stateful_set("db", ["a-1", "a-1", "a-1"])
    late[0]["spec"]["ordinals"] = {"start": 1}
    moved = ask(NODES, late, changes=[("scale", "sts/db=3")])
    assert sorted(on_nodes(moved)) == ["db-1", "db-2", "db-3"]
    assert len(on_nodes(ask(NODES, late, changes=[("scale", "sts/db=0")]))) == 0


def test_a_scale_that_a_workload_has_changes_nothing() -> None:
    answer = ask(NODES, a_deployment("web", ["a-1", "b-1"]), changes=[("scale", "Deployment/web=2")])
    assert on_nodes(answer) == {"web-0": "a-1", "web-1": "b-1"} and answer.summary()[1] == "No pod moves."


def a_job(name: str, **spec: Any) -> JsonObject:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"job": name}}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {**spec, "template": template}}


def test_an_indexed_job_makes_pods_for_the_indices_that_are_missing() -> None:
    job = a_job("batch", parallelism=2, completions=4, completionMode="Indexed")
    job["metadata"] |= {"uid": "uid-Job-batch", "resourceVersion": "1", "namespace": "default"}
    pods = [
        a_running_pod(
            f"batch-{index}-abcde",
            "a-1",
            owner=owned_by("Job", "batch"),
            labels={"job": "batch", "batch.kubernetes.io/job-completion-index": str(index)},
        )
        for index in (0, 2)
    ]
    answer = ask(NODES, job, pods, changes=[("scale", "Job/batch=4")])
    assert [each.key for each in answer.placed] == ["default/batch-1", "default/batch-3"]


def test_a_job_is_scaled_down_by_its_parallelism() -> None:
    answer = ask(NODES, a_job("batch", parallelism=3, completions=9), changes=[("scale", "Job/batch=1")])
    assert len(answer.gone) == 2 and len(on_nodes(answer)) == 1


def test_a_replica_set_of_its_own_is_scaled() -> None:
    alone = a_deployment("web", ["a-1"])[1:]
    del alone[0]["metadata"]["ownerReferences"]
    answer = ask(NODES, alone, changes=[("scale", "rs/web-rs=3")])
    assert [each.key for each in answer.placed] == ["default/web-rs-0", "default/web-rs-1"]


# ---- objects are applied and deleted


def test_an_applied_pod_that_is_there_keeps_its_node_and_gets_new_labels() -> None:
    pod = without_server_fields(a_running_pod("bare", cpu="3", labels={"app": "covered"}))
    running = a_running_pod("bare", "a-1", cpu="1")
    answer = ask(NODES, running, a_budget("all", "covered", minAvailable=1), changes=[("apply", pod), ("drain", "a-1")])
    assert [(each.key, each.budget) for each in answer.blocked] == [("default/bare", "all")]
    assert answer.after.total.amounts["cpu"][0] == 0, "the node of the pod, which has 1 CPU as before, is cordoned"
    assert on_nodes(answer) == {"bare": "a-1"}
    alone = ask(NODES, running, changes=[("apply", pod)])
    assert alone.after.total.amounts["cpu"][0] == 1000


def test_an_applied_node_has_the_room_that_its_manifest_says() -> None:
    larger = without_server_fields(a_zone_node("a-1", "a", cpu="16"))
    answer = ask(NODES[0], a_running_pod("wide", cpu="9"), changes=[("apply", larger)])
    assert [(each.key, each.node) for each in answer.placed] == [("default/wide", "a-1")]
    assert answer.after.total.amounts["cpu"] == (9000, 16000)


def test_applied_objects_that_are_there_keep_their_status() -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "uid": "uid-data", "namespace": "default", "resourceVersion": "1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Lost"},
    }
    changing = ChangingCluster(a_cluster(NODES, claim))
    written = {name: claim[name] for name in ("apiVersion", "kind", "spec")}
    written["metadata"] = {"name": "data", "labels": {"x": "y"}}
    what_if_after(changing, [("apply", written)])
    held: Any = changing.find("PersistentVolumeClaim", "default/data")
    assert (held.uid, held.labels, held.status.phase) == ("uid-data", {"x": "y"}, "Lost")


def test_an_applied_workload_without_a_number_keeps_the_one_that_it_has() -> None:
    web = a_deployment("web", ["a-1", "b-1"])
    written = without_server_fields(web[0])
    del written["spec"]["replicas"]
    written["spec"] = dict(written["spec"])
    cluster = a_deployment("web", ["a-1", "b-1"])
    answer = ask(NODES, cluster, changes=[("apply", written)])
    assert on_nodes(answer) == {"web-0": "a-1", "web-1": "b-1"} and answer.notes == []


def test_an_applied_job_without_a_parallelism_has_one_pod_at_a_time() -> None:
    job = a_job("batch", parallelism=3, completions=9)
    written = a_job("batch", completions=9)
    answer = ask(NODES, job, changes=[("apply", written)])
    assert len(on_nodes(answer)) == 1


def test_a_new_workload_is_there_for_the_next_change() -> None:
    new = without_server_fields(a_deployment("new", ["", ""])[0])
    budget = a_budget("all", "new", maxUnavailable="50%")
    answer = ask(NODES[0], changes=[("apply", [new, budget]), ("scale", "Deployment/new=3"), ("drain", "a-1")])
    assert sorted(on_nodes(answer)) == ["new-0", "new-1", "new-2"]
    assert len(answer.pending) == 2 and len(answer.blocked) == 1, "half of three, rounded up, may be unavailable"


def test_a_daemon_set_with_a_new_template_runs_new_pods_on_all_its_nodes() -> None:
    old = a_daemon_set("agent", ["a-1", "a-2"], cpu="1", nodeSelector={ZONE: "a"})
    new = without_server_fields(a_daemon_set("agent", [], cpu="2", nodeSelector={ZONE: "a"})[0])
    answer = ask(NODES, old, changes=[("apply", new)])
    assert on_nodes(answer) == {"agent-a-1": "a-1", "agent-a-2": "a-2"}
    assert answer.after.total.amounts["cpu"][0] == 4000
    assert {each.reason for each in answer.gone} == {"its workload has a new pod template"}
    same = without_server_fields(old[0])
    again = ask(NODES, old, changes=[("apply", same)])
    assert on_nodes(again) == {"agent-0": "a-1", "agent-1": "a-2"} and again.gone == []


def test_defaults_of_a_server_are_no_new_template() -> None:
    web = a_deployment("web", ["a-1"])
    written = without_server_fields(json.loads(json.dumps(web[0])))
    web[0]["spec"]["template"]["spec"] |= {"schedulerName": "default-scheduler", "restartPolicy": "Always"}
    web[0]["spec"]["template"]["metadata"]["annotations"] = {"x": "y"}
    answer = ask(NODES, web, changes=[("apply", written)])
    assert answer.notes == [] and on_nodes(answer) == {"web-0": "a-1"}
    relabelled = json.loads(json.dumps(written))
    relabelled["spec"]["template"]["metadata"]["labels"]["v"] = "2"
    assert len(ask(NODES, web, changes=[("apply", relabelled)]).notes) == 1, "labels are part of the template"


def test_warnings_and_kinds_that_nobody_reads_are_noted() -> None:
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    answer = ask(NODES, changes=[("apply", [settings, without_server_fields(a_running_pod("p"))])])
    assert answer.notes == ["ignored, because decisions do not read these kinds: 1 ConfigMap"]
    assert refused(("apply", settings)) == "apply: there are no objects that decisions read"


def test_a_deleted_stateful_set_takes_only_its_own_pods_along() -> None:
    parts = [a_stateful_set("db", ["a-1"]), a_stateful_set("db-2", ["a-1"]), a_deployment("web", ["a-1"])]
    answer = ask(NODES, *parts, changes=[("delete", "sts/db")])
    assert on_nodes(answer) == {"db-2-0": "a-1", "web-0": "a-1"}
    with pytest.raises(InputError, match='^delete sts/db: no StatefulSet "db" in the cluster'):
        ask(NODES, *parts, changes=[("delete", "sts/db"), ("delete", "sts/db")])


def test_a_deleted_deployment_leaves_replica_sets_of_others() -> None:
    parts = [a_deployment("web", ["a-1"]), a_deployment("shop", ["a-1"])]
    answer = ask(NODES, *parts, changes=[("delete", "Deployment/web"), ("delete", "pod/shop-0")])
    assert answer.notes == ["Pod default/shop-0 has a controller, which creates it again"]
    changing = ChangingCluster(a_cluster(NODES, *parts))
    what_if_after(changing, [("delete", "Deployment/web")])
    assert changing.find("ReplicaSet", "default/web-rs") is None
    assert changing.find("ReplicaSet", "default/shop-rs") is not None


def test_other_objects_are_deleted_alone() -> None:
    priority = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 9,
        "globalDefault": True,
    }
    low = a_running_pod("low", "a-1", cpu="4")
    vip = without_server_fields(a_running_pod("vip", cpu="4"))
    del vip["spec"]["priority"]
    preempting = ask(NODES[0], low, priority, changes=[("apply", vip)])
    assert [each.key for each in preempting.preempted] == ["default/low"]
    without = ask(NODES[0], low, priority, changes=[("delete", "pc/high"), ("apply", vip)])
    assert without.preempted == [] and on_nodes(without) == {"low": "a-1", "vip": ""}


def test_a_deleted_node_is_gone_with_its_pods_whatever_budgets_say() -> None:
    web = a_deployment("web", ["a-1"])
    answer = ask(NODES[::2], web, a_budget("all", "web", minAvailable=1), changes=[("delete", "node/a-1")])
    assert on_nodes(answer) == {"web-0": "b-1"} and answer.after.total.nodes == 1


# ---- who replaces pods


def test_a_preempted_pod_with_an_ephemeral_volume_gets_a_new_claim() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
    low = a_running_pod("low", "a-1", cpu="4", owner=owned_by("ReplicaSet", "low-rs"), volumes=scratch)
    held = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "low-scratch",
            "namespace": "default",
            "uid": "uid-old",
            "ownerReferences": [{**owned_by("Pod", "low"), "apiVersion": "v1", "uid": "uid--low"}],
        },
        "spec": claim,
    }
    changing = ChangingCluster(a_cluster(NODES[0], low, held))
    vip = without_server_fields(a_running_pod("vip", cpu="4", priority=9))
    answer = what_if_after(changing, [("apply", vip)])
    assert [each.key for each in answer.preempted] == ["default/low"]
    found = changing.find("PersistentVolumeClaim", "default/low-scratch")
    assert found is not None and found.uid != "uid-old"


def test_the_claim_of_an_ephemeral_volume_goes_with_its_pod() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
    other = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    held = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": claim,
        }
        for name in ("pod-scratch", "data", "pod-data")
    ]
    changing = ChangingCluster(a_cluster(NODES[0], a_running_pod("pod", "a-1", volumes=scratch + other), held))
    what_if_after(changing, [("delete", "pod/pod")])
    claims = [name for kind, name in changing.driver.objects if kind == "PersistentVolumeClaim"]
    assert claims == ["default/data", "default/pod-data"]


def test_new_pods_are_created_after_all_others() -> None:
    late = a_running_pod("late", "a-1")
    late["metadata"]["creationTimestamp"] = "2999-01-01T00:00:00Z"
    for parts, expected in (([], "2"), ([late], "2999-01-01T00:00:00Z")):
        changing = ChangingCluster(a_cluster(NODES, a_deployment("web", ["a-1"]), parts))
        what_if_after(changing, [("scale", "Deployment/web=2")])
        new = next(pod for pod in changing.pods() if pod.name == "web-1")
        assert (new.metadata.creation_timestamp or "").startswith(expected)
        assert (new.metadata.creation_timestamp or "") > "2026-01-01T00:00:00Z"


def test_pods_that_wait_are_tried_in_the_order_of_their_creation() -> None:
    first, second = a_running_pod("z-first", cpu="3"), a_running_pod("a-second", cpu="3")
    second["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    answer = ask(NODES[0], second, first, changes=[])
    assert on_nodes(answer) == {"z-first": "a-1", "a-second": ""}


def test_lists_are_in_the_order_of_names() -> None:
    pods = [a_running_pod(name, "a-1", owner=owned_by("StatefulSet", "db")) for name in ("z", "m", "b")]
    bare = [a_running_pod(name, "a-1", cpu="1m") for name in ("y", "c")]
    moved = ask(NODES[::2], pods, bare, changes=[("drain", "a-1")])
    assert [each.key for each in moved.moved] == ["default/b", "default/m", "default/z"]
    assert [each.key for each in moved.gone] == ["default/c", "default/y"]
    waiting = ask(NODES[0], pods, changes=[("drain", "a-1")])
    assert [each.key for each in waiting.pending] == ["default/b", "default/m", "default/z"]
    again = ask(NODES[0], pods, changes=[("drain", "a-1"), ("uncordon", "a-1")])
    assert again.fits and not (again.moved or again.placed)
    new = [without_server_fields(a_running_pod(name)) for name in ("z", "b")]
    assert [each.key for each in ask(NODES, changes=[("apply", new)]).placed] == ["default/b", "default/z"]


def test_pods_of_a_replica_set_belong_to_the_deployment_above_it() -> None:
    """The names of the two tell it where the ReplicaSet is not in the input, if there is such a Deployment."""
    web = a_deployment("web", ["a-1"])
    alone = [
        web[0],
        a_running_pod("web-abc-x", "a-1", owner=owned_by("ReplicaSet", "web-7d4b9c6f5"), labels={"app": "web"}),
    ]
    alone[1]["metadata"]["labels"]["pod-template-hash"] = "7d4b9c6f5"
    for parts in (web, alone):
        answer = ask(NODES[::2], parts, changes=[("drain", "a-1")])
        assert [str(name) for name in answer.workloads] == ["Deployment default/web"]
    orphan = ask(NODES[::2], alone[1:], changes=[("drain", "a-1")])
    assert [str(name) for name in orphan.workloads] == ["ReplicaSet default/web-7d4b9c6f5"]


def test_workloads_are_told_in_order_of_kind_and_name() -> None:
    parts = [a_stateful_set("a", ["a-1"]), a_deployment("z", ["a-1"]), a_deployment("b", ["a-1"])]
    answer = ask(NODES[::2], *parts, a_running_pod("bare", "a-1", cpu="1m"), changes=[("remove-nodes", "a-1")])
    assert [str(name) for name in answer.workloads] == [
        *("Deployment default/b", "Deployment default/z", "StatefulSet default/a"),
    ]


def test_a_share_of_a_budget_is_that_of_what_its_workload_should_have() -> None:
    """Of four pods that the Deployment should have two are there: 50 percent must stay, which are two."""
    web = a_deployment("web", ["a-1", "b-1"])
    web[0]["spec"] = {**web[0]["spec"], "replicas": 4}
    budget = a_budget("half", "web", minAvailable="50%")
    answer = ask(NODES, web, budget, changes=[("drain", "a-1")])
    assert [each.message for each in answer.blocked] == ["needs 2 healthy pods and has 2"]
    free = ask(NODES, a_deployment("web", ["a-1", "b-1"]), budget, changes=[("drain", "a-1")])
    assert free.blocked == []


def test_a_workload_that_is_not_there_should_have_as_many_pods_as_there_are() -> None:
    pods = [
        a_running_pod(f"x-{i}", node, owner=owned_by("Custom", "x"), labels={"app": "x"}) for i, node in enumerate("ab")
    ]
    nodes = [a_zone_node("a"), a_zone_node("b")]
    for share, blocked in (("50%", []), ("51%", ["default/x-0"])):
        answer = ask(nodes, pods, a_budget("keep", "x", minAvailable=share), changes=[("drain", "a")])
        assert [each.key for each in answer.blocked] == blocked


def test_pods_that_are_being_deleted_belong_to_no_workload_any_more() -> None:
    web = a_deployment("web", ["a-1", "a-1"])
    web[3]["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    answer = ask(NODES, web, changes=[("scale", "Deployment/web=2")])
    assert [each.key for each in answer.placed] == ["default/web-2"]
    done = a_deployment("web", ["a-1", "a-1"])
    done[3]["status"] = {"phase": "Succeeded"}
    assert [each.key for each in ask(NODES, done, changes=[("scale", "Deployment/web=2")]).placed] == ["default/web-2"]


def test_at_first_budgets_allow_what_their_status_says_and_after_changes_what_is_counted() -> None:
    """A server has counted one of the budgets otherwise, and preemption asks which pod may go."""
    budgets = [a_budget("one", "one", minAvailable=1), a_budget("two", "two", maxUnavailable=1)]
    for budget, allowed in zip(budgets, (1, 0), strict=True):
        conditions = [{"type": "DisruptionAllowed", "status": "True" if allowed else "False"}]
        budget["status"] = {"disruptionsAllowed": allowed, "conditions": conditions}
    parts = [NODES[::2], a_deployment("one", ["a-1"], cpu="4"), a_deployment("two", ["b-1"], cpu="4"), budgets]
    vip = a_running_pod("vip", cpu="4", priority=9)
    before = on_nodes(ask(*parts, vip, changes=[]))
    assert before == {"vip": "a-1", "one-0": "", "two-0": "b-1"}
    after = on_nodes(ask(*parts, changes=[("apply", without_server_fields(vip))]))
    assert after == {"vip": "b-1", "one-0": "a-1", "two-0": ""}


# ---- many pods at once


def test_pods_that_are_evicted_together_are_tried_together() -> None:
    """Of two pods that leave a node, the more important one gets the room that is left: it needs to preempt nobody."""
    large = a_zone_node("a-1", "a", cpu="8")
    low = a_running_pod("a-low", "a-1", cpu="4", owner=owned_by("StatefulSet", "low"))
    high = a_running_pod("b-high", "a-1", cpu="4", owner=owned_by("StatefulSet", "high"), priority=9)
    answer = ask(large, NODES[2], low, high, changes=[("drain", "a-1")])
    assert on_nodes(answer) == {"a-low": "", "b-high": "b-1"} and answer.preempted == []


def test_controllers_replace_their_pods_one_after_another() -> None:
    owners = {"x-1": "one", "x-2": "two", "x-3": "one"}
    pods = [a_running_pod(name, "a-1", owner=owned_by("ReplicaSet", owner)) for name, owner in owners.items()]
    answer = ask(NODES[0], a_zone_node("b-1", cpu="2"), pods, changes=[("drain", "a-1")])
    assert on_nodes(answer) == {"x-1": "b-1", "x-3": "b-1", "x-2": ""}


def test_a_drain_may_wait_once_if_it_may_wait_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.answers.trial.changing_nodes._SETTLED", 1)
    answer = ask(NODES[::2], a_deployment("web", ["a-1"]), changes=[("drain", "a-1")])
    assert on_nodes(answer) == {"web-0": "b-1"} and answer.blocked == []


class Refusing(PermitPlugin):
    name = "Refusing"

    def permit(self, cycle: Any, node_name: str) -> Wait:
        raise PluginError("not today")


def test_a_pod_that_is_tried_again_and_again_for_an_hour_is_noted() -> None:
    changing = ChangingCluster(with_plugin(Refusing, NODES[0]))
    answer = what_if_after(changing, [("apply", without_server_fields(a_running_pod("p")))])
    assert 3580 * NS_PER_S < changing.simulated.clock.now_ns() - START_NS <= 3600 * NS_PER_S
    assert answer.notes == ["stopped: the scheduler would attempt some pods again and again"]
    assert on_nodes(answer) == {"p": ""}


def test_static_pods_go_with_their_node() -> None:
    static = a_running_pod("proxy", "a-1", owner=owned_by("Node", "a-1"))
    agent = a_daemon_pods("agent", ["a-1"])[0]
    answer = ask(NODES, static, agent, changes=[("remove-nodes", "a-1")])
    assert [(each.key, each.node, each.reason, each.is_wanted) for each in answer.gone] == [
        ("default/agent-0", "a-1", "its node is removed", True),
        ("default/proxy", "a-1", "its node is removed", True),
    ]


def test_pods_that_come_again_are_not_gone() -> None:
    web = a_deployment("web", ["a-1", "a-1"])
    answer = ask(NODES, web, changes=[("scale", "Deployment/web=0"), ("scale", "Deployment/web=2")])
    assert sorted(on_nodes(answer)) == ["web-0", "web-1"] and answer.gone == [] and answer.fits


def test_a_budget_counts_the_pods_that_a_new_scale_asks_for() -> None:
    web = a_deployment("web", ["a-1"])
    budget = a_budget("all", "web", minAvailable="100%")
    answer = ask(NODES, web, budget, changes=[("scale", "Deployment/web=2"), ("drain", f"{ZONE} in (a,b)")])
    assert [each.message for each in answer.blocked] == ["needs 2 healthy pods and has 2"] * 2
    rolled = without_server_fields(a_deployment("web", ["", "", ""], cpu="2")[0])
    more = ask(NODES, web, budget, changes=[("apply", rolled), ("drain", f"{ZONE} in (a,b)")])
    assert [each.message for each in more.blocked] == ["needs 3 healthy pods and has 3"] * 3


def test_new_pods_count_as_running_when_their_workload_shrinks() -> None:
    """Of two pods on one node and a new one alone on another, one of the crowded two goes."""
    web = a_deployment("web", ["a-1", "a-1"])
    small = [a_zone_node("a-1", cpu="2"), a_zone_node("b-1")]
    answer = ask(small, web, changes=[("scale", "Deployment/web=3"), ("scale", "Deployment/web=2")])
    assert on_nodes(answer)["web-2"] == "b-1" and len(answer.gone) == 1


def test_pods_of_a_template_take_names_that_are_free() -> None:
    web = a_deployment("web", [])
    answer = ask(NODES, web, a_running_pod("web-0", "a-1"), changes=[("scale", "Deployment/web=1")])
    assert sorted(on_nodes(answer)) == ["web-0", "web-deployment-0"]


def test_a_group_says_why_those_of_its_pods_wait_that_have_no_node() -> None:
    inside: Any = {"schedulingGroup": {"podGroupName": "gang"}}
    pods = [a_running_pod("gang-0", "a-1", **inside), a_running_pod("gang-1", cpu="99", **inside)]
    cluster = load([NODES[0], a_pod_group("gang", 2), *pods], feature_gates=GROUP_GATES)
    (group,) = what_if(cluster, []).groups
    assert (group.key, group.change, group.nodes) == (
        "default/gang",
        "still pending",
        {"default/gang-0": "a-1", "default/gang-1": ""},
    )
    assert "Insufficient cpu" in group.message


def test_new_pods_have_the_priority_that_admission_gives_them() -> None:
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 9,
    }
    web = a_deployment("web", [])[:2]
    agents = a_daemon_set("agent", [])
    for workload in (*web, *agents):
        workload["spec"]["template"]["spec"]["priorityClassName"] = "high"
    changing = ChangingCluster(a_cluster(NODES[0], high, web, agents))
    what_if_after(changing, [("scale", "Deployment/web=1"), ("apply", without_server_fields(a_zone_node("c-1")))])
    found = {pod.name: pod.priority for pod in changing.pods()}
    assert (found["web-0"], found["agent-c-1"]) == (9, 9)


def test_a_daemon_set_should_have_the_pods_that_it_has() -> None:
    agents = a_daemon_set("agent", ["a-1", "a-2", "b-1"])
    changing = ChangingCluster(a_cluster(NODES, agents, a_budget("keep", "agent", minAvailable="34%")))
    (counted,) = changing.budgets.of(changing.pods()[0])
    assert (counted.needs(), counted.refusal()) == ((3, 2), "needs 2 healthy pods and has 3")


def test_the_pods_that_a_stateful_set_has_stay_where_they_are() -> None:
    db = a_stateful_set("db", ["b-1", "b-1"])
    found = on_nodes(ask(NODES, db, changes=[("scale", "sts/db=3")]))
    assert (found["db-0"], found["db-1"], len(found)) == ("b-1", "b-1", 3)
