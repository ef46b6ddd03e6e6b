"""The least harmful candidate, found from sums and from what is kept, against a plain loop over nodes and pods.

Random clusters have pods of several priorities that differ in requests, labels, affinity, spread and host ports, disruption
budgets, nominated pods, and steps in between that change a few nodes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_preemption import a_budget, labelled

from build import a_node, a_pod
from mooring.cluster.cache import check_table
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import NOT_STARTED_NS, PodRanks, start_ns
from mooring.framework.attempts import leave_room
from mooring.framework.attempts import refiltering as what_if
from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.attempts.runner import Runner
from mooring.framework.config import default
from mooring.framework.contract.points import Handle, Nomination, NoRoom
from mooring.framework.contract.status import final
from mooring.framework.kept.prepared import CrowdedBook
from mooring.model.pod import Pod
from mooring.model.workloads import PodDisruptionBudget
from mooring.plugins.preemption import default_preemption, least_harm
from mooring.plugins.preemption.default_preemption import DefaultPreemption
from mooring.plugins.preemption.kept_dry_run import KeptDryRun
from mooring.plugins.preemption.kept_harm import NONE_FITS, Room, can_stay, harm_after, victim_positions
from mooring.plugins.preemption.victim_search import PreemptionDryRun, budgets_of, nominate
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Decision, NoFit
from mooring.state.scheduler_assembly import build_runners

GPU = "example.com/gpu"
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NODES = tuple(f"n{i}" for i in range(6))
APPS = ("web", "db", "log")
PRIORITIES = (-3, 0, 0, 4, 10)

# ---- pods and clusters at random


@dataclass(frozen=True)
class Form:
    """What a random pod asks for."""

    cpus: int
    gpus: int
    app: str | None
    rule: str
    about: str

    def fields(self) -> dict[str, Any]:
        requests = {"cpu": str(self.cpus), **({GPU: str(self.gpus)} if self.gpus else {})}
        labels = {"app": self.app} if self.app else {}
        return {"requests": requests, "labels": labels, **self._rule()}

    def _rule(self) -> dict[str, Any]:
        selector = {"matchLabels": {"app": self.about}}
        match self.rule.split():
            case ["anti", key]:
                return {"affinity": {"podAntiAffinity": _required(selector, key)}}
            case ["near", key]:
                return {"affinity": {"podAffinity": _required(selector, key)}}
            case ["spread", key]:
                spread = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
                return {"topologySpreadConstraints": [{**spread, "labelSelector": selector}]}
            case ["everybody"]:
                spread = {"maxSkew": 2, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
                return {"topologySpreadConstraints": [{**spread, "labelSelector": {}}]}
            case ["zone"]:
                return {"nodeSelector": {ZONE: "z0"}}
            case ["port"]:
                return {"ports": [{"containerPort": 80, "hostPort": 80}]}
        return {}


def _required(selector: dict[str, Any], key: str) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": selector, "topologyKey": key}]}


RULES = ("", "", "", f"anti {HOST}", f"anti {ZONE}", f"near {ZONE}", f"spread {ZONE}", f"spread {HOST}", "zone", "port")
FORMS = st.builds(
    Form,
    st.integers(0, 2),
    st.sampled_from((0, 0, 0, 1)),
    st.sampled_from((*APPS, None)),
    st.sampled_from((*RULES, "everybody")),
    st.sampled_from(APPS),
)
NODE = st.tuples(st.sampled_from(NODES), st.integers(1, 4), st.integers(0, 1), st.integers(1, 5), st.booleans())
PLACED = st.tuples(
    st.sampled_from(NODES), st.sampled_from(PRIORITIES), FORMS, st.one_of(st.none(), st.integers(0, 3)), st.booleans()
)
NAMES = ("x", "y", "pre0", "pre1")
PROMISED = st.tuples(st.sampled_from(NAMES), st.sampled_from(NODES), st.sampled_from((0, 5, 10, 20)), FORMS)
STEP = st.one_of(
    st.tuples(st.just("node"), NODE),
    st.tuples(st.just("no node"), st.sampled_from(NODES)),
    st.tuples(st.just("place"), PLACED),
    st.tuples(st.just("displace"), st.integers(0, 30)),
    st.tuples(st.just("start"), st.integers(0, 30)),
    st.tuples(st.just("promise"), PROMISED),
    st.tuples(st.just("withdraw"), st.sampled_from(NAMES)),
    st.tuples(st.just("budget"), st.sampled_from(APPS)),
    st.tuples(st.just("no budget"), st.sampled_from(APPS)),
)
BUDGETS = st.lists(st.tuples(st.sampled_from(APPS), st.integers(0, 2)), max_size=2, unique_by=lambda budget: budget[0])
PREEMPTORS = st.lists(st.tuples(FORMS, st.sampled_from((1, 5, 11))), min_size=1, max_size=3)


def a_random_pod(name: str, form: Form, priority: int, **more: Any) -> Pod:
    fields = form.fields()
    ports = fields.pop("ports", None)
    if ports is not None:
        container = {"name": "c", "ports": ports, "resources": {"requests": fields.pop("requests")}}
        fields["containers"] = [container]
    return a_pod(name, priority=priority, **fields, **more)


@dataclass
class World:
    """A small cluster that changes, and a scheduler's plugins at work on it."""

    cluster: Cluster = field(default_factory=Cluster)
    runner: Runner = field(default_factory=lambda: build_runners(default())["default-scheduler"])
    count: int = 0

    def change(self, step: tuple[str, Any]) -> None:
        table, nominated = self.cluster.nodes, self.cluster.nominated
        match step:
            case ("node", (name, cpus, gpus, pods, tainted)):
                taints = ["x=y:NoSchedule"] if tainted and cpus == 1 else []
                labels = {HOST: name, **({ZONE: f"z{int(name[1]) % 2}"} if name != "n5" else {})}
                more: dict[str, Any] = {"allocatable": {GPU: gpus}, "taints": taints, "labels": labels}
                table.put_node(a_node(name, cpu=str(cpus), pods=pods, **more))
            case ("no node", name) if any(node is not None and node.name == name for node in table.nodes):
                table.remove_node(name)
            case ("place", (name, priority, form, second, leaves)):
                self.count += 1
                metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaves and second == 3 else {}
                status = {} if second is None else {"startTime": f"2026-01-01T00:00:{second:02}Z"}
                pod = a_random_pod(f"v{self.count}", form, priority, metadata=metadata, status=status)
                table.place(pod.with_node(name), name)
            case ("displace", place) if table.pods():
                table.displace(table.pods()[place % len(table.pods())].id)
            case ("start", place) if table.pods():
                pod = table.pods()[place % len(table.pods())]
                started = a_pod("s", status={"startTime": "2026-01-01T00:00:02Z"}).status
                assert table.exchange(pod.with_status(started))
            case ("promise", (pod, name, priority, form)):
                nominated.promise(a_random_pod(pod, form, priority), name)
            case ("budget", app):
                self.cluster.put(a_budget(f"of-{app}", labelled(app), 0))
            case ("no budget", app):
                self.cluster.remove(PodDisruptionBudget, f"default/of-{app}")
            case ("withdraw", pod):
                nominated.withdraw(a_pod(pod).id)

    def decide(self, pod: Pod) -> Decision:
        return decide(self.runner, pod, self.cluster, DecideOptions())


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world = World()
    for app, allowed in draw(BUDGETS):
        world.cluster.put(a_budget(f"of-{app}", labelled(app), allowed))
    for kind, each, least, most in (("node", NODE, 2, 7), ("place", PLACED, 4, 16), ("promise", PROMISED, 0, 3)):
        for one in draw(st.lists(each, min_size=least, max_size=most)):
            world.change((kind, one))
    return world


RULED = st.builds(
    Form,
    st.integers(0, 1),
    st.just(0),
    st.sampled_from(("web", "db")),
    st.sampled_from(("", f"anti {HOST}", f"anti {HOST}", f"anti {ZONE}", f"spread {HOST}")),
    st.just("web"),
)
CROWDED = st.tuples(st.sampled_from(("x", "y", "z")), st.sampled_from(NODES[:3]), st.just(20), RULED)


@st.composite
def crowded_worlds(draw: st.DrawFn) -> World:
    """Three nodes that differ in little, with nominated pods, and rules about each other in most pods."""
    world = World()
    for name in NODES[:3]:
        world.change(("node", (name, 2, 0, 5, False)))
        for _ in range(draw(st.integers(2, 3))):
            form = replace(draw(RULED), cpus=1)  # so the node is full
            world.change(("place", (name, draw(st.sampled_from((0, 0, 4))), form, None, False)))
    for promised in draw(st.lists(CROWDED, min_size=1, max_size=3)):
        world.change(("promise", promised))
    if draw(st.booleans()):
        world.change(("budget", "web"))
    return world


SIZED = st.builds(
    Form, st.integers(1, 3), st.just(0), st.sampled_from(("web", "db", None)), st.just(""), st.just("web")
)


@st.composite
def budgeted_worlds(draw: st.DrawFn) -> World:
    """Four full nodes whose pods differ in size, age and priority, and budgets that let few of them go."""
    world = World()
    for name in NODES[:4]:
        world.change(("node", (name, 4, 0, 5, False)))
        left = 4
        while left:
            form = draw(SIZED)
            form = replace(form, cpus=min(form.cpus, left))
            started = draw(st.one_of(st.none(), st.integers(0, 2)))
            world.change(("place", (name, draw(st.sampled_from((0, 0, 4))), form, started, False)))
            left -= form.cpus
    for app in draw(st.sets(st.sampled_from(("web", "db")), min_size=1)):
        world.cluster.put(a_budget(f"of-{app}", labelled(app), draw(st.integers(0, 1))))
    return world


# ---- the plain way


def plain_choice(failure: RejectedAttempt) -> Nomination | None:
    """Try every node alone, with the filters asked after each pod that leaves or comes back, and compare candidates one by
    one."""
    nodes = failure.context.nodes
    ranks = PodRanks(nodes)
    ranks.refresh()
    dry_run = PreemptionDryRun(failure, ranks, KeptDryRun(ranks), budgets_of(failure.context.cluster))
    findings = dry_run.nothing()
    dry_run.search_singly(failure.curable_rows(), findings)
    best: tuple[Any, Nomination] | None = None
    for row in findings.rows.tolist():
        victims, name = findings.victims(row), nodes.names[row]
        harm = plain_harm(victims, findings.violations(row))
        if best is None or harm < best[0]:
            is_better = True
        else:
            is_unstarted = harm[-1] == -NOT_STARTED_NS
            is_better = harm == best[0] and (name > best[1].node_name if is_unstarted else name < best[1].node_name)
        if is_better:
            best = harm, nominate(name, victims, findings.violations(row))
    return None if best is None else best[1]


def plain_harm(victims: tuple[Pod, ...], violations: int) -> tuple[int, ...]:
    """Upstream's pickOneNodeForPreemption: fewest budgets broken, lowest highest priority, lowest sum of priorities, fewest
    victims, latest start of the most important victims."""
    highest = max(pod.priority for pod in victims)
    total = sum(pod.priority + (1 << 31) for pod in victims)
    started = min(start_ns(pod) for pod in victims if pod.priority == highest)
    return violations, highest, total, len(victims), -started


@contextmanager
def node_by_node() -> Iterator[None]:
    """Room is left for nominated pods on one node after another, and nothing is kept."""

    def all_rows(attempt: Any, nominated: Any) -> Any:
        return np.ones(attempt.context.nodes.height, np.bool_)

    with pytest.MonkeyPatch.context() as monkey:
        monkey.setattr(what_if, "is_batchable", lambda attempt: False)
        monkey.setattr(what_if, "rows_beyond_sums", all_rows)
        monkey.setattr(CrowdedBook, "find", lambda book, pod, nodes: None)
        yield


def said(decision: Decision) -> Any:
    """All of a decision but the attempt behind it."""
    return (decision.diagnosis, decision.message) if isinstance(decision, NoFit) else decision


# ---- the comparison


def a_plugin() -> DefaultPreemption:
    return DefaultPreemption(None, Handle())


def compare(world: World, pod: Pod, kept: DefaultPreemption) -> None:
    found = world.decide(pod)
    with node_by_node():
        plain = world.decide(pod)
        choice = plain_choice(plain.failure) if isinstance(plain, NoFit) and plain.failure is not None else None
    assert said(found) == said(plain)
    if not isinstance(found, NoFit) or found.failure is None:
        return
    for plugin, first_rows in ((kept, least_harm.FIRST_ROWS), (a_plugin(), 1), (a_plugin(), 2)):
        with mock.patch.multiple(least_harm, FIRST_ROWS=first_rows, MORE_ROWS=2):  # in several steps
            answer = plugin.post_filter(found.failure)
        assert answer == choice if choice is not None else isinstance(answer, NoRoom)
        if choice is None:
            with mock.patch.object(default_preemption, "sums_decide", lambda *_: None):  # so all nodes are searched
                assert answer == a_plugin().post_filter(found.failure)
    assert check_table(world.cluster.nodes) == []


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(worlds(), PREEMPTORS, st.lists(STEP, max_size=8))
def test_the_least_harmful_candidate_is_the_one_that_a_plain_loop_finds(
    world: World, preemptors: list[tuple[Form, int]], steps: list[tuple[str, Any]]
) -> None:
    pods = [a_random_pod(f"pre{i}", form, priority) for i, (form, priority) in enumerate(preemptors)]
    kept = a_plugin()
    for step in (("nothing", None), ("nothing", None), *steps):
        world.change(step)
        for pod in pods:
            compare(world, pod, kept)


@pytest.mark.slow
@given(crowded_worlds(), RULED, st.lists(st.tuples(st.just("promise"), CROWDED), max_size=2))
def test_the_same_where_most_pods_have_rules_about_others(
    world: World, form: Form, steps: list[tuple[str, Any]]
) -> None:
    kept = a_plugin()
    pod = a_random_pod("pre0", replace(form, cpus=form.cpus + 1), 11)
    for step in (("nothing", None), ("nothing", None), *steps):
        world.change(step)
        compare(world, pod, kept)


@pytest.mark.slow
@given(budgeted_worlds(), st.integers(1, 4), st.sampled_from((4, 11)))
def test_the_same_where_budgets_decide_who_leaves(world: World, cpus: int, priority: int) -> None:
    compare(world, a_random_pod("pre0", Form(cpus, 0, None, "", "web"), priority), a_plugin())


# ---- kernels against plain loops

ROW = st.tuples(
    st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3), st.integers(0, 2)), max_size=5),
    st.integers(-1, 8),
    st.integers(-1, 4),
    st.integers(-1, 5),
)
"""(pods with priority and requests of two resources; limits of both; how many pods may stay)"""


def a_room(rows: list[Any]) -> Room:
    slots = max((len(pods) for pods, *_ in rows), default=0)
    priority = np.full((slots, len(rows)), 99, np.int64)
    held = [np.zeros((slots, len(rows)), np.int64) for _ in range(2)]
    for place, (pods, *_) in enumerate(rows):
        for slot, (each, *requests) in enumerate(pods):
            priority[slot, place] = each
            for sums, request in zip(held, requests, strict=True):
                sums[slot, place] = request
    limits = np.array([[row[i] for row in rows] for i in (1, 2)], np.int64)
    count = np.array([len(pods) for pods, *_ in rows], np.int64)
    most = np.array([row[3] for row in rows], np.int64)
    return Room(np.array(held).cumsum(1), limits, most, priority, count)


def plainly_kept(pods: list[Any], limits: tuple[int, int], most: int) -> tuple[int, list[int]] | None:
    """(how many can stay before the first has to leave, the slots that leave); None: the pod does not fit alone."""
    if min(limits) < 0 or most < 0:
        return None
    staying: list[Any] = []
    leaving = []
    for slot, pod in enumerate(pods):
        trial = [*staying, pod]
        if len(trial) <= most and all(sum(each[i + 1] for each in trial) <= limits[i] for i in (0, 1)):
            staying.append(pod)
        else:
            leaving.append(slot)
    return (leaving[0] if leaving else len(pods)), leaving


@given(st.lists(ROW, min_size=1, max_size=6))
def test_who_stays_is_what_a_plain_loop_says(rows: list[Any]) -> None:
    for pods, *_ in rows:
        pods.sort(key=lambda pod: -pod[0])
    room = a_room(rows)
    staying = can_stay(room.held, room.limits, room.most_pods).tolist()
    for place, (pods, one, other, most) in enumerate(rows):
        plain = plainly_kept(pods, (one, other), most)
        if plain is None:
            assert staying[place] == NONE_FITS
            continue
        assert min(staying[place], len(pods)) == plain[0]
        held = [sums[: len(pods), place].tolist() for sums in room.held]
        assert victim_positions(held, (one, other), most, range(len(pods))) == plain[1]
    left = np.flatnonzero((np.array(staying) >= 0) & (np.array(staying) < room.count))
    if not len(left):
        return
    total, number = harm_after(room.part(left), np.array(staying, np.int64)[left])
    for harm, count, place in zip(total.tolist(), number.tolist(), left.tolist(), strict=True):
        pods, one, other, most = rows[place]
        plain = plainly_kept(pods, (one, other), most)
        assert plain is not None
        assert (harm, count) == (sum(pods[slot][0] + (1 << 31) for slot in plain[1]), len(plain[1]))


# ---- nodes that are tried alone

WEB = {"app": "web"}
ALONE: dict[str, tuple[dict[str, list[Pod]], str]] = {
    "with the same first victim it wins by fewer victims": (
        {
            "n1": [a_pod(f"a{i}", cpu="3", priority=5) for i in range(2)],
            "n2": [a_pod("b", cpu="6", priority=5, labels=WEB)],
        },
        "n2",
    ),
    "with a lower first victim it wins": (
        {"n1": [a_pod("a", cpu="6", priority=5)], "n2": [a_pod("b", cpu="6", priority=4, labels=WEB)]},
        "n2",
    ),
    "with a higher first victim it loses": (
        {"n1": [a_pod("a", cpu="6", priority=5)], "n2": [a_pod("b", cpu="6", priority=6, labels=WEB)]},
        "n1",
    ),
    "among equals that have not started the last name wins": (
        {
            "n1": [a_pod("a", cpu="6", priority=5)],
            "n2": [a_pod("b", cpu="6", priority=5, labels=WEB)],
            "n0": [a_pod("c", cpu="6", priority=5, labels=WEB)],
        },
        "n2",
    ),
}


@pytest.mark.parametrize(("pods", "chosen"), ALONE.values(), ids=ALONE.keys())
def test_a_node_that_is_tried_alone_is_compared_with_the_others(pods: dict[str, list[Pod]], chosen: str) -> None:
    world = World()
    world.cluster.put(a_budget("of-web", labelled("web"), 2))
    for name, there in pods.items():
        world.cluster.nodes.put_node(a_node(name, cpu="6"))
        for pod in there:
            world.cluster.nodes.place(pod, name)
    compare(world, a_pod("pre", cpu="6", priority=9), a_plugin())
    decision = world.decide(a_pod("pre", cpu="6", priority=9))
    assert isinstance(decision, NoFit) and decision.failure is not None
    assert a_plugin().post_filter(decision.failure) == nominate(chosen, tuple(pods[chosen]))


# ---- nominated pods

KEEPS_AWAY = Form(1, 0, "db", f"anti {HOST}", "web")
PLAIN = Form(1, 0, "db", "", "web")
PROMISES: dict[str, tuple[Form, Form]] = {
    "the pod keeps away from it": (KEEPS_AWAY, Form(0, 0, "web", "", "web")),
    "it keeps away from the pod": (KEEPS_AWAY, Form(0, 0, "log", f"anti {HOST}", "db")),
    "the pod spreads with it": (Form(1, 0, "web", f"spread {HOST}", "web"), Form(0, 0, "web", "", "web")),
    "neither has anything to do with the other": (KEEPS_AWAY, Form(0, 0, "log", "", "web")),
    "it only takes room": (PLAIN, Form(1, 0, "web", "", "web")),
}


@pytest.mark.parametrize(("form", "promised"), PROMISES.values(), ids=PROMISES.keys())
def test_a_pod_that_is_nominated_to_the_best_node_is_heeded(form: Form, promised: Form) -> None:
    world = a_full_world()
    for node in ("n2", "n0"):
        world.change(("promise", ("x", node, 20, promised)))
        compare(world, a_random_pod("pre0", form, 11), a_plugin())


def a_full_world() -> World:
    """Three nodes with two CPUs, each full of two pods."""
    world = World()
    for name in NODES[:3]:
        world.change(("node", (name, 2, 0, 5, False)))
        for _ in range(2):
            world.change(("place", (name, 0, PLAIN, None, False)))
    return world


@pytest.mark.parametrize("node", NODES[:3])
def test_a_pod_that_is_nominated_itself_finds_its_own_room(node: str) -> None:
    """What is kept for its shape counts it as nominated; for itself it does not."""
    world, kept = a_full_world(), a_plugin()
    world.change(("place", (NODES[0], 4, PLAIN, None, False)))
    pods = [a_random_pod(f"pre{i}", replace(PLAIN, cpus=2), 11) for i in range(2)]
    for _ in range(3):
        for pod in pods:
            compare(world, pod, kept)
    world.cluster.nominated.promise(pods[0], node)
    for _ in range(2):
        for pod in (*pods, *reversed(pods)):
            compare(world, pod, kept)


def test_a_node_that_can_never_take_the_pod_is_passed_over_in_what_is_kept() -> None:
    world, kept = a_full_world(), a_plugin()
    pod = a_random_pod("pre0", replace(PLAIN, cpus=2), 11)
    for _ in range(3):
        compare(world, pod, kept)
    decision = world.decide(pod)
    assert isinstance(decision, NoFit) and decision.failure is not None and decision.failure.verdicts is not None
    first = kept.post_filter(decision.failure)
    assert isinstance(first, Nomination)
    decision.failure.verdicts.objections[first.node_name] = final("an extender says so")
    second = kept.post_filter(decision.failure)
    assert isinstance(second, Nomination) and second.node_name != first.node_name
    assert second == plain_choice(decision.failure)


@pytest.mark.parametrize("promised", [PLAIN, replace(PLAIN, cpus=0)], ids=["takes a CPU", "takes only a place"])
@pytest.mark.parametrize("pods", [2, 5])
def test_a_node_that_gets_worse_is_not_chosen_for_what_it_was(promised: Form, pods: int) -> None:
    world, kept = a_full_world(), a_plugin()
    for name in NODES[:3]:
        world.change(("node", (name, 2, 0, pods, False)))
    pod = a_random_pod("pre0", PLAIN, 11)
    for _ in range(3):
        compare(world, pod, kept)
    for number, node in enumerate(("n2", "n1", "n0")):
        world.change(("promise", (f"x{number}", node, 20, promised)))
        for _ in range(2):
            compare(world, pod, kept)
    for node in ("n1", "n2"):
        world.change(("place", (node, 4, promised, None, False)))
        compare(world, pod, kept)


@pytest.mark.parametrize("few", (0, 4), ids=("all rows at once", "row by row"))
def test_verdicts_beside_nominated_pods_follow_each_change(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """What is kept for a shape is compared after the reasons for a rejection change, and after they are gone."""
    monkeypatch.setattr(leave_room, "FEW_ROWS", few)
    world, kept = a_full_world(), a_plugin()
    pods = [a_random_pod(f"pre{i}", PLAIN, 0) for i in range(2)]
    world.change(("promise", ("y", "n0", 20, PLAIN)))  # without any nominated pod nothing is kept
    steps: list[tuple[str, Any]] = [("nothing", None)] * 3
    steps += [("promise", ("x", "n1", 20, PLAIN)), ("displace", 2), ("withdraw", "x")]
    steps += [("place", ("n1", 0, PLAIN, None, False)), ("promise", ("pre0", "n1", 20, PLAIN)), ("displace", 2)]
    steps += [("node", ("n1", 2, 0, 2, False)), ("place", ("n1", 0, PLAIN, None, False)), ("withdraw", "pre0")]
    for step in steps:
        world.change(step)
        for pod in pods:
            compare(world, pod, kept)
