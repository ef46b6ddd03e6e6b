"""What there is most of is added with one file: each test adds one to a copy of the source and sees it work there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parent

KIND = '''
"""Licences: a pod that needs one waits for it."""

from msgspec import field

from mooring.api.kind_spec import OF_METADATA, labels_at
from mooring.api.kind_spec import KindSpec, Watch
from mooring.api.kind_spec import BY_NAME
from mooring.model.meta import KubeObject, Wire
from mooring.api.kind_spec import AGE, NAME, Column, field_cell
from mooring.api.validation.field_rules import in_range
from mooring.api.validation.problem import Problems


class LicenceSpec(Wire):
    product: str = ""
    seats: int = 0


class Licence(KubeObject):
    spec: LicenceSpec = field(default_factory=LicenceSpec)


def _check(licence: Licence) -> Problems:
    yield from in_range("spec.seats", licence.spec.seats, 1, 1000)


LICENCE = KindSpec(
    *("example.com", "v1", "licences", "Licence", True, ("lic",), ("all",), ("status",)),
    struct=Licence,
    check=_check,
    watch=Watch(wakes_pods=True),
    spec_defaults={"seats": 5},
    new_status={"phase": "Valid"},
    has_generation=True,
    fixed=("spec.product",),
    lists={"spec.holders": BY_NAME},
    field_labels={**OF_METADATA, **labels_at("spec.product")},
    columns=(NAME, Column("Seats", field_cell("spec.seats"), type="integer"), AGE),
)
'''

USE_OF_THE_KIND = """
from typing import Any

from asking import MERGE_PATCH, STRATEGIC_PATCH, TABLE, ask, begin, heard
from mooring.apiclient.reflectors.reflector import WATCHED
from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import Action, Change, ClusterEvent, Registration
from mooring.framework.contract.points import PreFilterPlugin
from mooring.framework.profile.registry import Registry
from mooring.framework.contract.status import Rejection
from mooring.serve.cache_debugger import snapshot
from mooring.api.kinds import is_read, kind_problem
from mooring.api.kinds.licences import LICENCE, Licence
from mooring.model.pod import Pod
from mooring.state.scheduler_assembly import all_plugins
from virtual_cluster import VirtualCluster

LICENCES = "/apis/example.com/v1/namespaces/default/licences"
LOOKED_AT: list[str] = []


def is_own(pod: Pod, change: Change) -> bool:
    LOOKED_AT.append(change.new.name)
    return change.new.spec.product == pod.labels["needs"]


class Licensed(PreFilterPlugin):
    name = "Licensed"

    def pre_filter(self, context: SchedulingContext) -> Any:
        held = {licence.spec.product for licence in context.cluster.objects[Licence].values()}
        wanted = context.pod.labels.get("needs")
        return None if wanted is None or wanted in held else Rejection(("no licence",))

    def events(self) -> list[Registration]:
        return [Registration(ClusterEvent(LICENCE.event, Action.ADD), is_own)]


registry = Registry()
for name, factory in all_plugins().items():
    registry.register_factory(name, factory)
registry.register(Licensed)
header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Licensed"}]}}}
configured = config.from_object({**header, "profiles": [profile]})
world = VirtualCluster(EmbeddedSettings(configured, registry))

# A pod waits for its licence; only the event of a licence that fits wakes it.
watch = begin(world.api, LICENCES)
world.node()
world.pod("web", metadata={"labels": {"needs": "maps"}})
assert world.place("web") == ""
assert world.condition("web")["message"].startswith("0/1 nodes are available: no licence.")
world.ask("POST", LICENCES, {"metadata": {"name": "other"}, "spec": {"product": "charts"}})
assert world.place("web") == ""
made = world.ask("POST", LICENCES, {"metadata": {"name": "mine"}, "spec": {"product": "maps"}})
assert world.place("web") == "node"
assert LOOKED_AT == ["other", "mine"]
assert [*world.cluster.scheduler.core.cluster.objects[Licence]] == ["default/other", "default/mine"]

# The server serves it with its defaults, its status, its rules and its columns.
assert (made["spec"]["seats"], made["status"], made["metadata"]["generation"]) == (5, {"phase": "Valid"}, 1)
assert [event["type"] for event in heard(watch)] == ["ADDED", "ADDED"]
assert [item["metadata"]["name"] for item in world.ask("GET", LICENCES)["items"]] == ["mine", "other"]
found = world.ask("GET", LICENCES, fieldSelector="spec.product=charts")["items"]
assert [item["metadata"]["name"] for item in found] == ["other"]
table = ask(world.api, "GET", LICENCES + "/mine", accept=TABLE).body
assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Seats", "Age"]
assert table["rows"][0]["cells"][:2] == ["mine", 5]
refused = ask(world.api, "PATCH", LICENCES + "/mine", {"spec": {"product": "x"}}, MERGE_PATCH)
assert (refused.code, refused.body["message"]) == (
    422,
    'Licence.example.com "mine" is invalid: spec.product: Invalid value: "x": field is immutable',
)
refused = ask(world.api, "POST", LICENCES, {"metadata": {"name": "big"}, "spec": {"seats": 2000}})
assert refused.code == 422, refused.body
for holder in ("a", "b"):
    held = world.patch(LICENCES + "/mine", {"spec": {"holders": [{"name": holder}]}}, STRATEGIC_PATCH)["spec"]["holders"]
assert sorted(holder["name"] for holder in held) == ["a", "b"]

# Discovery names it, a live scheduler watches it, manifests and snapshots may hold it.
(served,) = [kind for kind in world.ask("GET", "/apis/example.com/v1")["resources"] if kind["name"] == "licences"]
assert (served["kind"], served["shortNames"], served["namespaced"]) == ("Licence", ["lic"], True)
assert "example.com" in [group["name"] for group in world.ask("GET", "/apis")["groups"]]
assert "/apis/example.com/v1/licences" in [watched.url() for watched in WATCHED]
assert is_read("Licence", "example.com/v1") and kind_problem("Licence", "example.com/v1") is None
shown = [item["kind"] for item in snapshot(world.cluster.scheduler, configured)["items"]]
assert shown.count("Licence") == 2
print("served and delivered")
"""


def a_tree(below: Path, added: dict[str, str]) -> Path:
    """A copy of the source with files added, by their path below `mooring`."""
    tree = below / "tree"
    shutil.copytree(TESTS.parent / "src" / "mooring", tree / "mooring", ignore=shutil.ignore_patterns("__pycache__"))
    for path, text in added.items():
        place = tree / "mooring" / path
        assert not place.exists()
        place.write_text(text.lstrip())
    return tree


def run_in(tree: Path, script: str) -> str:
    """What a script prints that imports Mooring from the tree, and what tests share."""
    path = tree / "script.py"
    path.write_text(f"import mooring\nassert mooring.__file__.startswith({str(tree)!r})\n{script.lstrip()}")
    paths = {"PYTHONPATH": os.pathsep.join((str(tree), str(TESTS)))}
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=os.environ | paths)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_an_api_kind_is_one_file(tmp_path: Path) -> None:
    tree = a_tree(tmp_path, {"api/kinds/licences.py": KIND})
    assert run_in(tree, USE_OF_THE_KIND) == "served and delivered\n"
