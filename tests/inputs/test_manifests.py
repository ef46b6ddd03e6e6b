"""Reading manifests: every way in, every fault told in one line, and nothing that ends in a traceback."""

import gc
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.inputs import manifests
from mooring.inputs.manifests import Manifests, read
from mooring.model.pod import Pod

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4", "pods": 10}}}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}},
    },
}

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file into the current folder and gives its name; objects become YAML, or JSON by the suffix."""
    monkeypatch.chdir(tmp_path)

    def put(name: str, *written: Any) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if len(written) == 1 and isinstance(written[0], str | bytes):
            path.write_bytes(written[0] if isinstance(written[0], bytes) else written[0].encode())
        elif name.endswith(".json"):
            path.write_text("\n".join(map(json.dumps, written)))
        else:
            path.write_text(yaml.safe_dump_all(written))
        return name

    return put


def named(name: str, written: dict[str, Any] = POD, **metadata: Any) -> dict[str, Any]:
    return {**written, "metadata": {"name": name, **metadata}}


def keys(manifests: Manifests) -> list[str]:
    """`Kind key` of all objects but the namespaces."""
    return [f"{m.kind} {m.object.key}" for m in manifests.objects if m.kind != "Namespace"]


def told(manifests: Manifests) -> list[str]:
    return [str(problem.on(0)) for problem in manifests.problems]


def a_list(*items: Any, kind: str = "List", version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "items": list(items)}


def without_header(written: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in written.items() if key not in ("kind", "apiVersion")}


FORMS: list[Any] = [
    pytest.param("a.yaml", [POD, NODE], id="yaml of many documents"),
    pytest.param("a.yml", [a_list(POD, NODE)], id="a list in yaml"),
    pytest.param("a.json", [POD, NODE], id="json values one after another"),
    pytest.param("a.json", [a_list(POD, NODE)], id="what kubectl get -o json writes"),
    pytest.param("a.json", [a_list(a_list(POD), NODE)], id="a list in a list"),
    pytest.param(
        "a.json",
        [a_list(without_header(POD), kind="PodList"), a_list(without_header(NODE), kind="NodeList")],
        id="typed lists whose items have no kind",
    ),
    pytest.param("a.txt", [a_list(POD, NODE)], id="any name if it is given itself"),
]


@pytest.mark.parametrize(("name", "written"), FORMS)
def test_forms(write: Write, name: str, written: list[Any]) -> None:
    manifests = read([write(name, *written)])
    assert told(manifests) == []
    assert keys(manifests) == ["Pod default/p", "Node n"]
    assert all(m.file == name for m in manifests.objects if m.kind != "Namespace")


def test_places_are_known(write: Write) -> None:
    manifests = read([write("a.yaml", POD, a_list(NODE, named("q")))])
    assert [(m.place and m.place.label, m.where) for m in manifests.objects if m.kind != "Namespace"] == [
        ("document 1", "Pod default/p"),
        ("document 2, item 1", "Node n"),
        ("document 2, item 2", "Pod default/q"),
    ]


def test_folders_are_read_in_order_and_other_files_left_alone(write: Write) -> None:
    write("all/b/x.json", named("third"))
    write("all/b/a.yml", named("second"))
    write("all/a.YAML", named("first"))
    write("all/notes.txt", "{{{")
    assert keys(read(["all"])) == ["Pod default/first", "Pod default/second", "Pod default/third"]


def test_standard_input(write: Write) -> None:
    write("a.yaml", NODE)
    assert keys(read(["-", "a.yaml"], io.BytesIO(json.dumps(POD).encode()))) == ["Pod default/p", "Node n"]
    assert told(read(["-"], io.BytesIO(b"a: {"))) == [
        "standard input: column 1: the text does not parse (did not find expected node content, "
        "while parsing a flow node)"
    ]


TEXT = json.dumps(POD)
ENCODINGS = [
    pytest.param(b"\xef\xbb\xbf" + TEXT.encode(), id="a byte order mark"),
    pytest.param(TEXT.encode("utf-16"), id="UTF-16 as PowerShell writes it"),
    pytest.param(b"\n\n  " + TEXT.encode() + b"\n\n", id="blanks around it"),
    pytest.param(b"{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}", id="flow YAML"),
    pytest.param(b"# nothing\n---\n---\n" + TEXT.encode(), id="empty documents"),
]


@pytest.mark.parametrize("text", ENCODINGS)
def test_encodings(write: Write, text: bytes) -> None:
    manifests = read([write("a", text)])
    assert (told(manifests), keys(manifests)) == ([], ["Pod default/p"])


UNREADABLE: list[Any] = [
    pytest.param("just words", 'a.yaml: document 1: Invalid value: "just words"', id="not an object"),
    pytest.param("- a\n", "a.yaml: document 1: Invalid value: a list", id="a list at the top"),
    pytest.param('["a"]', "a.yaml: document 1: Invalid value: a list", id="a JSON list at the top"),
    pytest.param(
        b"\x00\xff",
        "a.yaml: column 1: the text does not parse (control characters are not allowed)",
        id="no text",
    ),
    pytest.param('{"a": "' + "\\ud800" + '"}', "a.yaml: column 10: the text does not parse", id="half a surrogate"),
]


@pytest.mark.parametrize(("text", "start"), UNREADABLE)
def test_text_that_is_no_manifest(write: Write, text: str | bytes, start: str) -> None:
    (problem,) = told(read([write("a.yaml", text)]))
    assert problem.startswith(start)
    assert "\n" not in problem


def test_broken_json_is_told_with_its_place(write: Write) -> None:
    assert told(read([write("a.json", '{"kind": "Pod",\n  "x": nope}')])) == [
        "a.json: column 9: the text does not parse (invalid character)"
    ]
    assert told(read([write("b.json", '{"kind": "Pod",\n')])) == [
        "b.json: column 1: the text does not parse (Input data was truncated)"
    ]
    assert told(read([write("c.json", "[" * 1_000_000)])) == [
        "c.json: column 1: the text does not parse (the nesting is too deep)"
    ]


def test_json_that_is_not_utf8(write: Write) -> None:
    text = json.dumps(a_list(POD, named("q"))).encode().replace(b'"q"', b'"\xff"')
    manifests = read([write("a.json", text)])
    assert keys(manifests) == ["Pod default/p"]
    assert told(manifests) == ["a.json: Pod in document 1, item 2: the text is not UTF-8: write JSON in UTF-8"]


def test_files_that_cannot_be_read(write: Write, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert told(read(["gone.yaml", "empty", "a\0b"])) == [
        "gone.yaml: cannot be read: No such file or directory",
        "empty: the folder has no manifest; manifests are *.yaml, *.yml, *.json, and those with .gz at the end",
        "a\\x00b: cannot be read: embedded null byte",
    ]


@pytest.mark.skipif(os.name != "posix", reason="file names are text elsewhere")
def test_a_file_name_that_is_no_text(write: Write) -> None:
    (problem,) = told(read(["\udcff.yaml"]))
    problem.encode()
    assert problem.startswith("\\udcff.yaml: cannot be read: ")


def test_more_bytes_than_allowed(write: Write) -> None:
    names = [write("a.json", POD), write("b.json", named("q")), write("c.json", named("r"))]
    size = len(json.dumps(POD))
    manifests = read(names, max_bytes=size + 10)
    assert keys(manifests) == ["Pod default/p"]
    text = f"all input together has more than {size + 10} bytes; give fewer files"
    assert told(manifests) == [f"b.json: {text}", f"c.json: {text}"]


HEADERS: list[Any] = [
    pytest.param(
        {},
        [
            "document 1: kind: Required value: a kind, such as Pod",
            "document 1: apiVersion: Required value: a version, such as v1",
        ],
        id="neither kind nor version",
    ),
    pytest.param(
        {**POD, "kind": 5}, ["document 1: kind: Invalid value: 5: must be a kind, such as Pod"], id="a number as kind"
    ),
    pytest.param(
        {**POD, "apiVersion": "v2"}, ['Pod default/p: apiVersion: Invalid value: "v2": must be v1'], id="a version"
    ),
    pytest.param(
        {**POD, "kind": "pod"}, ['pod default/p: kind: Invalid value: "pod": must be Pod'], id="a kind in lower case"
    ),
    pytest.param(
        {**a_list(), "items": {"a": 1}}, ["document 1: items: Invalid value: an object: must be a list"], id="items"
    ),
    pytest.param(
        a_list(3),
        ["document 1, item 1: Invalid value: 3: must be an object with kind and apiVersion"],
        id="a number as item",
    ),
]


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
@pytest.mark.parametrize(("written", "texts"), HEADERS)
def test_headers(write: Write, name: str, written: dict[str, Any], texts: list[str]) -> None:
    manifests = read([write(name, written)])
    assert keys(manifests) == []
    assert told(manifests) == [f"{name}: {text}" for text in texts]


def test_lists_without_end_are_refused(write: Write) -> None:
    nested: dict[str, Any] = POD
    for _ in range(20):
        nested = a_list(nested)
    (problem,) = told(read([write("a.json", nested)]))
    assert problem.endswith("items: lists are nested more than 8 levels deep: write fewer levels")


def test_kinds_that_do_not_matter_are_counted(write: Write) -> None:
    header = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": "whatever"}
    custom = {"apiVersion": "example.com/v1", "kind": "Widget"}
    namesake = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": 7}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob"}
    with_items = {"apiVersion": "example.com/v1", "kind": "Basket", "items": [POD]}
    allow_list = {"apiVersion": "example.com/v1", "kind": "AllowList", "spec": {}}
    manifests = read([write("a.yaml", header, header, custom, namesake, cron, with_items, allow_list, POD)])
    assert told(manifests) == []
    assert manifests.ignored == {
        "ConfigMap": 2, "Widget": 1, "Service": 1, "CronJob": 1, "Basket": 1, "AllowList": 1,
    }  # fmt: skip
    assert keys(manifests) == ["Pod default/p"]


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_every_fault_of_every_object_is_told(write: Write, name: str) -> None:
    bad = {
        **named("bad"),
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2x"}}}], "priority": 1 << 40},
    }
    odd = {**named("odd"), "spec": {"containers": "c", "nodeselector": {}, "hostNetwork": 1}}
    manifests = read([write(name, bad, POD, odd)])
    assert keys(manifests) == ["Pod default/p"]
    assert told(manifests) == [
        f"{name}: Pod default/bad: spec.containers[0].resources.requests.cpu: "
        'Invalid value: "2x": must be a quantity of zero or more, e.g. 500m, 2 or 1.5Gi',
        f"{name}: Pod default/bad: spec.priority: Invalid value: {1 << 40}: must be between -2147483648 and 2000001000",
        f'{name}: Pod default/odd: spec.containers: Invalid value: "c": must be a list',
        f"{name}: Pod default/odd: spec.hostNetwork: Invalid value: 1: must be true or false",
        f"{name}: Pod default/odd: spec.nodeselector: unknown field; did you mean nodeSelector?",
    ]


def test_an_object_without_name(write: Write) -> None:
    assert told(read([write("a.yaml", {**POD, "metadata": {}})])) == [
        "a.yaml: Pod default/: metadata.name: Required value: a name"
    ]


def test_objects_given_twice(write: Write) -> None:
    other = named("p", POD, namespace="other")
    manifests = read([write("a.yaml", POD, other), write("b.yaml", NODE, named("p", POD, namespace="default"))])
    assert keys(manifests) == ["Pod default/p", "Pod other/p", "Node n"]
    assert told(manifests) == [
        "b.yaml: Pod default/p: metadata.name: the object is in a.yaml, document 1, already; remove one of the two"
    ]


def test_workloads_become_pods(write: Write) -> None:
    manifests = read([write("a.yaml", DEPLOYMENT, NODE)])
    assert told(manifests) == []
    between, *rest = keys(manifests)
    assert between.startswith("ReplicaSet default/web-")
    assert rest == ["Pod default/web-0", "Pod default/web-1", "Node n"]
    pod = next(m for m in manifests.objects if m.kind == "Pod")
    assert (pod.where, pod.made_from) == ("Deployment default/web", "Deployment default/web")
    assert isinstance(pod.object, Pod)
    assert pod.object.spec.scheduler_name == "default-scheduler"
    assert [m.object.name for m in manifests.objects if m.kind == "Namespace"] == ["default"]


def test_daemons_are_made_for_the_nodes_that_are_given(write: Write) -> None:
    daemons = without_replicas({**a_deployment(), "kind": "DaemonSet"})
    tainted = {**named("t", NODE), "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    manifests = read([write("a.yaml", daemons, NODE, named("m", NODE), tainted)])
    assert keys(manifests) == ["Pod default/web-0", "Pod default/web-1", "Node n", "Node m", "Node t"]


def test_workloads_that_have_pods_make_none(write: Write) -> None:
    owner = {"kind": "ReplicaSet", "name": "web-abc", "uid": "r1", "controller": True}
    pod = named("web-abc-x", POD, labels={"pod-template-hash": "abc"}, ownerReferences=[owner])
    assert keys(read([write("a.json", a_list(DEPLOYMENT, pod))])) == ["Pod default/web-abc-x"]


def test_names_of_made_pods_do_not_collide(write: Write) -> None:
    stateful = {**DEPLOYMENT, "kind": "StatefulSet"}
    job = without_replicas({**a_deployment(), "apiVersion": "batch/v1", "kind": "Job"})
    names = [key for key in keys(read([write("a.yaml", DEPLOYMENT, job, stateful)])) if key.startswith("Pod")]
    assert names == [
        "Pod default/web-deployment-0",
        "Pod default/web-deployment-1",
        "Pod default/web-job-0",
        "Pod default/web-0",
        "Pod default/web-1",
    ]


def a_deployment(name: str = "web", replicas: Any = 2, **pod_spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}], **pod_spec}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {**DEPLOYMENT, "metadata": {"name": name}, "spec": spec}


def without_replicas(workload: dict[str, Any]) -> dict[str, Any]:
    spec = {name: value for name, value in workload["spec"].items() if name != "replicas"}
    return {**workload, "spec": spec}


TEMPLATE_FAULTS: list[Any] = [
    pytest.param(
        a_deployment(tolerations=[{"key": "a", "operator": "Nope"}]),
        'spec.template.spec.tolerations[0].operator: Unsupported value: "Nope": supported values: Equal, Exists',
        id="a rule broken in the template is told once",
    ),
    pytest.param(
        a_deployment(hostNetwork="x"),
        'spec.template.spec.hostNetwork: Invalid value: "x": must be true or false',
        id="a type broken in the template",
    ),
    pytest.param(
        a_deployment(priorityClassName="nope"),
        'spec.template.spec.priorityClassName: Invalid value: "nope": must be a known class: '
        "system-cluster-critical, system-node-critical",
        id="what admission refuses in the template",
    ),
    pytest.param(
        a_deployment(replicas="two"), 'spec.replicas: Invalid value: "two": must be an integer', id="replicas in words"
    ),
    pytest.param(
        a_deployment(replicas=-1), "spec.replicas: Invalid value: -1: must be 0 or more", id="negative replicas"
    ),
    pytest.param(
        a_deployment(replicas=2_000_000_000),
        "spec.replicas: Invalid value: 2000000000: must be at most 1000000 in a simulation",
        id="more replicas than anyone means",
    ),
]


@pytest.mark.parametrize(("written", "text"), TEMPLATE_FAULTS)
def test_faults_of_templates(write: Write, written: dict[str, Any], text: str) -> None:
    manifests = read([write("a.yaml", written)])
    assert told(manifests) == [f"a.yaml: Deployment default/web: {text}"]
    assert keys(manifests) == []


def test_a_replica_set_is_told_of_once(write: Write) -> None:
    written = {**a_deployment(hostNetwork="x"), "kind": "ReplicaSet", "metadata": {"name": "web", "labels": {"a": 1}}}
    assert told(read([write("a.json", written)])) == [
        "a.json: ReplicaSet default/web: metadata.labels.a: Invalid value: 1: must be a string",
        'a.json: ReplicaSet default/web: spec.template.spec.hostNetwork: Invalid value: "x": must be true or false',
    ]


def test_claims_are_made_unless_they_are_there(write: Write) -> None:
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    stateful = {**a_deployment(), "kind": "StatefulSet"}
    stateful["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": size}]
    there = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-web-1"}, "spec": size}
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": size}}}]
    pod = {**POD, "spec": {"containers": [{"name": "c"}], "volumes": volumes}}
    manifests = read([write("a.yaml", stateful, there, pod)])
    assert told(manifests) == []
    claims = [(m.object.key, m.made_from) for m in manifests.objects if m.kind == "PersistentVolumeClaim"]
    assert claims == [
        ("default/data-web-0", "StatefulSet default/web"),
        ("default/data-web-1", ""),
        ("default/p-v", "Pod default/p"),
    ]


def test_a_dump_comes_out_as_it_went_in(write: Write) -> None:
    meta = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7", "creationTimestamp": None}
    pod = {**POD, "metadata": meta, "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}}
    manifests = read([write("a.json", a_list(pod))])
    (typed,) = [m.object for m in manifests.objects if m.kind == "Pod"]
    assert typed == msgspec.convert({key: pod[key] for key in ("metadata", "spec")}, Pod)


def test_progress_reaches_the_end(write: Write) -> None:
    names = [write("a.json", a_list(*(named(f"p{i}") for i in range(50)))), write("b.yaml", NODE)]
    total = sum(Path(name).stat().st_size for name in names)
    steps: list[tuple[int, int]] = []
    read(names, on_progress=lambda done, all_: steps.append((done, all_)))
    assert len(steps) > 50
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert {all_ for _, all_ in steps} == {total}
    assert steps[-1] == (total, total)


def test_nothing_given_is_nothing_read() -> None:
    assert read([]) == Manifests()


@pytest.mark.slow
@given(st.binary(max_size=200))
def test_no_bytes_end_in_a_traceback(raw: bytes) -> None:
    for problem in told(read(["-"], io.BytesIO(raw))):
        assert "\n" not in problem


SEED = yaml.safe_dump_all([POD, NODE, DEPLOYMENT, a_list(POD)]).encode()


@pytest.mark.slow
@given(st.integers(0, len(SEED) - 1), st.integers(0, 20), st.binary(max_size=10))
def test_no_damage_to_a_manifest_ends_in_a_traceback(start: int, length: int, put: bytes) -> None:
    for prefix, text in ((b"", SEED), (b"", json.dumps(a_list(POD, NODE, DEPLOYMENT)).encode())):
        damaged = prefix + text[: start % len(text)] + put + text[start % len(text) + length :]
        for problem in told(read(["-"], io.BytesIO(damaged))):
            assert "\n" not in problem


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "x", "-1", "2x", "Exists"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "key", "cpu", "values"]), inner, max_size=3)
    ),
    max_leaves=5,
)
PATHS = [
    ("metadata",), ("metadata", "labels"), ("metadata", "name"), ("metadata", "ownerReferences"), ("spec",),
    ("status",),
    ("spec", "containers"), ("spec", "tolerations"), ("spec", "affinity"), ("spec", "topologySpreadConstraints"),
    ("spec", "resources"), ("spec", "overhead"), ("spec", "priority"), ("spec", "volumes"), ("spec", "nodeSelector"),
    ("spec", "replicas"), ("spec", "template"), ("spec", "selector"), ("spec", "taints"), ("status", "allocatable"),
    ("spec", "limits"), ("spec", "devices"), ("value",), ("overhead",), ("spec", "resourceClaims"), ("spec", "pool"),
]  # fmt: skip
KINDS_AND_VERSIONS = [
    ("Pod", "v1"), ("Node", "v1"), ("Deployment", "apps/v1"), ("StatefulSet", "apps/v1"), ("DaemonSet", "apps/v1"),
    ("Job", "batch/v1"), ("LimitRange", "v1"), ("PriorityClass", "scheduling.k8s.io/v1"),
    ("RuntimeClass", "node.k8s.io/v1"), ("PodDisruptionBudget", "policy/v1"), ("PersistentVolume", "v1"),
    ("PersistentVolumeClaim", "v1"), ("StorageClass", "storage.k8s.io/v1"),
    ("ResourceSlice", "resource.k8s.io/v1"), ("ResourceClaim", "resource.k8s.io/v1"),
]  # fmt: skip


@pytest.mark.slow
@given(st.sampled_from(KINDS_AND_VERSIONS), st.lists(st.tuples(st.sampled_from(PATHS), JUNK), min_size=1, max_size=4))
def test_no_content_ends_in_a_traceback(header: tuple[str, str], changes: list[tuple[tuple[str, ...], Any]]) -> None:
    written: dict[str, Any] = {"kind": header[0], "apiVersion": header[1], "metadata": {"name": "x"}}
    for path, value in changes:
        inner = written
        for key in path[:-1]:
            if not isinstance(inner.get(key), dict):
                inner[key] = {}
            inner = inner[key]
        inner[path[-1]] = value
    for problem in told(read(["-"], io.BytesIO(json.dumps(a_list(written, POD, NODE)).encode()))):
        assert "\n" not in problem


@pytest.mark.slow
def test_a_thousand_pods_in_yaml_take_seconds_not_minutes(write: Write) -> None:
    env = [{"name": f"V{i}", "value": "x" * 20} for i in range(20)]
    spec = {"containers": [{"name": c, "env": env, "resources": {"requests": {"cpu": "1"}}} for c in ("a", "b")]}
    one = yaml.safe_dump(json.loads(json.dumps({**named("NAME"), "spec": spec})))
    name = write("a.yaml", "---\n".join(one.replace("NAME", f"p{i}") for i in range(1000)))
    start = time.perf_counter()
    manifests = read([name])
    assert len(keys(manifests)) == 1000
    assert time.perf_counter() - start < 60, "a few seconds on an idle machine"


@pytest.mark.slow
@pytest.mark.parametrize("is_large", [False, True])
def test_only_a_large_input_makes_objects_old_for_the_collector(
    is_large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "LARGE_BYTES", 1 if is_large else 1 << 30)
    path = tmp_path / "node.json"
    path.write_text('{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}')
    gc.unfreeze()  # another test of this process may have frozen its objects
    gc.collect()
    young = [object()]
    assert manifests.read([str(path)]).problems == [] and gc.isenabled()
    assert any(each is young for each in gc.get_objects(generation=2)) is is_large
