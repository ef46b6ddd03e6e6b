"""Volumes in simulations: claims get their volumes at once, and pods go where these are."""

from typing import Any

import msgspec
import pytest

from build import a_node, a_pod
from build_storage import DRIVER, HOST, ZONE, a_claim, a_class, a_volume, on, using
from mooring.api.api_errors import ApiError
from mooring.drivers.simulated_driver import Driver, after
from mooring.framework import config
from mooring.framework.contract.intents import Write
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim
from mooring.sim.simulated_cluster import SimulatedCluster

NODES = [a_node(name, labels={HOST: name, ZONE: zone}) for name, zone in (("n1", "a"), ("n2", "b"))]


def a_user(name: str, *claims: str) -> Pod:
    return a_pod(name, cpu="100m", schedulerName="default-scheduler", volumes=using(*claims))


def played(*objects: KubeObject, seconds: int = 3) -> Driver:
    """The cluster after a few seconds with these objects, pods last."""
    stage = SimulatedCluster([*NODES, *objects], config.default())
    for pod in stage.pending:
        stage.driver.create(pod)
    stage.driver.settle()
    for _ in range(seconds):
        stage.driver.advance_second()
        stage.driver.settle()
    assert stage.scheduler.check() == []
    assert stage.cluster.storage.check() == []
    return stage.driver


def place(driver: Driver, name: str = "p") -> str:
    pod = driver.objects["Pod", f"default/{name}"]
    assert isinstance(pod, Pod)
    return pod.spec.node_name


def claim_of(driver: Driver, name: str = "c") -> PersistentVolumeClaim:
    claim = driver.objects["PersistentVolumeClaim", f"default/{name}"]
    assert isinstance(claim, PersistentVolumeClaim)
    return claim


def test_a_claim_that_waits_gets_a_new_volume_on_the_pods_node() -> None:
    driver = played(a_claim("c"), a_class(topologies=[[(ZONE, ["b"])]]), a_user("p", "c"))
    assert place(driver) == "n2"
    volume = driver.objects["PersistentVolume", claim_of(driver).spec.volume_name]
    assert isinstance(volume, PersistentVolume)
    assert volume.spec.csi is not None and volume.spec.csi.driver == DRIVER
    assert volume.reach is not None and not volume.reach.matches("", {ZONE: "a"})
    assert volume.spec.capacity == {"storage": "1Gi"}


def test_a_claim_that_waits_gets_the_volume_that_is_there() -> None:
    manifest = a_volume("pv", terms=on(HOST, "n2"), phase="")
    driver = played(a_claim("c", metadata={"uid": ""}), a_class(provisioner=""), manifest, a_user("p", "c"))
    assert (place(driver), claim_of(driver).spec.volume_name) == ("n2", "pv")
    volume = driver.objects["PersistentVolume", "pv"]
    assert isinstance(volume, PersistentVolume) and volume.status.phase == "Bound"


def test_a_claim_that_does_not_wait_is_bound_before_the_pod_comes() -> None:
    driver = played(a_claim("c"), a_class(mode="Immediate"), a_user("p", "c"))
    assert place(driver) and claim_of(driver).spec.volume_name == "pvc-uid-c"
    there = played(a_claim("c"), a_class(mode="Immediate"), a_volume("pv", terms=on(HOST, "n2")), a_user("p", "c"))
    assert (place(there), claim_of(there).spec.volume_name) == ("n2", "pv")


def test_a_claim_that_names_its_volume_gets_that_one() -> None:
    claim = a_claim("c", volume="pv", is_bound=False, class_name="")
    driver = played(claim, a_volume("pv", class_name="", terms=on(HOST, "n2")), a_user("p", "c"))
    assert (place(driver), claim_of(driver).spec.volume_name) == ("n2", "pv")


def test_a_claim_does_not_get_a_volume_that_does_not_suit_it_although_it_names_it() -> None:
    claim = a_claim("c", volume="pv", is_bound=False, class_name="")
    driver = played(claim, a_volume("pv", class_name="", size="1Mi"), a_user("p", "c"))
    assert (place(driver), claim_of(driver).status.phase) == ("", "")


def test_a_claim_that_nobody_can_serve_keeps_its_pod_waiting() -> None:
    driver = played(a_claim("c", class_name="unknown"), a_user("p", "c"))
    assert place(driver) == ""
    assert driver.events[-1].note.startswith("0/2 nodes are available: pod has unbound immediate")
    driver.create(a_class("unknown", mode="Immediate"))
    for _ in range(15):
        driver.advance_second()
        driver.settle()
    assert place(driver) != ""


def test_a_volume_that_comes_late_is_taken() -> None:
    driver = played(a_claim("c", class_name=""), a_user("p", "c"))
    driver.create(a_volume("pv", class_name="", phase=""))
    for _ in range(15):
        driver.advance_second()
        driver.settle()
    assert (claim_of(driver).spec.volume_name, bool(place(driver))) == ("pv", True)


def test_many_pods_and_local_volumes_come_together_one_to_one() -> None:
    volumes = [a_volume(f"pv{i:02}", terms=on(HOST, f"n{i % 2 + 1}")) for i in range(20)]
    names = [f"p{i:02}" for i in range(20)]
    driver = played(*volumes, a_class(provisioner=""), *map(a_claim, names), *(a_user(name, name) for name in names))
    given = {name: claim_of(driver, name).spec.volume_name for name in names}
    assert len(set(given.values())) == 20
    for name, volume in given.items():
        assert place(driver, name) == f"n{int(volume[2:]) % 2 + 1}"


def test_without_controllers_the_wait_ends_in_an_error() -> None:
    objects = [*NODES, a_claim("c"), a_class()]
    stage = SimulatedCluster(objects, config.default())
    stage.driver.on_changed = None
    stage.driver.create(a_user("p", "c"))
    stage.driver.settle()
    assert stage.driver.next_ns() == stage.clock.now_ns() + 600 * 10**9
    for _ in range(601):
        stage.driver.advance_second()
    notes = [record.note for record in stage.driver.events if record.reason == "FailedScheduling"]
    assert notes[0] == 'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded'


# ---- writes


def a_write(method: Any, body: Any = None) -> Write:
    return Write(method, PersistentVolumeClaim, "c", "default", body)


def test_what_a_write_makes_of_an_object() -> None:
    patched = after(a_write("PATCH", {"metadata": {"annotations": {"a": "b"}}}), a_claim("c", size="2Gi"))
    assert isinstance(patched, PersistentVolumeClaim)
    assert (patched.metadata.annotations, patched.request_nano) == ({"a": "b"}, a_claim(size="2Gi").request_nano)
    assert after(a_write("POST", a_claim("c")), None) == a_claim("c")
    assert after(a_write("PUT", msgspec.to_builtins(a_claim("c", size="2Gi"))), a_claim("c")) == a_claim(
        "c", size="2Gi"
    )


REFUSALS: dict[str, tuple[Write, Any, int]] = {
    "it is gone": (a_write("PATCH", {}), None, 404),
    "it is there already": (a_write("POST", a_claim("c")), a_claim("c"), 409),
    "it changed": (a_write("PATCH", {"metadata": {"resourceVersion": "7"}}), a_claim("c"), 409),
}


@pytest.mark.parametrize(("write", "old", "code"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_a_write_is_refused_for(write: Write, old: Any, code: int) -> None:
    with pytest.raises(ApiError) as refused:
        after(write, old)
    assert refused.value.code == code
