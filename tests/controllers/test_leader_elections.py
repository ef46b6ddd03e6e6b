"""The controller that picks leaders from LeaseCandidates."""

from typing import Any

import pytest

from living_cluster import LivingCluster
from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.kit.clock import in_micros

PLURAL, LEASE, SPACE = "leasecandidates", "kube-scheduler", "default"


def a_cluster(is_on: bool = True) -> LivingCluster:
    return LivingCluster(gates={"CoordinatedLeaderElection": is_on})


def now(cluster: LivingCluster) -> str:
    return in_micros(cluster.clock.now_ns())


def a_candidate(cluster: LivingCluster, **spec: Any) -> JsonObject:
    versions = {"binaryVersion": "1.36.4", "emulationVersion": "1.36.0"}
    own = {"leaseName": LEASE, "strategy": "OldestEmulationVersion", "renewTime": now(cluster), **versions, **spec}
    return {"spec": own}


def stand(cluster: LivingCluster, name: str, **spec: Any) -> None:
    cluster.create(PLURAL, name, a_candidate(cluster, **spec), SPACE)
    cluster.settle()


def change(cluster: LivingCluster, plural: str, name: str, **spec: Any) -> None:
    cluster.change(plural, name, lambda held: {**held, "spec": {**held["spec"], **spec}})
    cluster.settle()


def lease(cluster: LivingCluster) -> JsonObject:
    spec: JsonObject = (cluster.find("leases", LEASE, SPACE) or {}).get("spec", {})
    return spec


def pinged(cluster: LivingCluster) -> list[str]:
    """Candidates that have not answered their last ping."""
    held = [cluster.find(PLURAL, name, SPACE) for name in ("a", "b", "c")]
    return [
        each["metadata"]["name"]
        for each in held
        if each is not None and each["spec"].get("pingTime", "") > each["spec"]["renewTime"]
    ]


def wait(cluster: LivingCluster, seconds: int, alive: str, renews: str = "") -> None:
    """Let time pass, while candidates answer pings within a second, and one renews the lease."""
    for _ in range(seconds):
        cluster.wait(1)
        for name in pinged(cluster):
            if name in alive:
                change(cluster, PLURAL, name, renewTime=now(cluster))
        spec = lease(cluster)
        if renews and spec.get("holderIdentity") == renews and "preferredHolder" not in spec:
            change(cluster, "leases", LEASE, renewTime=now(cluster), leaseDurationSeconds=15)


def test_the_first_candidate_gets_a_lease_of_five_seconds() -> None:
    cluster = a_cluster()
    stand(cluster, "a")
    assert lease(cluster) == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 5,
        "renewTime": now(cluster),
        "strategy": "OldestEmulationVersion",
    }


def test_nothing_is_picked_without_the_gate() -> None:
    cluster = a_cluster(is_on=False)
    stand(cluster, "a")
    cluster.wait(60)
    assert cluster.find("leases", LEASE, SPACE) is None


def test_a_better_candidate_ends_the_term_of_the_holder() -> None:
    """The holder learns it from preferredHolder, and lets the lease expire."""
    cluster = a_cluster()
    stand(cluster, "a")
    wait(cluster, 4, "ab", renews="a")
    stand(cluster, "b", binaryVersion="1.35.2", emulationVersion="1.35.0")
    wait(cluster, 8, "ab", renews="a")
    assert (lease(cluster)["holderIdentity"], lease(cluster)["preferredHolder"]) == ("a", "b")
    wait(cluster, 25, "ab", renews="b")
    assert lease(cluster)["holderIdentity"] == "b" and "preferredHolder" not in lease(cluster)


@pytest.mark.parametrize(
    ("of_b", "chosen"),
    [
        pytest.param({"emulationVersion": "1.35.0"}, "b", id="the older emulation version"),
        pytest.param({"binaryVersion": "1.36.1"}, "b", id="the older binary"),
        pytest.param({"binaryVersion": "1.36.10"}, "a", id="numbers are no texts"),
        pytest.param({}, "a", id="the older candidate"),
    ],
)
def test_which_candidate_is_preferred(of_b: dict[str, str], chosen: str) -> None:
    cluster = a_cluster()
    stand(cluster, "a")
    wait(cluster, 2, "ab")
    stand(cluster, "b", **of_b)
    wait(cluster, 40, "ab", renews=chosen)
    assert lease(cluster)["holderIdentity"] == chosen


def test_a_candidate_that_does_not_answer_is_not_picked() -> None:
    cluster = a_cluster()
    stand(cluster, "a")
    wait(cluster, 2, "ab", renews="a")
    stand(cluster, "b")
    wait(cluster, 60, "b", renews="b")  # "a" has stopped
    assert lease(cluster)["holderIdentity"] == "b"


def test_a_holder_that_renews_keeps_its_lease() -> None:
    cluster = a_cluster()
    stand(cluster, "a")
    stand(cluster, "b")
    holders = set()
    for _ in range(20):
        wait(cluster, 5, "ab", renews="a")
        holders.add(lease(cluster)["holderIdentity"])
    assert holders == {"a"}


def test_a_lease_counts_from_when_it_was_written_not_by_the_clock_of_its_holder() -> None:
    cluster = a_cluster()
    stand(cluster, "a")
    stand(cluster, "b")
    for number in range(20):
        change(cluster, "leases", LEASE, renewTime=f"2001-01-01T00:00:{number:02}.000000Z", leaseDurationSeconds=15)
        wait(cluster, 5, "ab")
        assert lease(cluster)["holderIdentity"] == "a"


@pytest.mark.parametrize("count", [1, 3])
def test_a_strategy_of_others_gets_a_lease_without_a_holder(count: int) -> None:
    cluster = a_cluster()
    for name in "abc"[:count]:
        stand(cluster, name, strategy="foo.com/bar")
    wait(cluster, 30, "abc")
    assert lease(cluster)["strategy"] == "foo.com/bar" and "holderIdentity" not in lease(cluster)


def test_the_newest_binary_decides_the_strategy() -> None:
    cluster = a_cluster()
    stand(cluster, "a", strategy="foo.com/bar")
    stand(cluster, "b", binaryVersion="1.37.0")
    wait(cluster, 30, "abc")
    assert lease(cluster)["strategy"] == "OldestEmulationVersion" and lease(cluster)["holderIdentity"] == "a"


def test_candidates_of_one_version_that_do_not_agree_on_the_strategy_elect_nobody() -> None:
    cluster = a_cluster()
    stand(cluster, "a", strategy="foo.com/bar")
    stand(cluster, "b")
    wait(cluster, 30, "abc")
    assert lease(cluster)["strategy"] == "foo.com/bar" and "holderIdentity" not in lease(cluster)


def test_an_instance_without_coordination_keeps_its_lease_until_it_stops() -> None:
    """It takes leases itself, has no candidate, and does not heed preferredHolder."""
    cluster = a_cluster()
    mine = {"holderIdentity": "old", "leaseDurationSeconds": 15, "renewTime": now(cluster)}
    cluster.create("leases", LEASE, {"spec": mine}, SPACE)
    stand(cluster, "a")
    for _ in range(15):
        wait(cluster, 2, "a")
        change(cluster, "leases", LEASE, renewTime=now(cluster))
        assert lease(cluster)["holderIdentity"] == "old"
    wait(cluster, 25, "a", renews="a")
    assert lease(cluster)["holderIdentity"] == "a"


def test_a_candidate_that_was_old_when_it_came_goes_at_once() -> None:
    cluster = a_cluster()
    stand(cluster, "a", renewTime="2001-01-01T00:00:00.000000Z")
    assert cluster.find(PLURAL, "a", SPACE) is None


def test_candidates_that_do_not_renew_go_after_half_an_hour() -> None:
    cluster = a_cluster()
    stand(cluster, "a")
    cluster.wait(1700)
    assert cluster.find(PLURAL, "a", SPACE) is not None
    cluster.wait(110)
    assert cluster.find(PLURAL, "a", SPACE) is None


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({"leaseName": ""}, "spec.leaseName", "Required value", id="no lease"),
        pytest.param({"binaryVersion": ""}, "spec.binaryVersion", "Required value", id="no version"),
        pytest.param(
            {"binaryVersion": "1.36"},
            "spec.binaryVersion",
            'Invalid value: "1.36": must be a valid semantic version',
            id="a version of two numbers",
        ),
        pytest.param(
            {"binaryVersion": "1.35.9"},
            "spec.binaryVersion",
            'Invalid value: "1.35.9": must be greater than or equal to `emulationVersion`',
            id="a binary that is older than what it emulates",
        ),
        pytest.param(
            {"emulationVersion": ""},
            "spec.emulationVersion",
            "Required value: must be specified when `strategy` is 'OldestEmulationVersion'",
            id="nothing emulated",
        ),
        pytest.param(
            {"strategy": "Newest"},
            "spec.strategy.strategy",
            'Unsupported value: "Newest": supported values: "OldestEmulationVersion"',
            id="an unknown strategy",
        ),
    ],
)
def test_candidates_that_the_server_refuses(spec: dict[str, str], field: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        stand(a_cluster(), "a", **spec)
    assert (field, message) in [
        (cause["field"], cause["message"]) for cause in caught.value.status()["details"]["causes"]
    ]


@pytest.mark.parametrize(("name", "is_allowed"), [("Host_0c1d", True), ("a/b", False), ("..", False), ("a b", False)])
def test_names_of_candidates_are_identities(name: str, is_allowed: bool) -> None:
    cluster = a_cluster()
    try:
        stand(cluster, name)
    except ApiError:
        assert not is_allowed
    else:
        assert is_allowed


def test_the_lease_of_a_candidate_is_fixed() -> None:
    cluster = a_cluster()
    stand(cluster, "a")
    with pytest.raises(ApiError, match="field is immutable"):
        change(cluster, PLURAL, "a", leaseName="other")
