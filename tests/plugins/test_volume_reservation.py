"""VolumeBinding from the chosen node on: what is assumed, written and waited for, and that no volume is given twice."""

from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from build import a_cluster, a_node, a_pod
from build_storage import HOST, a_claim, a_class, a_csi_node, a_volume, on, using
from how_many import examples
from mooring.cluster.cluster import Cluster
from mooring.framework.config.args import VolumeBindingArgs
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Write, WriteFault
from mooring.framework.contract.points import Handle, Pause, PodGone, SchedulerServices
from mooring.framework.contract.status import PluginError
from mooring.kit.clock import NS_PER_S
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim
from mooring.plugins.volumes.volume_binding import VolumeBinding
from volume_asking import a_context, verdicts

POD = a_pod("p", volumes=using("c"))


class Bench:
    """One pod on its way to n1, its writes carried out by hand."""

    def __init__(self, *objects: Any, pod: Pod = POD, timeout_s: int = 600) -> None:
        self.now_ns = 0
        self.cluster = a_cluster(a_node("n1", labels={HOST: "n1"}), a_node("n2", labels={HOST: "n2"}), *objects)
        services = SchedulerServices(now_ns=lambda: self.now_ns)
        self.plugin = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=timeout_s), Handle(services=services))
        self.context = a_context(self.cluster, pod)
        assert verdicts(self.plugin, self.cluster, pod, self.context)["n1"] is None
        assert self.plugin.reserve(self.context, "n1") is None

    @property
    def storage(self) -> Any:
        return self.cluster.storage

    def begin(self) -> Any:
        """The work, and its first step."""
        self.work = cast("Any", self.plugin.pre_bind(self.context, "n1"))
        return next(self.work)

    def write_all(self) -> Any:
        """Carry out all writes as a server would. Returns the step after them."""
        step = self.begin()
        while isinstance(step, Write):
            step = self.work.send(self.carry_out(step))
        return step

    def carry_out(self, write: Write) -> Any:
        key = f"{write.namespace}/{write.name}" if write.namespace else write.name
        old = self.cluster.objects[write.kind][key]
        body: Any = msgspec.to_builtins(old)
        assert isinstance(write.body, dict)
        for part, fields in write.body.items():
            for name, value in fields.items():
                body[part][name] = {**body[part].get(name, {}), **value} if isinstance(value, dict) else value
        body["metadata"]["resourceVersion"] = str(int(old.metadata.resource_version or 0) + 1)
        new = msgspec.convert(body, write.kind)
        self.cluster.put(new)
        return new

    def why(self) -> str:
        with pytest.raises(PluginError) as fault:
            self.work.send(None)
        return str(fault.value)

    def is_done(self) -> bool:
        try:
            self.work.send(None)
        except StopIteration as end:
            assert end.value is None
            return True
        return False


def static(**more: Any) -> Bench:
    return Bench(a_claim("c"), a_class(), a_volume("pv"), **more)


def dynamic(**more: Any) -> Bench:
    return Bench(a_claim("c"), a_class(), **more)


# ---- Reserve


def test_a_volume_that_is_there_is_assumed_to_be_the_claims() -> None:
    bench = static()
    volume = bench.storage.volume("pv")
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c"}
    assert msgspec.to_builtins(volume.spec.claim_ref) == {**reference, "uid": "uid-c", "resourceVersion": "1"}
    assert volume.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert bench.storage.volumes["pv"].spec.claim_ref is None
    bench.plugin.unreserve(bench.context, "n1")
    assert bench.storage.volume("pv").spec.claim_ref is None


def test_a_volume_that_the_user_kept_is_not_marked_as_ours() -> None:
    bench = Bench(a_claim("c"), a_class(), a_volume("pv", claim={"namespace": "default", "name": "c"}))
    volume = bench.storage.volume("pv")
    assert volume.spec.claim_ref.uid == "uid-c"
    assert not volume.metadata.annotations


def test_a_volume_that_is_bound_to_the_claim_already_stays_as_it_is() -> None:
    kept = a_volume("pv", claim={"namespace": "default", "name": "c", "uid": "uid-c"})
    bench = Bench(a_claim("c"), a_class(), kept)
    assert bench.storage.volume("pv") is kept


def test_a_claim_without_volume_is_assumed_to_have_its_node() -> None:
    bench = dynamic()
    assert bench.storage.claim("default/c").metadata.annotations == {"volume.kubernetes.io/selected-node": "n1"}
    other = verdicts(bench.plugin, bench.cluster, a_pod("q", volumes=using("c")))
    assert [name for name, rejection in other.items() if rejection is None] == ["n1"]
    bench.plugin.unreserve(bench.context, "n1")
    assert not bench.storage.claim("default/c").metadata.annotations


def test_what_the_watch_shows_anew_is_no_longer_assumed() -> None:
    bench = static()
    bench.cluster.put(a_volume("pv", version="2"))
    assert bench.storage.volume("pv").spec.claim_ref is None
    bench.cluster.remove(PersistentVolume, "pv")
    assert bench.storage.volume("pv") is None
    assert bench.storage.check() == []


def test_volumes_that_changed_since_the_node_was_looked_at_are_looked_at_again() -> None:
    volumes = [a_volume("pv"), a_volume("pw"), a_volume("px", size="5Gi")]
    cluster = a_cluster(a_node("n1"), a_claim("c"), a_claim("d"), a_class(provisioner=""), *volumes)
    plugin, pod = VolumeBinding(None, Handle()), a_pod(volumes=using("c", "d"))
    context = a_context(cluster, pod)
    verdicts(plugin, cluster, pod, context)
    cluster.put(a_volume("pw", version="2", phase="Released"))
    assert plugin.reserve(context, "n1") is None
    assert [volume.name for volume, _ in context.state.read(plugin.name).reservation.volumes] == ["pv", "px"]
    plugin.unreserve(context, "n1")
    cluster.put(a_volume("px", version="2", phase="Released"))
    rejection = plugin.reserve(context, "n1")
    assert rejection is not None
    assert rejection.message == "node(s) didn't find available persistent volumes to bind"


def test_what_cannot_be_assumed_is_an_error_and_all_is_given_back() -> None:
    cluster = a_cluster(a_node("n1"), a_claim("c"), a_claim("d"), a_class(), a_volume("pv"))
    plugin, pod = VolumeBinding(None, Handle()), a_pod(volumes=using("c", "d"))
    context = a_context(cluster, pod)
    verdicts(plugin, cluster, pod, context)
    cluster.put(a_claim("d", version="2"))
    with pytest.raises(
        PluginError, match=r'^PersistentVolumeClaim "default/d" is out of sync \(stored: 2, assume: 1\)$'
    ):
        plugin.reserve(context, "n1")
    assert cluster.storage.volume("pv") is cluster.storage.volumes["pv"]


# ---- PreBind


def test_without_anything_reserved_there_is_nothing_to_do() -> None:
    bench = Bench(a_claim("c", volume="pv"), a_volume("pv"))
    assert bench.plugin.pre_bind(bench.context, "n1") is None


def test_volumes_are_written_before_claims() -> None:
    objects = [a_claim("c"), a_class(), a_volume("pv"), a_claim("d", class_name="other"), a_class("other")]
    bench = Bench(*objects, pod=a_pod("p", volumes=using("d", "c")))
    first = bench.begin()
    assert (first.method, first.kind, first.name) == ("PATCH", PersistentVolume, "pv")
    assert first.body == {
        "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}, "resourceVersion": "1"},
        "spec": {"claimRef": msgspec.to_builtins(bench.storage.volume("pv").spec.claim_ref)},
    }
    second = bench.work.send(bench.carry_out(first))
    assert (second.method, second.kind, second.namespace, second.name) == (
        *("PATCH", PersistentVolumeClaim, "default", "d"),
    )
    assert second.body == {
        "metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}, "resourceVersion": "1"}
    }
    pause = bench.work.send(bench.carry_out(second))
    assert pause.on == {(PersistentVolumeClaim, "default/c"), (PersistentVolumeClaim, "default/d")}


def test_a_write_that_is_refused_is_the_end() -> None:
    bench = static()
    bench.begin()
    with pytest.raises(PluginError, match="^the object has been modified$"):
        bench.work.send(WriteFault("the object has been modified", 409))


def bound(volume: str, **more: Any) -> PersistentVolumeClaim:
    marks = {"volume.kubernetes.io/selected-node": "n1", **more.pop("annotations", {})}
    return a_claim("c", volume=volume, annotations=marks, version="9", **more)


def test_it_waits_until_the_claim_has_its_volume() -> None:
    for bench in (static(), dynamic()):
        assert isinstance(bench.write_all(), Pause)
        bench.now_ns = 599 * NS_PER_S
        assert not bench.is_done()
        bench.cluster.put(bound("new"))
        if "pv" not in bench.storage.volumes:
            assert not bench.is_done(), "the volume is not seen yet"
            bench.cluster.put(a_volume("new"))
        assert bench.is_done()


def test_it_waits_until_the_watch_shows_what_was_written() -> None:
    """Before that, a volume without the claim is no sign that somebody took it away."""
    bench = static()
    step = bench.begin()
    written = a_volume("pv", version="5", claim={"namespace": "default", "name": "c", "uid": "uid-c"})
    assert isinstance(step, Write) and isinstance(bench.work.send(written), Pause)
    assert not bench.is_done()
    bench.cluster.put(written)
    bench.cluster.put(bound("pv"))
    assert bench.is_done()


def test_its_patience_ends() -> None:
    bench = dynamic(timeout_s=10)
    assert bench.write_all().until_ns == 10 * NS_PER_S
    bench.now_ns = 10 * NS_PER_S
    assert bench.why() == "binding volumes: context deadline exceeded"


HOPELESS: dict[str, tuple[Callable[[], Bench], Any, str]] = {
    "the volume is gone": (
        static,
        lambda c: c.remove(PersistentVolume, "pv"),
        'failed to check binding: could not find v1.PersistentVolume "pv"',
    ),
    "the claim is gone": (
        static,
        lambda c: c.remove(PersistentVolumeClaim, "default/c"),
        'failed to check binding: could not find v1.PersistentVolumeClaim "default/c"',
    ),
    "the claim of a volume that is being made is gone": (
        dynamic,
        lambda c: c.remove(PersistentVolumeClaim, "default/c"),
        'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "default/c"',
    ),
    "somebody took the claim off the volume": (
        static,
        lambda c: c.put(a_volume("pv", version="9")),
        'ClaimRef got reset for pv "pv"',
    ),
    "the volume cannot be used there any more": (
        static,
        lambda c: c.put(a_volume("pv", version="9", terms=on(HOST, "n2"))),
        'pv "pv" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
    ),
    "the node is gone": (
        dynamic,
        lambda c: c.nodes.remove_node("n1"),
        'failed to get node "n1": node "n1" not found',
    ),
    "the claim lost all annotations": (
        dynamic,
        lambda c: c.put(a_claim("c", version="9")),
        'selectedNode annotation reset for PVC "c"',
    ),
    "the driver gave up": (
        dynamic,
        lambda c: c.put(a_claim("c", version="9", annotations={"other": "x"})),
        'provisioning failed for PVC "c"',
    ),
    "the new volume cannot be used there": (
        dynamic,
        lambda c: (c.put(a_volume("new", terms=on(HOST, "n2"))), c.put(bound("new"))),
        'pv "new" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
    ),
}


@pytest.mark.parametrize(("start", "happens", "text"), HOPELESS.values(), ids=HOPELESS.keys())
def test_it_gives_up(start: Callable[[], Bench], happens: Any, text: str) -> None:
    bench = start()
    bench.write_all()
    happens(bench.cluster)
    assert bench.why() == f"binding volumes: {text}"


def test_a_pod_that_is_gone_ends_it() -> None:
    bench = dynamic()
    bench.write_all()
    with pytest.raises(PluginError, match='^binding volumes: pod does not exist any more: pod "p" not found$'):
        bench.work.throw(PodGone('pod "p" not found'))


def test_an_in_tree_volume_is_looked_at_as_its_driver_sees_it() -> None:
    disk = a_volume("new", handle="", gcePersistentDisk={"pdName": "d"}, labels={"topology.kubernetes.io/zone": "z"})
    bench = dynamic()
    bench.write_all()
    bench.cluster.put(disk)
    bench.cluster.put(
        a_csi_node("n1", annotations={"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"})
    )
    bench.cluster.put(bound("new"))
    assert bench.why().startswith('binding volumes: pv "new" node affinity')


# ---- no volume is given twice


class GivingVolumes(RuleBasedStateMachine):
    """Pods reserve volumes and give them back, while the watch shows, changes and removes volumes."""

    def __init__(self) -> None:
        super().__init__()
        nodes = [a_node(name, labels={HOST: name}) for name in ("n1", "n2")]
        claims = [a_claim(f"c{i}", size=f"{1 + i % 2}Gi") for i in range(8)]
        self.cluster: Cluster = a_cluster(*nodes, *claims, a_class(provisioner=""))
        self.plugin = VolumeBinding(None, Handle())
        self.held: dict[str, tuple[SchedulingContext, str]] = {}
        self.version = 1

    @rule(index=st.integers(0, 5), size=st.sampled_from(["1Gi", "2Gi"]), node=st.sampled_from([None, "n1", "n2"]))
    def show_volume(self, index: int, size: str, node: str | None) -> None:
        """A new volume, or a new version of one: then nobody has it any more, and who believed so will hear of it."""
        self.version += 1
        terms = on(HOST, node) if node else None
        self.cluster.put(a_volume(f"pv{index}", size=size, terms=terms, version=str(self.version)))
        self._drop_holders(f"pv{index}")

    @rule(index=st.integers(0, 5))
    def remove_volume(self, index: int) -> None:
        self.cluster.remove(PersistentVolume, f"pv{index}")
        self._drop_holders(f"pv{index}")

    @rule(claims=st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True), pick=st.integers(0, 1))
    def reserve(self, claims: list[int], pick: int) -> None:
        name = "-".join(map(str, claims))
        if any(str(claim) in held.split("-") for claim in claims for held in self.held):
            return
        pod = a_pod(name, volumes=using(*(f"c{i}" for i in claims)))
        context = a_context(self.cluster, pod)
        fitting = [node for node, no in verdicts(self.plugin, self.cluster, pod, context).items() if no is None]
        if fitting:
            node = fitting[pick % len(fitting)]
            assert self.plugin.reserve(context, node) is None
            self.held[name] = (context, node)

    @precondition(lambda self: bool(self.held))
    @rule(pick=st.integers(0, 9))
    def give_back(self, pick: int) -> None:
        name = sorted(self.held)[pick % len(self.held)]
        context, node = self.held.pop(name)
        self.plugin.unreserve(context, node)

    @invariant()
    def no_volume_is_given_twice(self) -> None:
        given = [volume.name for context, _ in self.held.values() for volume, _ in self._reserved(context)]
        assert len(given) == len(set(given))

    @invariant()
    def who_has_a_volume_is_known(self) -> None:
        for context, node_name in self.held.values():
            for volume, claim in self._reserved(context):
                found = self.cluster.storage.volume(volume.name)
                assert found is not None and found.spec.claim_ref is not None
                assert found.spec.claim_ref.name == claim.name
                assert found.reach is None or found.reach.matches("", {HOST: node_name})

    @invariant()
    def files_are_in_order(self) -> None:
        assert self.cluster.storage.check() == []

    def _drop_holders(self, volume_name: str) -> None:
        for name, (context, node) in list(self.held.items()):
            if any(volume.name == volume_name for volume, _ in self._reserved(context)):
                del self.held[name]
                self.plugin.unreserve(context, node)

    def _reserved(self, context: SchedulingContext) -> list[tuple[PersistentVolume, PersistentVolumeClaim]]:
        volumes: list[tuple[PersistentVolume, PersistentVolumeClaim]] = context.state.read(
            self.plugin.name
        ).reservation.volumes
        return volumes


TestGivingVolumes = GivingVolumes.TestCase
TestGivingVolumes.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
