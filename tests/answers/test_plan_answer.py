"""The answer of `plan`, word for word, of nodes that are written by hand; and offers with problems."""

from typing import Any

import pytest
from written import Written, a_node, a_pod

from mooring.answers.form.data_table import DataTable
from mooring.answers.form.report_parts import BarPlot
from mooring.answers.plan import trials as trials_module
from mooring.answers.plan.additions import AddedNodes, CheaperPlan, TriedOrders
from mooring.answers.plan.demand import pods_at_peak
from mooring.answers.plan.offers import NodeOffer, read_offers
from mooring.answers.plan.plan import Plan, plan
from mooring.answers.plan.shrink import KeptNode
from mooring.answers.trial.drain_trials import DrainedPod, NodeDrain
from mooring.inputs.arrivals import arrivals_of
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import load
from mooring.model.node import Node

SMALL, LARGE = NodeOffer("small", 1.5, 10, Node()), NodeOffer("large", 1234.5, 10, Node())
MOVES = [DrainedPod(f"default/p{i}", f"n{i}") for i in range(7)]


def an_answer(**changed: Any) -> Plan:
    given: dict[str, Any] = {
        "added": [AddedNodes(SMALL, ["small-1", "small-2"], 5, 1), AddedNodes(LARGE, ["large-1"], 2, 2)],
        "removed": [NodeDrain("old", MOVES, 2), NodeDrain("empty", [], 0)],
        "pending": {"default/a": "no room", "default/b": "a gate", "default/c": "a gate"},
        "lower_bound": 1000.0,
        "at_first": 12,
        "placed_now": 2,
        "pending_at_once": 4,
        "kept": [KeptNode("stays", "its pods fit nowhere")],
        "shrinks": True,
        "notes": ["said"],
        "tried": TriedOrders(84, 84, CheaperPlan(1100.5, 30)),
    }
    return Plan(**{**given, **changed})


ONE = [AddedNodes(SMALL, ["small-1"], 5, 1)]


def values(table: DataTable) -> list[dict[str, object]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


# ---- text


def test_the_summary_begins_with_the_steps() -> None:
    assert an_answer().summary() == [
        "Add the nodes in 2 steps, in this order: each step when the pods of the step before are placed.",
        "Added all at once, 4 pods would stay pending.",
        "12 pending pods: 2 fit on the present nodes, 7 on 3 new nodes, 3 cannot be placed.",
        "The new nodes cost 1,237.5; no plan for these pods costs less than 1,000 (23.8% above).",
        "They hold in all 84 orders of pods and nodes that were tried. Nodes for 1,100.5 hold in 30 of them.",
        "2 nodes can go, one after the other, with everything still placed.",
    ]


def test_a_plan_of_one_step_says_nothing_of_steps() -> None:
    answer = an_answer(
        added=ONE,
        removed=[NodeDrain("empty", [], 0)],
        pending={},
        lower_bound=0.0,
        is_complete=False,
        tried=TriedOrders(84, 84),
    )
    assert answer.summary() == [
        "12 pending pods: 2 fit on the present nodes, 5 on 1 new node.",
        "The new nodes cost 1.5; no plan for these pods costs less than 0.",
        "They hold in all 84 orders of pods and nodes that were tried.",
        "1 node can go with everything still placed; the search ended early, and more time (--seconds) may find more.",
    ]


def test_a_plan_that_does_not_hold_in_all_orders_says_in_how_many() -> None:
    answer = an_answer(tried=TriedOrders(84, 30))
    assert answer.summary()[4] == (
        "They hold in 30 of 84 orders of pods and nodes that were tried; no nodes were found that hold in all."
    )
    assert (answer.orders, answer.orders_held, answer.cost_to_hold_in_all, answer.cheaper) == (84, 30, None, None)


def test_no_node_can_go() -> None:
    nothing: dict[str, Any] = {"added": [], "removed": [], "pending": {}, "at_first": 0}
    told = "No pod is pending: nothing has to be added."
    assert an_answer(**nothing).summary() == [told, "No node can go."]
    assert an_answer(**nothing, is_complete=False).summary() == [
        told,
        "No node can go; the search ended early, and more time (--seconds) may find more.",
    ]
    assert an_answer(**nothing, shrinks=False).summary() == [told]
    assert an_answer(**nothing).steps == 0


def test_the_printed_tables() -> None:
    tables = an_answer().tables()
    assert [(table.title, table.columns, table.is_detail) for table in tables] == [
        ("Nodes to add", ("step", "offer", "nodes", "price", "cost", "pods"), False),
        ("Nodes to drain, in this order", ("step", "node", "moves", "to", "daemons"), False),
        ("Pods that stay pending", ("pods", "such as", "reason"), False),
        ("New nodes", ("offer", "node"), True),
        ("Moves", ("step", "pod", "from", "to"), True),
        ("Nodes that stay", ("node", "reason"), True),
    ]
    add, drain, pending, new, moves, kept = (list(table.rows) for table in tables)
    assert add == [(1, "small", 2, "1.5", "3", 5), (2, "large", 1, "1,234.5", "1,234.5", 2)]
    assert drain == [(1, "old", 7, "n0, n1, n2, n3, n4 and 2 more", 2), (2, "empty", 0, "-", 0)]
    assert pending == [(2, "default/b", "a gate"), (1, "default/a", "no room")]
    assert new == [("small", "small-1"), ("small", "small-2"), ("large", "large-1")]
    assert (len(moves), moves[0]) == (7, (1, "default/p0", "old", "n0"))
    assert kept == [("stays", "its pods fit nowhere")]


def test_a_plan_of_one_step_has_no_column_of_steps() -> None:
    table = an_answer(added=ONE).tables()[0]
    assert (table.columns, table.rows) == (
        ("offer", "nodes", "price", "cost", "pods"),
        [("small", 1, "1.5", "1.5", 5)],
    )


@pytest.mark.parametrize(("nodes", "told"), [(5, "n0, n1, n2, n3, n4"), (6, "n0, n1, n2, n3, n4 and 1 more")])
def test_five_nodes_of_a_drain_are_named(nodes: int, told: str) -> None:
    assert an_answer(removed=[NodeDrain("old", MOVES[:nodes], 0)]).tables()[1].rows[0][3] == told


# ---- plots and data


def test_the_plots() -> None:
    plots = an_answer().plots()
    assert all(isinstance(plot, BarPlot) for plot in plots)
    drawn = [(plot.title, list(plot.labels), plot.bars) for plot in plots if isinstance(plot, BarPlot)]
    assert drawn == [
        ("Cost of the new nodes", ["this plan", "lower bound"], {"cost": [1237.5, 1000.0]}),
        ("Cost by offer", ["small", "large"], {"cost": [3.0, 1234.5]}),
        ("Where pending pods go", ["present nodes", "step 1", "step 2"], {"pods": [2.0, 5.0, 2.0]}),
        ("Pods that each drain moves, in order", ["old", "empty"], {"pods": [7.0, 0.0]}),
    ]
    again = an_answer(added=[*ONE, AddedNodes(SMALL, ["small-2"], 1, 1)], removed=[]).plots()
    assert [(plot.title, plot.bars) for plot in again if isinstance(plot, BarPlot)][1:] == [
        ("Cost by offer", {"cost": [3.0]}),
        ("Where pending pods go", {"pods": [2.0, 6.0]}),
    ]
    assert an_answer(added=[], removed=[], at_first=0).plots() == []


def test_the_content() -> None:
    assert an_answer(removed=[NodeDrain("old", MOVES[:1], 2)]).content() == {
        "fits": False,
        "pendingAtFirst": 12,
        "placedOnPresentNodes": 2,
        "add": [
            {
                "step": 1,
                "offer": "small",
                "count": 2,
                "price": 1.5,
                "cost": 3.0,
                "pods": 5,
                "nodes": ["small-1", "small-2"],
            },
            {
                "step": 2,
                "offer": "large",
                "count": 1,
                "price": 1234.5,
                "cost": 1234.5,
                "pods": 2,
                "nodes": ["large-1"],
            },
        ],
        "remove": [{"node": "old", "moved": [{"pod": "default/p0", "to": "n0"}], "daemonPods": 2}],
        "cost": 1237.5,
        "lowerBound": 1000.0,
        "fitsAtOnce": False,
        "pendingAtOnce": 4,
        "pending": [
            {"pod": "default/a", "reason": "no room"},
            {"pod": "default/b", "reason": "a gate"},
            {"pod": "default/c", "reason": "a gate"},
        ],
        "kept": [{"node": "stays", "reason": "its pods fit nowhere"}],
        "safeSteps": 0,
        "chances": 0,
        "cordonFirst": False,
        "saves": None,
        "searchedAll": True,
        "notes": ["said"],
        "orders": 84,
        "ordersHeld": 84,
        "costToHoldInAll": 1237.5,
        "cheaper": {"cost": 1100.5, "ordersHeld": 30},
        "priceUnit": "",
    }


def test_the_data_tables() -> None:
    tables = an_answer().data_tables()
    assert values(tables["add"])[0] == {
        "step": 1,
        "offer": "small",
        "nodes": 2,
        "price": 1.5,
        "cost": 3.0,
        "pods": 5,
    }
    assert values(tables["remove"]) == [
        {"step": 1, "node": "old", "moved_pods": 7, "daemon_pods": 2},
        {"step": 2, "node": "empty", "moved_pods": 0, "daemon_pods": 0},
    ]
    assert values(tables["moves"])[0] == {"step": 1, "pod": "default/p0", "from_node": "old", "to_node": "n0"}
    assert values(tables["pending"])[1] == {"pod": "default/b", "reason": "a gate"}
    assert values(tables["new_nodes"])[2] == {"offer": "large", "node": "large-1"}
    assert values(tables["kept"]) == [{"node": "stays", "reason": "its pods fit nowhere"}]


# ---- what is asked


def test_the_notes_name_what_the_plan_leaves_out() -> None:
    config = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    extenders = [{"urlPrefix": "http://extender.example", "filterVerb": "filter"}]
    loaded = load([a_node("n"), a_pod("p")], config={**config, "extenders": extenders})
    assert list(plan(loaded).notes) == [
        "the plan preempts no pod: pods that are pending wait for room",
        "1 extender of the configuration not called",
    ]
    assert list(plan(load([a_node("n")])).notes) == []


def test_a_note_says_that_the_search_was_bounded_in_a_large_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials_module, "LARGE_CLUSTER", 1)
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    offer = {"name": "small", "price": 1, "node": {"status": {"allocatable": room}}}
    told = plan(load([a_node("m", "1"), a_node("n", "1"), *(a_pod(f"p{i}") for i in range(3))]), [offer]).notes
    bounded = "the cluster is large: the search for new nodes made one decision for 4 in a small cluster"
    assert f"{bounded}, and tried fewer orders" in told


def test_the_problems_of_all_files_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        plan(load([a_node("n")]), [{"name": "x"}], apply=[{"kind": "Pod"}], arrivals=[{"at": "never"}])
    told = str(caught.value)
    assert "offers[0].price" in told and "never" in told and len(told.splitlines()) >= 3


def test_the_busiest_moment_has_the_pods_that_run_then() -> None:
    def names(*entries: Written) -> set[str]:
        return {pod.name.rpartition("-")[0] or pod.name for pod in pods_at_peak(arrivals_of([*entries], []))}

    early = {"at": 0, "run": 10, "count": 2, "cpu": "1", "name": "early"}
    late = {"at": 10, "run": 10, "count": 3, "cpu": "1", "name": "late"}
    assert names(early, late) == {"late"}, "the early ones end when the late ones come"
    assert names(early, {**late, "at": 9}) == {"early", "late"}
    assert names(early, {**late, "count": 1}) == {"early"}


# ---- offers

AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "110"}
NODE = {"status": {"allocatable": AMOUNTS}}


def problems(*offers: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_offers([*offers], load([a_node("there")]))
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"price": 1, "node": NODE}, "offers[0].name: Required value: a name of its own"),
        ({"name": "x", "node": NODE}, "offers[0].price: Required value: a number: what one node costs"),
        ({"name": "x", "price": 0, "node": NODE}, "offers[0].price: Invalid value: 0.0: must be a number above 0"),
        (
            {"name": "x", "price": 1, "limit": -1, "node": NODE},
            "offers[0].limit: Invalid value: -1: must be from 0 to 100000",
        ),
        ({"name": "x", "price": 1}, "offers[0]: `node` or `like`, and not both: write one of them"),
        (
            {"name": "x", "price": 1, "node": NODE, "like": "there"},
            "offers[0]: `node` or `like`, and not both: write one of them",
        ),
        (
            {"name": "x", "price": 1, "like": "other"},
            'offers[0].like: no node "other" among 1 nodes; did you mean there?',
        ),
        (
            {"name": "x", "price": 1, "like": "there", "cost": 1},
            "offers[0].cost: unknown field; the fields are name, price, limit, node, like",
        ),
        (
            {"name": "x", "price": 1, "like": "there", "limits": 1},
            "offers[0].limits: unknown field; did you mean limit?",
        ),
        (
            {"name": "x", "price": 1, "node": {}},
            "offers[0].node.status.allocatable: Required value: what pods can use: cpu, memory, pods, ...",
        ),
        (
            {"name": "x", "price": 1, "node": {"status": {"allocatable": {"cpu": "4"}}}},
            "offers[0].node.status.allocatable: it has no `pods`, so that no pod would fit; write how many may run there",
        ),
        (7, "offers[0]: Invalid value: 7: must be an object with `name`, `price` and `node` or `like`"),
    ],
)
def test_an_offer_that_cannot_be_used(entry: Any, told: str) -> None:
    assert problems(entry) == [told]


def test_offers_need_names_of_their_own() -> None:
    offer = {"name": "x", "price": 1, "node": NODE}
    assert problems(offer, offer) == ['offers[1].name: "x" names another offer too; write another name']


def test_an_offer_has_its_limit_and_its_template() -> None:
    loaded = load([a_node("there", "16")])
    entries = [{"name": "x", "price": 2, "node": NODE}, {"name": "y", "price": 3.5, "limit": 0, "like": "there"}]
    written, like = read_offers({"offers": entries}, loaded)
    assert (written.name, written.price, written.limit) == ("x", 2.0, 100_000)
    assert (like.name, like.price, like.limit, like.template.name) == ("y", 3.5, 0, "there")
