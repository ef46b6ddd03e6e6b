"""Anonymous dumps: no name is left, and every decision is the same under the new names."""

import io
import json
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from corpus import rows
from mooring.api.decode import decode_json
from mooring.api.kinds import KINDS
from mooring.framework.config import from_object
from mooring.framework.config.settings import settings_object
from mooring.inputs.created_objects import Manifest
from mooring.inputs.documents import STDIN
from mooring.inputs.dump_header import PodEvent
from mooring.inputs.dumps.anonymize import Anonymizer, renamed, rules_of, structs_in
from mooring.inputs.dumps.contents import dumped_objects
from mooring.inputs.dumps.renaming import PUBLIC, NameBook
from mooring.inputs.manifests import Manifests, read
from mooring.model.devices import Device, DeviceStatus
from mooring.model.meta import Condition, Wire
from mooring.model.workloads import Workload
from mooring.sim.conform import decide

FILES = (
    *("taints", "nodeaffinity", "ports", "images", "resources", "spread", "podaffinity"),
    *("gates", "profiles", "mixed", "sequence", "preempt", "volumes", "dra"),
)
EACH = 3
"""Scenarios of each file that every run tries; `slow` tries some or all of the others."""


# ---- decisions


class Renamed:
    """A scenario of the corpus, and the same under new names."""

    def __init__(self, scenario: Mapping[str, Any]) -> None:
        objects = [item for item in scenario["objects"] if item["kind"] in KINDS]
        typed = [decode_json(json.dumps(item).encode(), item["kind"]) for item in objects]
        config = scenario["config"]
        settings = None if config is None else settings_object(from_object(config), None)
        self.anonymizer = Anonymizer(Manifests([Manifest(item, None) for item in typed]), settings)
        self.book = self.anonymizer.book
        items = [*dumped_objects(self.anonymizer.manifests())]
        self.objects = [item for item in items if item["kind"] in KINDS]
        new = self.anonymizer.settings()
        self.scenario = {
            "name": scenario["name"],
            "config": None if new is None else new["configuration"],
            "objects": self.objects,
            "pods": [a_pod_name(self.book, key) for key in scenario["pods"]],
        }

    def step(self, step: Mapping[str, Any], book: NameBook | None = None) -> dict[str, Any]:
        """What is comparable of a step, under the new names; messages name resources and claims."""
        book = book or self.book
        name, pod = book.name, partial(a_pod_name, book)
        preemption = step.get("preemption", {})
        return {
            "pod": pod(step["pod"]),
            "result": step["result"],
            "node": name(step.get("node", "")),
            "feasible": sorted(map(name, step.get("feasible", ()))),
            "rejected": {name(node): _said(why) for node, why in step.get("rejected", {}).items()},
            "scores": {name(node): scores for node, scores in step.get("scores", {}).items()},
            "totals": {name(node): total for node, total in step.get("totals", {}).items()},
            "nominated": name(preemption.get("node", "")),
            "victims": sorted(map(pod, preemption.get("victims", ()))),
            "unschedulablePlugins": step.get("unschedulablePlugins"),
        }


def a_pod_name(book: NameBook, key: str) -> str:
    namespace, _, name = key.partition("/")
    return f"{book.public_name(namespace)}/{book.name(name)}"


@cache
def renamed_rows(name: str) -> list[tuple[Mapping[str, Any], Renamed]]:
    """The first scenarios of a file."""
    return [(row["scenario"], Renamed(row["scenario"])) for row in rows(name)[:EACH]]


def _said(why: Mapping[str, Any]) -> tuple[str, str, int]:
    return why["plugin"], why["code"], len(why["reasons"])


class Same(NameBook):
    """New names as they are: for the answer that has them already."""

    def name(self, text: str) -> str:
        return text


def steps(scenario: Mapping[str, Any]) -> list[dict[str, Any]]:
    answer = decide(json.dumps(scenario).encode())
    found: list[dict[str, Any]] = answer["steps"]
    return found


def differences(scenario: Mapping[str, Any], under: Renamed) -> list[str]:
    wanted = [under.step(step) for step in steps(scenario)]
    found = [under.step(step, Same()) for step in steps(under.scenario)]
    assert len(found) == len(wanted)
    return [
        f"{scenario['name']} {one['pod']}: {key}: expected {one[key]}, found {other[key]}"
        for one, other in zip(wanted, found, strict=True)
        for key in one
        if one[key] != other[key]
    ]


@pytest.mark.parametrize("name", FILES)
def test_the_decisions_are_the_same(name: str) -> None:
    assert [line for row in renamed_rows(name) for line in differences(*row)] == []


@pytest.mark.soak
@pytest.mark.parametrize("name", FILES)
def test_all_decisions_are_the_same(name: str) -> None:
    scenarios = [row["scenario"] for row in rows(name)[EACH:]]
    assert [line for scenario in scenarios for line in differences(scenario, Renamed(scenario))] == []


def test_a_difference_would_be_found() -> None:
    """Or else agreement would mean nothing."""
    scenario = rows("nodeaffinity")[0]["scenario"]
    under = Renamed(scenario)
    node = next(item for item in under.objects if item["kind"] == "Node")
    node["metadata"]["labels"] = {}
    wanted = [under.step(step) for step in steps(scenario)]
    assert [under.step(step, Same()) for step in steps(under.scenario)] != wanted


@pytest.mark.parametrize("name", FILES)
def test_an_anonymous_dump_can_be_read_as_well_as_the_original(name: str) -> None:
    """New names are valid wherever they stand."""

    def faults(items: list[dict[str, Any]]) -> list[str]:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
        return sorted(problem.path for problem in read([STDIN], io.BytesIO(text)).problems)

    for scenario, under in renamed_rows(name):
        before = [item for item in scenario["objects"] if item["kind"] in KINDS]
        assert {*faults(under.objects)} <= {*faults(before)}


# ---- leaks


def texts(value: Any) -> Iterator[str]:
    """All texts of plain data, keys of maps too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from texts(each)


OWN_WORDS = {"v1", "memory", "pool", *PUBLIC["names"]}
"""Names in the corpus that Kubernetes uses too: a capacity of devices that is called memory."""


@pytest.mark.parametrize("name", FILES)
def test_no_name_is_left(name: str) -> None:
    for _, under in renamed_rows(name):
        written = json.dumps([under.objects, under.scenario["config"]])
        names = {text for text in under.book.noted() if not text.isdecimal()} - OWN_WORDS
        assert len(names) > 20
        assert not names & {*texts(json.loads(written))}
        assert not {text for text in names if len(text) > 5 and text in written}


class Filler:
    """Fills every field of a struct; texts are all different, and all begin with MARK."""

    MARK = "zq"

    def __init__(self, form: str = "{}") -> None:
        self.form = form
        self.count = 0

    def struct(self, struct: type[Wire]) -> Any:
        return struct(**{name: self.value(hint) for name, hint in get_type_hints(struct).items()})

    def value(self, hint: Any) -> Any:
        if isinstance(hint, type) and issubclass(hint, Wire):
            return self.struct(hint)
        if hint in (str, Any):
            self.count += 1
            return self.form.format(f"{self.MARK}{self.count}")
        if get_origin(hint) is list:
            return [self.value(get_args(hint)[0])]
        if get_origin(hint) is dict:
            return {self.value(str): self.value(get_args(hint)[1])}
        options = [each for each in get_args(hint) if each is not type(None)]
        if str in options:  # amounts may be texts or numbers
            return self.value(str)
        return self.value(options[0]) if options else hint(1)


def marked_fields(value: Any, path: str = "") -> Iterator[str]:
    """`Taint.effect`: the fields in which a mark is left."""
    if isinstance(value, Wire):
        for name in value.__struct_fields__:
            yield from marked_fields(getattr(value, name), f"{type(value).__name__}.{name}")
    elif isinstance(value, list):
        for each in value:
            yield from marked_fields(each, path)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from marked_fields(key, path)
            yield from marked_fields(each, path)
    elif isinstance(value, str) and Filler.MARK in value:
        yield path


FORMS = (
    *(
        "{}",
        "{}.kubernetes.io/x",
        "kubernetes.io/{}",
        "x.kubernetes.io/{}",
        "hugepages-{}",
        "requests.{}",
        "{}/x",
        "aws://{}/x",
    ),
    *(
        "deviceclass.resource.kubernetes.io/{}",
        "attachable-volumes-csi-{}",
        "{}:latest",
        "2026-01-01T00:00:00Z{}",
        "1{}Gi",
    ),
    *("kubernetes.io/aws-ebs,{}", "topology.kubernetes.io/zone{}", "linux{}", "v1{}"),
)
"""Texts that look like Kubernetes' own and hold a name."""


@pytest.mark.parametrize("form", FORMS)
def test_no_text_of_any_struct_stays(form: str) -> None:
    left: set[str] = set()
    kinds: list[type[Wire]] = [*(spec.struct for spec in KINDS.values()), Workload, PodEvent]
    for struct in kinds:
        filled, book = Filler(form).struct(struct), NameBook()
        renamed(book, filled)
        book.close()
        left |= {*marked_fields(renamed(book, filled))}
    assert left == set()


def test_every_text_of_the_model_has_a_rule() -> None:
    """A field that is new in the model fails here, until somebody decides whether it is a name."""
    ahead: list[type[Wire]] = [*(spec.struct for spec in KINDS.values()), Workload, PodEvent]
    seen: set[type[Wire]] = set()
    while ahead:
        struct = ahead.pop()
        if struct not in seen:
            seen.add(struct)
            rules_of(struct)
            ahead += structs_in(struct)
    assert len(seen) > 90


def test_a_text_without_a_rule_is_an_error() -> None:
    class Unruled(Wire):
        secret: str = ""

    with pytest.raises(LookupError, match=r"Unruled\.secret holds text, and no rule says whether to rename it"):
        rules_of(Unruled)


def test_public_words_have_no_cluster_of_their_own() -> None:
    assert all("kubernetes.io" in key or "/" not in key or "csi" in key or "gke" in key for key in PUBLIC["keys"])
    assert "default" in PUBLIC["names"] and "linux" in PUBLIC["values"]


def test_conditions_have_one_name_wherever_they_stand() -> None:
    """A device waits for conditions by name, and its driver reports them in the status of the claim."""
    device = Device(name="d", binding_conditions=["Ready", "acme.com/attached"])
    status = DeviceStatus(conditions=[Condition(type="Ready"), Condition(type="acme.com/attached")])
    book = NameBook()
    renamed(book, device)
    renamed(book, status)
    book.close()
    waited = renamed(book, device).binding_conditions
    assert waited == [each.type for each in renamed(book, status).conditions or ()]
    assert waited is not None and waited[0] == "Ready" and "acme" not in waited[1]


def test_names_keep_their_order() -> None:
    book, names = NameBook(), ["a", "a-1", "a.b", "a1", "b", "Z", "é"]
    for name in names:
        book.name(name)
    book.close()
    assert sorted(names, key=book.name) == sorted(names)


def test_names_with_an_inner_form_keep_it() -> None:
    book = NameBook()
    texts_in = [
        "acme.com/gpu",
        "deviceclass.resource.kubernetes.io/big",
        "hugepages-2Mi",
        "cpu",
        "requests.acme.com/gpu",
    ]
    for _ in range(2):
        new = [book.resource(text) for text in texts_in]
        images = [
            book.image("app"),
            book.image("app:latest"),
            book.image_on_node("app"),
            book.image_on_node("app:latest"),
        ]
        ids = [book.volume_id("aws://zone/vol-1"), book.volume_id("vol-1")]
        if not book.is_closed:
            book.close()
    domain = new[0].partition("/")[0]
    assert new[4] == f"requests.{new[0]}" and new[1].startswith("deviceclass.resource.kubernetes.io/x")
    assert new[2:4] == ["hugepages-2Mi", "cpu"] and domain.startswith("x")
    assert images[0] == images[1] == images[3] != images[2]
    assert ids[0].rpartition("/")[2] == ids[1] and ids[0].startswith("aws://")
