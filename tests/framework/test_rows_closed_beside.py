"""Rows that nominated pods close (FilterPlugin.codes_beside): the answer for all rows is that of each row alone with its
nominated pods put on it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from build import a_node, a_pod
from build_storage import a_claim, a_csi_node, a_volume, on, using
from gangs import GangWorld
from how_many import examples
from mooring.cluster.pods.nominated import NominatedLoad
from mooring.framework.attempts import leave_room
from mooring.framework.attempts.attempt import Attempt, PodRejected
from mooring.framework.attempts.leave_room import verdicts_with
from mooring.framework.attempts.refiltering import codes_beside, crowd_beside, rows_beyond_sums
from mooring.framework.kept.asking import AttemptError
from mooring.plugins.affinity.inter_pod_affinity import InterPodAffinity
from mooring.plugins.affinity.spread_counts import TOO_SKEWED

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def a_rule(kind: str, app: str, key: str, most: int, domains: int | None) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    if kind == "spread":
        spread = {"maxSkew": most, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        return {"topologySpreadConstraints": [spread if domains is None else {**spread, "minDomains": domains}]}
    if kind == "apart":
        term = {"labelSelector": selector, "topologyKey": key}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    return {}


APP = st.sampled_from(["a", "b"])
RULE = st.builds(
    a_rule,
    *(st.sampled_from(["spread", "apart", "nothing"]), APP, st.sampled_from([ZONE, HOST, "rack"])),
    *(st.integers(1, 2), st.none() | st.integers(1, 4)),
)
POD = st.tuples(st.integers(0, 5), APP, RULE, st.sampled_from(["0", "1"]), st.booleans())
"""Row, label, rule, cpu; on the node, or nominated to it."""
NODE = st.tuples(st.sampled_from(["x", "y", ""]), st.sampled_from(["1", "3"]), st.booleans())
"""Zone, cpu, and whether the node has a rack."""


@given(
    st.lists(NODE, min_size=1, max_size=6), st.lists(POD, max_size=12), APP, RULE, RULE, st.none() | st.integers(0, 5)
)
@settings(max_examples=examples(400), deadline=None)
def test_rows_are_closed_as_if_each_were_asked_about_alone(
    nodes: list[Any], pods: list[Any], app: str, first: dict[str, Any], second: dict[str, Any], own: int | None
) -> None:
    world = GangWorld()
    for number, (zone, cpu, has_rack) in enumerate(nodes):
        labels = {HOST: f"n{number}", **({ZONE: zone} if zone else {}), **({"rack": "r"} if has_rack else {})}
        world.driver.create(a_node(f"n{number}", cpu=cpu, labels=labels))
    cluster = world.core.cluster
    for number, (row, label, rule, cpu, is_nominated) in enumerate(pods):
        about = {"cpu": cpu, "priority": 5, "labels": {"app": label}, "metadata": {"uid": f"uid-{number}"}, **rule}
        name = f"n{row % len(nodes)}"
        if is_nominated:
            cluster.nominated.promise(a_pod(f"p{number}", **about), name)
        else:
            world.driver.create(a_pod(f"p{number}", nodeName=name, **about))
    pod = a_pod("new", cpu="1", priority=5, labels={"app": app}, metadata={"uid": "new"}, **{**first, **second})
    if own is not None:
        cluster.nominated.promise(pod, f"n{own % len(nodes)}")
    attempt = world.core.runners["default-scheduler"].open(pod, cluster, 1)
    attempt.pre_filter()
    crowd = crowd_beside(attempt)
    if not len(crowd.rows):
        return
    assert codes_beside(attempt, cluster.nominated) is not None
    found = []
    for few, beside in ((0, codes_beside), (99, codes_beside)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leave_room, "FEW_ROWS", few)
            patch.setattr(leave_room, "codes_beside", beside)
            verdicts = verdicts_with(attempt, crowd, cluster.nominated)
        codes = [int(verdicts.codes[int(at)][row]) if at != 127 else 0 for row, at in enumerate(verdicts.first)]
        found.append((verdicts.first.tolist(), codes))
    assert found[0] == found[1]


LIMIT = st.sampled_from(["no driver", None, 1, 2])
"""The limit of the driver on a node; None: it has none."""
CLAIM = st.sampled_from(["c0", "c1", "c2", "gone"])
USER = st.tuples(st.integers(0, 3), CLAIM, st.booleans())
"""Row and claim of a pod; on the node, or nominated to it."""


@given(st.lists(LIMIT, min_size=1, max_size=4), st.lists(USER, max_size=8), st.lists(CLAIM, min_size=1, max_size=2))
@settings(max_examples=examples(300), deadline=None)
def test_rows_that_volumes_may_close_are_those_that_one_by_one_shows(
    limits: list[Any], users: list[Any], wanted: list[str]
) -> None:
    """A plain loop puts the nominated pods on each row. Claims that are gone are faults on nodes with a limit."""
    world = GangWorld()
    for number, limit in enumerate(limits):
        world.driver.create(a_node(f"n{number}", labels={ZONE: f"z{number % 2}"}))
        if limit != "no driver":
            world.driver.create(a_csi_node(f"n{number}", csi_example_com=limit))
    for number in range(3):
        owner = {"name": f"c{number}", "namespace": "default", "uid": f"uid-c{number}"}
        world.driver.create(a_volume(f"v{number}", claim=owner, terms=on(ZONE, "z0") if number == 2 else None))
        world.driver.create(a_claim(f"c{number}", volume=f"v{number}"))
    cluster = world.core.cluster
    for number, (row, claim, is_nominated) in enumerate(users):
        about: dict[str, Any] = {"priority": 5, "metadata": {"uid": f"uid-{number}"}, "volumes": using(claim)}
        name = f"n{row % len(limits)}"
        if is_nominated:
            cluster.nominated.promise(a_pod(f"p{number}", **about), name)
        else:
            world.driver.create(a_pod(f"p{number}", nodeName=name, **about))
    pod = a_pod("new", priority=5, metadata={"uid": "new"}, volumes=using(*dict.fromkeys(wanted)))
    attempt = world.core.runners["default-scheduler"].open(pod, cluster, 1)
    crowd = crowd_beside(attempt)
    if isinstance(attempt.pre_filter(), PodRejected) or not len(crowd.rows):
        return
    found: list[Any] = []
    for few, beyond in ((0, rows_beyond_sums), (99, rows_beyond_sums), (99, _every_row)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leave_room, "FEW_ROWS", few)
            patch.setattr(leave_room, "rows_beyond_sums", beyond)
            try:
                verdicts = verdicts_with(attempt, crowd, cluster.nominated)
            except AttemptError as fault:
                found.append(str(fault))
                continue
        codes = [int(verdicts.codes[int(at)][row]) if at != 127 else 0 for row, at in enumerate(verdicts.first)]
        found.append((verdicts.first.tolist(), codes))
    assert found[0] == found[1] == found[2]


def _every_row(attempt: Attempt, nominated: NominatedLoad) -> NDArray[np.bool_]:
    return np.ones(attempt.context.nodes.height, np.bool_)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("promised", [1, 2, 3])
@pytest.mark.parametrize("there", [0, 1, 2])
@pytest.mark.parametrize("elsewhere", [0, 1, 3])
def test_a_row_closes_when_one_more_pod_would_be_beyond_the_skew(
    most: int, promised: int, there: int, elsewhere: int
) -> None:
    """Two zones with a node each: the promised pods go to the first. One pod at a time decides at the threshold."""
    world = GangWorld()
    for name, zone in (("n0", "x"), ("n1", "y")):
        world.driver.create(a_node(name, labels={HOST: name, ZONE: zone}))
    cluster = world.core.cluster
    for node, count in (("n0", there), ("n1", elsewhere)):
        for number in range(count):
            world.driver.create(a_pod(f"{node}-{number}", nodeName=node, labels={"app": "a"}))
    for number in range(promised):
        about: dict[str, Any] = {"priority": 5, "labels": {"app": "a"}, "metadata": {"uid": f"uid-{number}"}}
        cluster.nominated.promise(a_pod(f"p{number}", **about), "n0")
    pod = a_pod(
        "new", priority=5, labels={"app": "a"}, metadata={"uid": "new"}, **a_rule("spread", "a", ZONE, most, None)
    )
    attempt = world.core.runners["default-scheduler"].open(pod, cluster, 1)
    attempt.pre_filter()
    found = codes_beside(attempt, cluster.nominated)
    assert found is not None
    counted = there + promised
    is_closed = counted + 1 - min(counted, elsewhere) > most
    assert [codes.tolist() for codes in found.values() if codes.any()] == ([[TOO_SKEWED, 0]] if is_closed else [])


@pytest.mark.parametrize("answer", [np.zeros(1, np.int8), np.zeros(9, np.int64), ValueError("oh no")])
def test_an_answer_of_another_form_ends_the_attempt(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def said(*_: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(InterPodAffinity, "codes_beside", said)
    world = GangWorld()
    world.node("n0", "4")
    nominated = world.core.cluster.nominated
    nominated.promise(a_pod("p", priority=9, metadata={"uid": "p"}), "n0")
    pod = a_pod("new", metadata={"uid": "new"}, **a_rule("apart", "a", HOST, 1, None))
    attempt = world.core.runners["default-scheduler"].open(pod, world.core.cluster, 1)
    attempt.pre_filter()
    text = "oh no" if isinstance(answer, Exception) else "codes must be an array of 1 int64"
    with pytest.raises(AttemptError, match=text):
        codes_beside(attempt, nominated)
