"""What pods ask for and hold: every worked example of the specification, and the rules one by one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_pod
from mooring.cluster.cluster import CountedPods
from mooring.model.pod import Pod
from mooring.model.pod_spec import Container, PodSpec, ResourceRequirements
from mooring.model.requests import (
    FILTER,
    FIT_SCORE,
    effective_requests,
    held_non_zero,
    held_requests,
    to_units,
    units_of,
)

Units = tuple[int, int]
"""(cpu milli, memory bytes)."""

MI = 1 << 20
GI = 1 << 30


def a_container(name: str = "c", restart: str | None = None, **requests: str) -> dict[str, Any]:
    written = {"name": name, "restartPolicy": restart} if restart else {"name": name}
    return {**written, "resources": {"requests": requests}}


def units(amounts: dict[str, int]) -> Units:
    counted = to_units(amounts)
    return counted.get("cpu", 0), counted.get("memory", 0)


def a_running_pod(spec_cpu: str, running_cpu: str, *conditions: dict[str, str]) -> Pod:
    running = {"name": "c", "resources": {"requests": {"cpu": running_cpu}}, "allocatedResources": {"cpu": running_cpu}}
    status = {"containerStatuses": [running], "conditions": list(conditions)}
    return a_pod(nodeName="n", containers=[a_container(cpu=spec_cpu)], status=status)


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
WHOLE_CPU = {"requests": {"cpu": "1"}}

EXAMPLES = [
    pytest.param(
        a_pod(containers=[a_container()]), (0, 0), (0, 0), (100, 200 * MI), (100, 200 * MI), id="nothing requested"
    ),
    pytest.param(
        a_pod(containers=[a_container(cpu="1"), a_container("d")]),
        (1000, 0),
        (1000, 0),
        (1100, 400 * MI),
        (1100, 400 * MI),
        id="two containers of which one asks for a core",
    ),
    pytest.param(
        a_pod(containers=[a_container(cpu="0")]), (0, 0), (0, 0), (0, 200 * MI), (0, 200 * MI), id="an explicit zero"
    ),
    pytest.param(
        a_pod(containers=[a_container(), a_container("d")], resources=WHOLE_CPU),
        (1000, 0),
        (1000, 0),
        (1000, 400 * MI),
        (200, 400 * MI),
        id="pod-level cpu and containers without requests",
    ),
    pytest.param(
        a_pod(containers=[a_container(memory="1Gi"), a_container("d")], resources=WHOLE_CPU),
        (1000, GI),
        (1000, GI),
        (1000, GI),
        (200, 1224 * MI),
        id="pod-level cpu and one container that names memory",
    ),
    pytest.param(
        a_pod(
            containers=[a_container()],
            initContainers=[a_container("i", cpu="500m")],
            overhead={"cpu": "50m", "memory": "10Mi"},
        ),
        (550, 10 * MI),
        (550, 10 * MI),
        (550, 210 * MI),
        (550, 210 * MI),
        id="a plain init container and overhead",
    ),
    pytest.param(
        a_pod(containers=[a_container(cpu="0.5m"), a_container("d", cpu="0.5m")]),
        (1, 0),
        (1, 0),
        (1, 400 * MI),
        (1, 400 * MI),
        id="two halves of a milli are rounded once",
    ),
]


@pytest.mark.parametrize(("pod", "asked", "held", "non_zero", "scored"), EXAMPLES)
def test_worked_examples(pod: Pod, asked: Units, held: Units, non_zero: Units, scored: Units) -> None:
    assert units(effective_requests(pod, FILTER)) == asked
    assert units(held_requests(pod)) == held
    assert units(held_non_zero(pod)) == non_zero
    assert units(effective_requests(pod, FIT_SCORE)) == scored


RESIZES = [
    pytest.param(a_running_pod("1", "2"), (2000, 0), (2000, 200 * MI), id="running with more than the spec asks"),
    pytest.param(a_running_pod("4", "2", INFEASIBLE), (2000, 0), (2000, 200 * MI), id="a resize that cannot be done"),
    pytest.param(a_running_pod("4", "2"), (4000, 0), (4000, 200 * MI), id="a resize under way"),
    pytest.param(a_running_pod("4", "2", DEFERRED), (4000, 0), (4000, 200 * MI), id="a resize put off"),
    pytest.param(
        a_running_pod("4", "2", DEFERRED, INFEASIBLE), (4000, 0), (4000, 200 * MI), id="the first one decides"
    ),
]


@pytest.mark.parametrize(("pod", "held", "non_zero"), RESIZES)
def test_pods_that_run_hold_what_their_status_says(pod: Pod, held: Units, non_zero: Units) -> None:
    assert units(held_requests(pod)) == held
    assert units(held_non_zero(pod)) == non_zero


def test_status_does_not_count_before_a_pod_is_placed() -> None:
    assert units(effective_requests(a_running_pod("1", "2"), FILTER)) == (1000, 0)


def test_init_containers_sidecars_and_overhead_together() -> None:
    pod = a_pod(
        initContainers=[
            a_container("a", cpu="2", memory="1Gi"),
            a_container("b", "Always", cpu="0.5", memory="0.5Gi"),
            a_container("c", cpu="2", memory="3Gi"),
        ],
        containers=[a_container("d", cpu="1", memory="1Gi"), a_container("e", cpu="1", memory="1Gi")],
        overhead={"cpu": "0.1"},
    )
    assert units(effective_requests(pod, FILTER)) == (2600, 3 * GI + GI // 2)


STATUS_OF_INIT = [
    pytest.param(None, 3000, id="v1.37, 7: of a plain init container is used"),
    pytest.param("Always", 3000, id="of a sidecar is used"),
]


@pytest.mark.parametrize(("restart", "cpu_milli"), STATUS_OF_INIT)
def test_status_of_init_containers(restart: str | None, cpu_milli: int) -> None:
    status = {"initContainerStatuses": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}]}
    pod = a_pod(containers=[a_container()], initContainers=[a_container("i", restart, cpu="1")], status=status)
    assert units(held_requests(pod)) == (cpu_milli, 0)


POD_LEVEL = [
    pytest.param({"limits": {"cpu": "8"}}, (1000, GI), id="limits alone have no effect"),
    pytest.param({"requests": {"ephemeral-storage": "8"}}, (1000, GI), id="an unsupported name is ignored"),
    pytest.param({"requests": {"cpu": "2", "memory": "2Gi"}}, (2000, 2 * GI), id="what it names replaces the sum"),
    pytest.param({"requests": {"memory": "2Gi"}}, (1000, 2 * GI), id="what it leaves out stays the sum"),
]


@pytest.mark.parametrize(("resources", "asked"), POD_LEVEL)
def test_pod_level_resources(resources: dict[str, Any], asked: Units) -> None:
    pod = a_pod(containers=[a_container(cpu="1", memory="1Gi")], resources=resources)
    assert units(effective_requests(pod, FILTER)) == asked


def test_pod_level_resize_takes_the_largest_of_spec_status_and_allocated() -> None:
    status = {"resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"}}
    pod = a_pod(containers=[a_container()], resources={"requests": {"cpu": "1", "memory": "1Gi"}}, status=status)
    assert units(held_requests(pod)) == (3000, GI)
    refused = a_pod(
        containers=[a_container()],
        resources={"requests": {"cpu": "9", "memory": "1Gi"}},
        status={**status, "conditions": [INFEASIBLE]},
    )
    assert units(held_requests(refused)) == (3000, 0)


def running(name: str, allocated: Any = None, in_force: Any = None) -> dict[str, Any]:
    """The status of a container; each of the two only if it is given."""
    written = {} if allocated is None else {"allocatedResources": allocated}
    return {"name": name, **written} | ({} if in_force is None else {"resources": in_force})


def resized(*containers: dict[str, Any], init: Any = (), statuses: Any = (), spec: Any = None, **status: Any) -> Pod:
    """A pod on a node; `statuses` are those of containers, and of init containers if there are any."""
    place = "initContainerStatuses" if init else "containerStatuses"
    written = {place: list(statuses), **status} if statuses else status
    return a_pod(nodeName="n", containers=list(containers), initContainers=list(init), status=written, **(spec or {}))


C1, C2 = a_container("c1", cpu="1"), a_container("c2", cpu="2")
IN_FORCE_5 = {"requests": {"cpu": "5"}}
RESIZED = {
    "upstream: in force without being asked for": (
        resized(a_container("c1"), statuses=[running("c1", in_force={"requests": {"cpu": "2"}})]),
        2000,
    ),
    "upstream: the same of a sidecar": (
        resized(init=[a_container("c1", "Always")], statuses=[running("c1", in_force={"requests": {"cpu": "2"}})]),
        2000,
    ),
    "upstream: the larger of two sums and not the sum of the larger": (
        resized(C1, C2, statuses=[running("c1", {"cpu": "2"}), running("c2", {"cpu": "1"})]),
        3000,
    ),
    "upstream: the status of the pod as a whole": (
        resized(C1, allocatedResources={"cpu": "4"}, resources={"requests": {"cpu": "3"}}),
        4000,
    ),
    "upstream: nothing is allocated to the pod as a whole": (
        resized(C1, statuses=[running("c1", {"cpu": "6"}, IN_FORCE_5)], resources={"requests": {"cpu": "3"}}),
        6000,
    ),
    "upstream: nothing is in force for the pod as a whole": (
        resized(C1, statuses=[running("c1", {"cpu": "6"}, IN_FORCE_5)], allocatedResources={"cpu": "6"}),
        6000,
    ),
    "upstream: requests of the pod, and its status": (
        resized(
            C1,
            spec={"resources": {"requests": {"cpu": "2"}}},
            allocatedResources={"cpu": "3"},
            resources={"requests": {"cpu": "3.5"}},
        ),
        3500,
    ),
    "upstream: requests of the pod that cannot be had": (
        resized(
            C1,
            spec={"resources": {"requests": {"cpu": "10"}}},
            conditions=[INFEASIBLE],
            allocatedResources={"cpu": "3"},
            resources={"requests": {"cpu": "4"}},
        ),
        4000,
    ),
    "allocated, and nothing known of what is in force": (resized(C1, statuses=[running("c1", {"cpu": "7"})]), 7000),
    "in force is unset: what is allocated": (resized(C2, statuses=[running("c2", {"cpu": "1"}, {})]), 2000),
    "allocated is empty, not unset": (resized(C1, statuses=[running("c1", {})], conditions=[INFEASIBLE]), 0),
    "infeasible, and a container without status": (
        resized(C1, C2, statuses=[running("c1", {"cpu": "1"})], conditions=[INFEASIBLE]),
        1000,
    ),
    "infeasible, and no status at all": (resized(C1, C2, conditions=[INFEASIBLE]), 0),
    "infeasible, and an init container without status": (
        resized(C1, init=[a_container("i", cpu="9")], conditions=[INFEASIBLE]),
        0,
    ),
    "an init container was given more": (
        resized(C1, init=[a_container("i", cpu="1")], statuses=[running("i", {"cpu": "4"})]),
        4000,
    ),
    "one status: the others count with their spec in all sums": (
        resized(C1, C2, statuses=[running("c1", {"cpu": "3"})]),
        5000,
    ),
    "of two statuses with a name the first counts": (
        resized(C1, statuses=[running("c1", {"cpu": "3"}), running("c1", {"cpu": "8"})]),
        3000,
    ),
    "the status names a resource that the spec of the pod does not": (
        resized(
            a_container("c1", memory="1Gi"),
            spec={"resources": {"requests": {"memory": "1Gi"}}},
            resources={"requests": {"cpu": "2", "example.com/x": "1"}},
        ),
        2000,
    ),
}


@pytest.mark.parametrize(("pod", "cpu_milli"), RESIZED.values(), ids=RESIZED.keys())
def test_v137_7_requests_during_a_resize(pod: Pod, cpu_milli: int) -> None:
    assert units(held_requests(pod))[0] == cpu_milli
    assert pod.shape.held.get("cpu", (0, 0))[0] == cpu_milli


def test_v137_7_defaults_count_in_each_sum() -> None:
    """Where a resize is infeasible and a container has no status, only the defaults of scoring count for it."""
    pod = resized(C1, C2, conditions=[INFEASIBLE])
    assert (units(held_requests(pod)), units(held_non_zero(pod))) == ((0, 0), (200, 400 * MI))
    pod = resized(a_container("c1"), statuses=[running("c1", {"cpu": "50m"})])
    assert units(held_non_zero(pod)) == (100, 200 * MI)


def test_v137_7_a_status_does_not_count_where_the_gate_is_off() -> None:
    """InPlacePodLevelResourcesVerticalScaling: containers are added up then."""
    pod = resized(C1, allocatedResources={"cpu": "4"}, resources={"requests": {"cpu": "3"}})
    off = CountedPods({"InPlacePodLevelResourcesVerticalScaling": False})
    assert off.counted(pod).shape.held["cpu"][0] == 1000
    assert CountedPods({}).counted(pod).shape.held["cpu"][0] == 4000


CPU = st.one_of(st.none(), st.builds(dict), st.builds(lambda cpu: {"cpu": cpu}, st.integers(0, 9)))
ONE = st.tuples(st.sampled_from(["plain", "init", "sidecar"]), CPU, CPU, CPU, st.booleans())


@given(st.lists(ONE, min_size=1, max_size=5), st.booleans(), CPU, CPU)
def test_v137_7_requests_are_those_of_a_plain_calculation(
    ones: list[tuple[str, Any, Any, Any, bool]], is_infeasible: bool, pod_allocated: Any, pod_in_force: Any
) -> None:
    containers: list[Any] = []
    init: list[Any] = []
    statuses: list[Any] = []
    for number, (kind, asked, allocated, in_force, has_status) in enumerate(ones):
        written = {
            **a_container(f"c{number}", "Always" if kind == "sidecar" else None),
            "resources": {"requests": asked},
        }
        (containers if kind == "plain" else init).append(written)
        if has_status:
            statuses.append((kind, running(f"c{number}", allocated, {"requests": in_force})))
    status: dict[str, Any] = {
        "containerStatuses": [each for kind, each in statuses if kind == "plain"],
        "initContainerStatuses": [each for kind, each in statuses if kind != "plain"],
        "conditions": [INFEASIBLE] if is_infeasible else [],
        "allocatedResources": pod_allocated,
        "resources": {"requests": pod_in_force},
    }
    pod = a_pod(nodeName="n", containers=containers, initContainers=init, status=status)
    expected = _plainly(ones, is_infeasible, pod_allocated, pod_in_force)
    assert units(held_requests(pod))[0] == 1000 * expected
    assert pod.shape.held.get("cpu", (0, 0))[0] == 1000 * expected


def _plainly(ones: list[tuple[str, Any, Any, Any, bool]], is_infeasible: bool, whole: Any, whole_in_force: Any) -> int:
    """Cpu by the words of the specification: three sums, then the largest."""

    def first(*lists: Any) -> int:
        return next((each.get("cpu", 0) for each in lists if each is not None), 0)

    asked, allocated, in_force = [], [], []
    for kind, spec, given_to, runs_with, has_status in ones:
        fallback = None if is_infeasible else spec
        told, told_in_force = (given_to, runs_with) if has_status else (None, None)
        asked.append((kind, first(spec)))
        allocated.append((kind, first(told, fallback)))
        in_force.append((kind, first(told_in_force, told, fallback)))
    sums = [_sum_and_peak(each) for each in (asked, allocated, in_force)]
    if whole is not None and whole_in_force is not None:
        sums[1:] = [first(whole), first(whole_in_force)]
    return max(sums[1:] if is_infeasible else sums)


def _sum_and_peak(amounts: list[tuple[str, int]]) -> int:
    total = sum(amount for kind, amount in amounts if kind != "init")
    sidecars = peak = 0
    for kind, amount in amounts:
        if kind == "sidecar":
            sidecars += amount
            peak = max(peak, sidecars)
        elif kind == "init":
            peak = max(peak, amount + sidecars)
    return max(total, peak)


TAKEN = [
    {"resourceClaimName": "c", "mapping": [{"name": "cpu", "quantity": "1"}, {"name": "cpu"}]},
    {"resourceClaimName": "d", "overhead": [{"name": "cpu", "perPod": "1"}]},
    {
        "resourceClaimName": "e",
        "containers": ["x", "y"],
        "mapping": [{"name": "cpu", "quantity": "300m"}],
        "overhead": [{"name": "cpu", "perPod": "100m", "perContainer": "300m"}],
    },
    {"resourceClaimName": "f", "overhead": [{"name": "cpu", "perContainer": "7"}]},
]
"""Three CPUs: what devices are, what it costs a pod, and what it costs each container (none of the last claim)."""
TAKING: list[Any] = [
    pytest.param({}, (3500, GI), (3500, GI), id="one container"),
    pytest.param({"overhead": {"cpu": "1"}}, (4500, GI), (4500, GI), id="with overhead"),
    pytest.param({"resources": {"requests": {"cpu": "4"}}}, (4000, GI), (4000, GI), id="with requests of the pod"),
]


@pytest.mark.parametrize(("spec", "asked", "held"), TAKING)
def test_what_devices_take_from_the_node_counts_but_for_the_score(spec: Any, asked: Units, held: Units) -> None:
    containers = [a_container(cpu="500m", memory="1Gi")]
    plain = a_pod(containers=containers, **spec)
    pod = a_pod(containers=containers, **spec, status={"nodeAllocatableResourceClaimStatuses": TAKEN})
    assert units(effective_requests(pod, FILTER)) == asked
    assert units(held_requests(pod)) == units(held_non_zero(pod)) == held
    assert effective_requests(pod, FIT_SCORE) == effective_requests(plain, FIT_SCORE)
    assert (pod.shape.request["cpu"], pod.shape.held["cpu"]) == (asked[0], (held[0], held[0]))
    assert pod.shape.score_request == plain.shape.score_request


def test_what_devices_take_is_no_part_of_what_an_older_form_of_the_pod_held() -> None:
    old = a_pod(containers=[a_container(cpu="1")])
    assert old.shape.held["cpu"] == (1000, 1000)
    new = a_pod(containers=[a_container(cpu="1")], status={"nodeAllocatableResourceClaimStatuses": TAKEN})
    new.inherit(old)
    assert new.shape.held["cpu"] == (4000, 4000)


def test_only_counted_resources_become_units() -> None:
    requests = {"cpu": "1", "example.com/gpu": "2", "hugepages-2Mi": "4Mi", "storage": "1Gi", "foo": "7"}
    pod = a_pod(requests=requests, overhead={"ephemeral-storage": "1Gi"})
    assert to_units(effective_requests(pod, FILTER)) == {
        "cpu": 1000,
        "example.com/gpu": 2,
        "hugepages-2Mi": 4 * MI,
        "ephemeral-storage": GI,
    }


@given(
    st.dictionaries(
        st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "storage", "pods"]),
        st.one_of(
            st.from_regex(r"[0-9]{1,20}(\.[0-9]{1,4})?(m|k|Ki|Mi|Gi|E|Ei|e3)?", fullmatch=True),
            st.sampled_from(["", "-1", "-5m", "a lot", "1e999", "0" * 70 + "5", "9" * 80]),
            st.integers(-5, 1 << 70),
            st.floats(0, 1e20),
            st.booleans(),
        ),
    )
)
def test_units_of_one_container_are_those_of_a_sum_over_one(written: dict[str, Any]) -> None:
    pod = Pod(spec=PodSpec(containers=[Container(resources=ResourceRequirements(requests=written))]))
    assert units_of(written) == to_units(effective_requests(pod, FILTER))
    assert pod.shape.request == units_of(written)
