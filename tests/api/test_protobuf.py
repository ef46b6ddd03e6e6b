"""Objects as protobuf: they are read into what JSON of the same object would give, and junk is refused."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster_api import an_api
from mooring.api.fields import fields_of, places_of, table
from mooring.api.json_objects import PROTOBUF
from mooring.api.kinds import RESOURCES
from mooring.api.schema.protobuf import MAGIC, MalformedError, UnknownKindError, decode
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server.dispatch import answer
from mooring.apiserver.server.http import HttpServer
from mooring.apiserver.server.request import Answer, Request, read_protobuf
from programs import KUBECTL, needs

Wire = tuple[tuple[int, Any], ...]
"""A message: numbers, each with an integer, a text, bytes or another message."""


def written(*fields: tuple[int, Any]) -> bytes:
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: Any) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value & (1 << 64) - 1)
    data = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else written(*value)
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes((low | 0x80,)) + _varint(rest) if rest else bytes((low,))


def a_body(api_version: str, kind: str, *fields: tuple[int, Any]) -> bytes:
    return MAGIC + written((1, ((1, api_version), (2, kind))), (2, fields), (3, ""), (4, ""))


def metadata(name: str, *more: tuple[int, Any]) -> tuple[int, Any]:
    """As Go writes it: with empty strings, a zero and an empty time."""
    return 1, ((1, name), (2, ""), (3, ""), (4, ""), (5, ""), (6, ""), (7, 0), (8, ()), *more)


def a_container(*more: tuple[int, Any]) -> tuple[int, Any]:
    filled = ((1, "app"), (2, "nginx"), (5, ""), (8, ()), (13, ""), (14, ""), (16, 0), (17, 0), (18, 0), (20, ""))
    return 2, (*filled, *more)


def a_pod_body(*spec: tuple[int, Any]) -> bytes:
    zeros = ((3, ""), (6, ""), (8, ""), (9, ""), (10, ""), (11, 0), (12, 0), (13, 0), (16, ""), (17, ""), (19, ""))
    status = ((1, ""), (3, ""), (4, ""), (5, ""), (6, ""), (9, ""), (11, ""), (13, ""), (14, ""))
    return a_body("v1", "Pod", metadata("web", (11, ((1, "app"), (2, "web")))), (2, (*spec, *zeros)), (3, status))


# What is read


@pytest.mark.parametrize(
    ("api_version", "kind", "fields", "expected"),
    [
        pytest.param(
            *("v1", "Namespace", (metadata("a"), (2, ()), (3, ((1, ""),)))),
            {"metadata": {"name": "a"}, "spec": {}, "status": {}},
            id="empty strings, zeros and times without a moment are nothing; empty objects stay, as in JSON",
        ),
        pytest.param(
            *("apps/v1", "Deployment", ((2, ((1, 0), (5, 0), (7, 0), (9, 600))),)),
            {"spec": {"replicas": 0, "progressDeadlineSeconds": 600}},
            id="zero stays where it is a value",
        ),
        pytest.param(
            *("v1", "Pod", ((2, ((8, ""), (11, 0), (21, 0), (5, 0), (25, -7))),)),
            {"spec": {"automountServiceAccountToken": False, "activeDeadlineSeconds": 0, "priority": -7}},
            id="false stays where it is a value, and numbers have signs",
        ),
        pytest.param(
            *("scheduling.k8s.io/v1", "PriorityClass", ((2, 0), (3, 0), (4, ""))),
            {"value": 0},
            id="zero stays where a value is required",
        ),
        pytest.param(
            *("v1", "Secret", ((2, ((1, "p"), (2, b"\xff\x00"))), (2, ((1, "e"),)), (3, "Opaque"))),
            {"data": {"p": "/wA=", "e": ""}, "type": "Opaque"},
            id="bytes are base64, and an entry without a value is an empty one",
        ),
        pytest.param(
            *("v1", "ConfigMap", ((2, ((1, "a"), (2, "ü"))), (3, ((1, "b"), (2, b"\x01"))), (4, 0))),
            {"data": {"a": "ü"}, "binaryData": {"b": "AQ=="}, "immutable": False},
            id="text and bytes in maps",
        ),
        pytest.param(
            *("v1", "Pod", ((2, ((1, ((1, "scratch"), (2, ((2, ((1, ""),)),)))),)),)),
            {"spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]}},
            id="the source of a volume stands beside its name",
        ),
        pytest.param(
            *(
                "v1",
                "Pod",
                ((2, ((2, ((10, ((1, ((3, ((1, ((1, 1), (2, 0), (3, "web"))),)),)), (2, 0), (4, 5))),)),)),),
            ),
            {"spec": {"containers": [{"livenessProbe": {"tcpSocket": {"port": "web"}, "periodSeconds": 5}}]}},
            id="what a probe does stands beside when, and a port may have a name",
        ),
        pytest.param(
            *("v1", "Pod", ((2, ((2, ((7, ((1, "K"), (3, ((4, ((1, ((1, "s"),)), (2, "k"))),)))),)),)),)),
            {
                "spec": {
                    "containers": [{"env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]
                }
            },
            id="the name of a secret stands beside the key in it",
        ),
        pytest.param(
            *("v1", "Pod", ((2, ((34, ((1, ((1, "debug"), (2, "sh"), (5, ""))), (2, "app"))),)),)),
            {"spec": {"ephemeralContainers": [{"name": "debug", "image": "sh", "targetContainerName": "app"}]}},
            id="an ephemeral container is a container with a target",
        ),
        pytest.param(
            *("v1", "PersistentVolume", ((2, ((1, ((1, "storage"), (2, ((1, "1Gi"),)))), (2, ((3, ((1, "/d"),)),)))),)),
            {"spec": {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/d"}}},
            id="quantities, and the source of a persistent volume",
        ),
        pytest.param(
            *("policy/v1", "PodDisruptionBudget", ((2, ((1, ((1, 0), (2, 1), (3, ""))), (3, ((1, 1), (3, "50%"))))),)),
            {"spec": {"minAvailable": 1, "maxUnavailable": "50%"}},
            id="a number or a text",
        ),
        pytest.param(
            *("coordination.k8s.io/v1", "Lease", ((2, ((1, "me"), (3, ((1, 1_800_000_000), (2, 5_999))), (4, ()))),)),
            {"spec": {"holderIdentity": "me", "acquireTime": "2027-01-15T08:00:00.000005Z"}},
            id="a moment in microseconds",
        ),
        pytest.param(
            *("v1", "Event", ((6, ((1, 1_800_000_000), (2, 5_999))), (7, ()), (8, 3))),
            {"firstTimestamp": "2027-01-15T08:00:00Z", "count": 3},
            id="a moment in seconds",
        ),
        pytest.param(
            *("v1", "Pod", ((1, ((17, ((1, "k"), (7, ((1, '{"f:spec":{}}'),)), (8, ""))),)),)),
            {"metadata": {"managedFields": [{"manager": "k", "fieldsV1": {"f:spec": {}}}]}},
            id="JSON within protobuf",
        ),
        pytest.param(
            *("apps/v1", "ControllerRevision", ((2, ()), (3, 1))),
            {"revision": 1},
            id="no JSON within protobuf",
        ),
        pytest.param(
            *("authorization.k8s.io/v1", "SubjectAccessReview", ((2, ((5, ((1, "k"), (2, ((1, "a"), (1, "b"))))),)),)),
            {"spec": {"extra": {"k": ["a", "b"]}}},
            id="lists in a map",
        ),
        pytest.param(
            *("v1", "Binding", (metadata("p"), (2, ((1, "Node"), (2, ""), (3, "n1"), (4, ""), (7, ""))))),
            {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}},
            id="a binding",
        ),
        pytest.param(
            *("policy/v1", "Eviction", (metadata("p"), (2, ((1, 0), (2, ((1, "u"),)), (4, "Background"))))),
            {
                "metadata": {"name": "p"},
                "deleteOptions": {
                    "gracePeriodSeconds": 0,
                    "preconditions": {"uid": "u"},
                    "propagationPolicy": "Background",
                },
            },
            id="an eviction",
        ),
        pytest.param(
            *("apps/v1", "DeleteOptions", ((3, 0), (5, "All"))),
            {"orphanDependents": False, "dryRun": ["All"]},
            id="options to delete, which all groups have",
        ),
        pytest.param(
            *("v1", "Service", ((999, "new"), (1000, 5), (2, ((1, ((2, "TCP"), (3, 80), (4, ((1, 0), (2, 80))))),)))),
            {"spec": {"ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}]}},
            id="fields that are not known are skipped",
        ),
        pytest.param(
            *("rbac.authorization.k8s.io/v1", "Role", (metadata("r"), (2, ((1, "get"), (2, ""), (3, "pods"))))),
            {"metadata": {"name": "r"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
            id="a role",
        ),
        pytest.param(
            *("networking.k8s.io/v1", "Ingress"),
            (
                metadata("i"),
                (
                    2,
                    (
                        (
                            3,
                            (
                                (1, "h"),
                                (2, ((1, ((1, ((1, "/"), (2, ((4, ((1, "s"), (2, ((2, 80),)))),)), (3, "Exact"))),)),)),
                            ),
                        ),
                    ),
                ),
            ),
            {
                "metadata": {"name": "i"},
                "spec": {
                    "rules": [
                        {
                            "host": "h",
                            "http": {
                                "paths": [
                                    {
                                        "path": "/",
                                        "pathType": "Exact",
                                        "backend": {"service": {"name": "s", "port": {"number": 80}}},
                                    }
                                ]
                            },
                        }
                    ]
                },
            },
            id="an ingress, whose rules are in a message that JSON does not show",
        ),
        pytest.param(
            *("autoscaling/v2", "HorizontalPodAutoscaler"),
            (metadata("a"), (2, ((1, ((1, "Deployment"), (2, "web"), (3, "apps/v1"))), (2, 1), (3, 5)))),
            {
                "metadata": {"name": "a"},
                "spec": {
                    "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
                    "minReplicas": 1,
                    "maxReplicas": 5,
                },
            },
            id="a kind of a second version",
        ),
        pytest.param(
            *("scheduling.k8s.io/v1beta1", "PodGroup", (metadata("g"), (2, ((3, ((2, ((1, 3),)),)),)))),
            {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}},
            id="a kind of a beta version",
        ),
    ],
)
def test_an_object_is_what_it_would_be_in_json(api_version: str, kind: str, fields: Wire, expected: Any) -> None:
    assert decode(a_body(api_version, kind, *fields)) == {"kind": kind, "apiVersion": api_version, **expected}


def test_v137_1_1_a_type_may_hold_itself() -> None:
    leaf = ((1, "leaf"), (2, ((1, ()),)))
    inner = ((1, "inner"), (8, leaf))
    spec = ((3, ((1, "outer"), (9, inner))),)
    tree = {"name": "inner", "podGroupTemplates": [{"name": "leaf", "schedulingPolicy": {"basic": {}}}]}
    expected = {"compositePodGroupTemplates": [{"name": "outer", "compositePodGroupTemplates": [tree]}]}
    assert decode(a_body("scheduling.k8s.io/v1beta1", "Workload", (2, spec)))["spec"] == expected


def test_v137_1_1_a_type_that_holds_itself_too_often_is_malformed() -> None:
    template: Any = ((1, "t"),)
    data = written(*template)
    for _ in range(2_000):
        data = written((9, data))
    with pytest.raises(MalformedError):
        decode(a_body("scheduling.k8s.io/v1beta1", "Workload", (2, written((3, data)))))


def test_fields_of_fixed_size_are_skipped() -> None:
    fixed = b"\xf9\x3e" + bytes(8) + b"\xfd\x3e" + bytes(4)
    body = MAGIC + written((1, ((1, "v1"), (2, "Secret"))), (2, fixed + written((3, "Opaque"))))
    assert decode(body) == {"kind": "Secret", "apiVersion": "v1", "type": "Opaque"}


def test_a_pod_with_probes_and_volumes_is_read() -> None:
    resources = ((1, ((1, "cpu"), (2, ((1, "2"),)))), (2, ((1, "cpu"), (2, ((1, "1"),)))))
    probe = (
        (
            1,
            (
                (
                    2,
                    ((1, "/"), (2, ((1, 0), (2, 80), (3, ""))), (3, ""), (4, "")),
                ),
            ),
        ),
        (2, 1),
        (3, 1),
        (4, 5),
    )
    mount = ((1, "data"), (2, 0), (3, "/data"), (4, ""), (6, ""))
    volume = (1, ((1, "data"), (2, ((2, ((1, ""),)),))))
    full = a_container((7, ((1, "A"), (2, "b"))), (8, resources), (9, mount), (10, probe), (11, probe))
    body = a_pod_body(volume, full)
    assert decode(body)["spec"]["containers"][0]["readinessProbe"]["httpGet"] == {"path": "/", "port": 80}


# What is refused


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'{"kind":"Pod"}', id="JSON"),
        pytest.param(MAGIC + b"junk", id="junk"),
        pytest.param(MAGIC + written((1, 5)), id="a number where a message should be"),
        pytest.param(a_body("v1", "Pod", (0, 1)), id="field 0"),
        pytest.param(a_body("v1", "Pod", (2, ((8, 1),))), id="a number where a text should be"),
        pytest.param(a_body("v1", "Pod", (2, ((25, "1"),))), id="a text where a number should be"),
        pytest.param(MAGIC + written((1, ((1, "v1"), (2, "Pod"))), (2, b"\x11" + bytes(8))), id="a fixed-size message"),
        pytest.param(MAGIC + written((1, ((1, "v1"), (2, "Pod"))), (2, b"\xfb\x3e\xfc\x3e")), id="a group"),
        pytest.param(MAGIC + written((1, ((1, "v1"), (2, "Pod"))), (2, b"\x80" * 11)), id="a number without end"),
        pytest.param(a_body("v1", "Pod", (1, ((1, b"\xff"),))), id="a text that is no UTF-8"),
        pytest.param(a_body("v1", "Event", (6, ((1, 1 << 62),))), id="a moment after all years"),
        pytest.param(a_body("v1", "Event", (6, ((1, -(1 << 63)),))), id="a moment before all years"),
        pytest.param(a_body("apps/v1", "ControllerRevision", (2, ((1, "{"),))), id="JSON that is none"),
        pytest.param(a_body("apps/v1", "ControllerRevision", (2, ((1, "[" * 100_000),))), id="JSON that is too deep"),
    ],
)
def test_what_is_no_object_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedError):
        decode(body)


def test_an_object_that_ends_too_early_is_malformed_wherever_it_ends() -> None:
    whole = MAGIC + written((1, ((1, "v1"), (2, "Pod"))))
    content = a_pod_body(a_container())[len(whole) :]
    for length in range(len(content) - 4):
        cut = content[:length]
        if length not in (0, _end_of_raw(content)):
            with pytest.raises(MalformedError):
                decode(whole + cut)


def _end_of_raw(content: bytes) -> int:
    """The envelope's empty texts are two bytes each, and come last."""
    return len(content) - len(written((3, ""), (4, "")))


@given(place=st.integers(4, 200), junk=st.binary(max_size=5), lost=st.integers(0, 5))
def test_a_damaged_object_is_read_or_refused_but_nothing_else(place: int, junk: bytes, lost: int) -> None:
    whole = a_pod_body(a_container())
    with contextlib.suppress(MalformedError, UnknownKindError):
        assert decode(whole[:place] + junk + whole[place + lost :]).keys() <= fields_of("core.Pod").keys()


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Boat"),
        ("apps/v1beta1", "Deployment"),
        ("v1", "PodSpec"),
        ("v1", "ObjectReference"),
        ("", "Pod"),
        ("v1", ""),
    ],
)
def test_kinds_that_are_not_served_are_refused(api_version: str, kind: str) -> None:
    with pytest.raises(UnknownKindError, match=f'no kind "{kind}" is registered for version "{api_version}"'):
        decode(a_body(api_version, kind))


# The table


def test_every_field_but_those_of_the_envelope_has_a_place_of_its_own() -> None:
    for name in table().types:
        places, fields = places_of(name), fields_of(name)
        assert fields.keys() - places.keys() <= {"apiVersion", "kind"}
        numbers = [place.numbers for place in places.values()]
        assert len(set(numbers)) == len(numbers)
        assert not {way[:-1] for way in numbers} & set(numbers), f"{name}: a field inside of another"


# Through the server


def post(api: ResourceApi, path: str, body: bytes) -> Answer:
    reply = answer(api, Request("POST", path, {"fieldValidation": "Strict"}, body, PROTOBUF))
    assert isinstance(reply, Answer)
    return reply


def test_a_pod_is_bound_evicted_and_deleted_by_protobuf() -> None:
    api, path = an_api(), "/api/v1/namespaces/default/pods/web"
    api.create(RESOURCES["", "v1", "nodes"], "", {"metadata": {"name": "n1"}})
    api.create(RESOURCES["", "v1", "pods"], "default", decode(a_pod_body(a_container())))
    target = (2, ((1, "Node"), (2, ""), (3, "n1"), (4, "")))
    assert post(api, f"{path}/binding", a_body("v1", "Binding", metadata("web"), target)).code == 201
    assert post(api, f"{path}/eviction", a_body("policy/v1", "Eviction", metadata("web"), (2, ((1, 30),)))).code == 201
    pod = api.get(RESOURCES["", "v1", "pods"], "default", "web")
    assert (pod["spec"]["nodeName"], pod["metadata"]["deletionGracePeriodSeconds"]) == ("n1", 30)
    answer(api, Request("DELETE", path, body=a_body("v1", "DeleteOptions", (1, 0)), content_type=PROTOBUF))
    assert api.find(RESOURCES["", "v1", "pods"], "default", "web") is None


def test_a_pod_is_created_from_protobuf() -> None:
    reply = post(an_api(), "/api/v1/namespaces/default/pods", a_pod_body(a_container()))
    assert reply.code == 201, reply.body
    assert reply.body["metadata"]["labels"] == {"app": "web"}
    assert "nodeName" not in reply.body["spec"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            MAGIC + b"junk",
            "the object provided is unrecognized (must be of type Pod): unexpected EOF (6b3873006a756e6b)",
        ),
        (
            a_body("boats/v1", "Boat"),
            'Boat in version "v1" cannot be handled as a Pod: no kind "Boat" is registered for version "boats/v1"',
        ),
    ],
)
def test_refusals(body: bytes, message: str) -> None:
    reply = post(an_api(), "/api/v1/namespaces/default/pods", body)
    assert (reply.code, reply.body["message"]) == (400, message)


CREATED = (
    "deployment idle --image=nginx --replicas=0 --port=80",
    "configmap settings --from-literal=a=b --from-literal=empty=",
    "secret generic keys --from-literal=p=q",
    "cronjob often --image=busybox --schedule=*/5_*_*_*_*",
    "service clusterip front --clusterip=None --tcp=80:web",
    "pdb half --selector=app=idle --max-unavailable=50%",
    "serviceaccount robot",
    "quota small --hard=cpu=1,pods=100",
    "priorityclass least --value=0",
    "role reader --verb=get,list --resource=pods,deployments.apps --resource-name=a",
    "rolebinding readers --role=reader --user=u --group=g --serviceaccount=default:robot",
    "clusterrole all --verb=get --non-resource-url=/metrics",
    "clusterrole whole --aggregation-rule=a=b",
    "clusterrolebinding admins --clusterrole=cluster-admin --group=g",
    "ingress door --class=c --rule=host.example/path*=web:80,tls=key --default-backend=rest:http",
)
ASIDE = ("uid", "resourceVersion", "creationTimestamp", "managedFields")


@pytest.fixture
def was_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of what kinds the bodies should have been that came as protobuf."""
    kinds: list[str] = []

    def read(body: bytes, kind: str) -> Any:
        kinds.append(kind)
        return read_protobuf(body, kind)

    monkeypatch.setattr("mooring.apiserver.server.request.read_protobuf", read)
    return kinds


@pytest.mark.slow
@needs(KUBECTL)
@pytest.mark.parametrize("arguments", CREATED)
def test_what_kubectl_creates_by_protobuf_is_what_it_creates_by_json(
    arguments: str, tmp_path: Path, was_read: list[str]
) -> None:
    words = [word.replace("_", " ") for word in arguments.split()]
    by_protobuf, by_json = an_api(), an_api()
    asyncio.run(_kubectl(by_protobuf, tmp_path, ["create", *words]))
    assert len(was_read) == 1, "this kubectl sends no protobuf"
    text = asyncio.run(_kubectl(by_json, tmp_path, ["create", *words, "-o", "json", "--dry-run=client"]))
    asyncio.run(_kubectl(by_json, tmp_path, ["create", "-f", "-"], text))
    assert len(was_read) == 1
    assert _last_written(by_protobuf) == _last_written(by_json)


@pytest.mark.slow
@needs(KUBECTL)
def test_kubectl_autoscales_by_protobuf(tmp_path: Path, was_read: list[str]) -> None:
    api = an_api()
    asyncio.run(_kubectl(api, tmp_path, ["create", "deployment", "web", "--image=nginx"]))
    asyncio.run(_kubectl(api, tmp_path, ["autoscale", "deployment", "web", "--max=5", "--min=2"]))
    assert was_read == ["Deployment", "HorizontalPodAutoscaler"]
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    spec = _last_written(api)["spec"]
    assert spec == {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": cpu}],
    }


@pytest.mark.slow
@needs(KUBECTL)
def test_kubectl_asks_by_protobuf(tmp_path: Path, was_read: list[str]) -> None:
    assert asyncio.run(_kubectl(an_api(), tmp_path, ["auth", "can-i", "create", "pods"])) == "yes\n"
    assert was_read == ["SelfSubjectAccessReview"]


async def _kubectl(api: ResourceApi, home: Path, arguments: list[str], given: str = "") -> str:
    """What kubectl prints when it works with this API."""
    server = HttpServer(api)
    port = await server.start("127.0.0.1", 0)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": os.devnull}
    pipe = asyncio.subprocess.PIPE
    command = (KUBECTL.required(), f"--server=http://127.0.0.1:{port}", "--request-timeout=10s", *arguments)
    try:
        child = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        out, fault = await child.communicate(given.encode())
    finally:
        await server.stop()
    assert child.returncode == 0, fault.decode()
    return out.decode()


def _last_written(api: ResourceApi) -> Any:
    item = dict(api.store.since(0)[-1].write().object)
    item["metadata"] = {key: value for key, value in item["metadata"].items() if key not in ASIDE}
    return item
