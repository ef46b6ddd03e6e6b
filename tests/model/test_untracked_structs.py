"""The garbage collector does not know of the structs of the model, so none of them may be part of a reference cycle."""

import gc
from collections.abc import Iterator

import msgspec
import pytest

from build import a_pod
from mooring.api.kinds import BY_STRUCT
from mooring.kit.lazy import lazy
from mooring.model.meta import KubeObject, Wire
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume


def _structs(base: type[Wire] = Wire) -> Iterator[type[Wire]]:
    for struct in base.__subclasses__():
        yield struct
        yield from _structs(struct)


def test_only_structs_with_computed_values_could_be_known_to_the_collector() -> None:
    assert {Pod, PersistentVolume, Node} <= BY_STRUCT.keys(), (
        "all kinds are imported, so that all structs are looked at"
    )
    assert {struct for struct in _structs() if struct.__struct_config__.gc} == {Pod, PersistentVolume}


def test_what_is_decoded_is_not_known_to_the_collector() -> None:
    node = msgspec.json.decode(b'{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}}', type=Node)
    pod = a_pod(cpu="1")
    parts = [node, node.metadata, node.status, pod, pod.metadata, pod.spec, pod.spec.containers[0], pod.status]
    assert not any(gc.is_tracked(part) for part in parts)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERM = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
_NODES = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}]}
_POD = a_pod(
    cpu="1",
    labels={"a": "b"},
    affinity={"nodeAffinity": {_REQUIRED: _NODES}, "podAntiAffinity": {_REQUIRED: [_TERM]}},
    tolerations=[{"key": "k", "operator": "Exists"}],
)
_VOLUME = msgspec.convert(
    {"spec": {"capacity": {"storage": "1Gi"}, "nodeAffinity": {"required": _NODES}}}, PersistentVolume
)


def _computed(item: object) -> list[object]:
    """All values that an object computes on first use."""
    return [getattr(item, name) for name, value in vars(type(item)).items() if isinstance(value, lazy)]


def _reaches(found: list[object], item: object) -> bool:
    """Whether the object can be reached from these. Classes are left out: from there the whole program is reached."""
    seen = {id(value) for value in found}
    while found:
        value = found.pop()
        if value is item:
            return True
        more = [other for other in gc.get_referents(value) if id(other) not in seen and not isinstance(other, type)]
        seen.update(map(id, more))
        found += [other for other in more if not callable(other)]
    return False


@pytest.mark.parametrize("item", [_POD, _VOLUME], ids=["a pod", "a volume"])
def test_no_computed_value_refers_to_the_object_that_keeps_it(item: KubeObject) -> None:
    computed = _computed(item)
    if isinstance(item, Pod):
        item.shape.work_out()
        assert item.shape.terms(item.namespace) and _computed(item.shape)
    assert len(computed) == len(vars(item)) > 1
    assert not _reaches(computed, item)


def test_a_value_that_does_is_found() -> None:
    assert _reaches([{"kept": [_POD]}], _POD)


def test_every_struct_with_computed_values_is_among_them() -> None:
    assert {struct for struct in _structs() if struct.__struct_config__.dict} == {type(_POD), type(_VOLUME)}
