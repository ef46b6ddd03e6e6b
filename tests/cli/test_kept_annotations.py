"""Annotations that plugins read: dumps and recordings keep them, and say so where they are missing."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import Ran, as_manifest, enabling, mooring, write, write_config

from build import a_node, a_pod
from mooring.cli.options import registry_with
from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config as configuration
from mooring.state.recording.recorder import RecordingSettings
from mooring.state.recording.run_files import RecordingLimits
from virtual_cluster import VirtualCluster

WATTS = "example.com/watts"
POWER = f'''
from mooring.framework.contract.plain import PlainPlugin

class Power(PlainPlugin):
    """Prefers the node with the lowest power."""
    name = "Power"
    #annotations = ("{WATTS}",)

    def score(self, pod, node):
        return 100 - int(node.annotations.get("{WATTS}", "0"), 16) % 101
'''
"""The values are read as hexadecimal numbers, because a digest is one: then a replay decides otherwise and does not fail."""
NODES = {"a": "40", "b": "5", "c": "20"}
"""Without annotations, the lowest name is taken."""


@pytest.fixture
def undeclared(tmp_path: Path) -> Path:
    (tmp_path / "undeclared").mkdir()
    path = tmp_path / "undeclared" / "power.py"
    path.write_text(POWER)
    return path


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    path = tmp_path / "power.py"
    path.write_text(POWER.replace("#", ""))
    return path


def a_powered_node(name: str, watts: str) -> dict[str, Any]:
    node = as_manifest(a_node(name, cpu="4"))
    return {**node, "metadata": {**node["metadata"], "annotations": {WATTS: watts, "note": "hunter2"}}}


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    pod = a_pod("web", cpu="1", schedulerName="default-scheduler")
    return write(tmp_path / "cluster.json", *(a_powered_node(*each) for each in NODES.items()), pod)


def node_of_web(ran: Ran) -> str:
    assert ran.code == 0, ran.err
    (pod,) = json.loads(ran.out)["pods"]
    return str(pod["node"])


def simulate(*arguments: str | Path) -> Ran:
    return mooring("simulate", *arguments, "-o", "json")


def header(dump: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(dump.read_text())["items"][0]
    return found


# ---- dumps


def test_a_dump_has_the_annotations_that_a_plugin_declares_and_decides_as_the_cluster(
    cluster: Path, declared: Path, tmp_path: Path
) -> None:
    dump = tmp_path / "dump.json"
    assert node_of_web(simulate(cluster, "--plugin", declared)) == "b"
    ran = mooring("dump", "-o", dump, "--from", cluster, "--plugin", declared)
    assert ran.err == f"{dump}: 3 nodes, 1 pod (1 pending), 1 other object\n"
    assert node_of_web(again := simulate(dump, "--plugin", declared)) == "b"
    assert "annotations" not in again.err
    assert "hunter2" not in dump.read_text()
    assert header(dump)["leftOutAnnotations"] == ["note"]


@pytest.mark.parametrize("pattern", [WATTS, "example.com/*", f"other,{WATTS}"])
def test_a_user_may_name_the_annotations(cluster: Path, undeclared: Path, tmp_path: Path, pattern: str) -> None:
    dump = tmp_path / "dump.json"
    assert mooring("dump", "-o", dump, "--from", cluster, "--keep-annotations", pattern).code == 0
    assert node_of_web(simulate(dump, "--plugin", undeclared)) == "b"


def test_a_dump_without_them_says_which_are_missing_and_what_to_do(
    cluster: Path, declared: Path, undeclared: Path, tmp_path: Path
) -> None:
    dump = tmp_path / "dump.json"
    remedy = "keep those that the plugin reads with `mooring dump --keep-annotations KEY,...`"
    told = f"note: plugin Power reads annotations and declares none, and the dump leaves these out: {WATTS}, note; {remedy}"
    assert told in mooring("dump", "-o", dump, "--from", cluster, "--plugin", undeclared).complaints
    ran = simulate(dump, "--plugin", undeclared)
    assert node_of_web(ran) == "a"
    assert told in ran.complaints
    ran = simulate(dump, "--plugin", declared)
    assert f"note: plugin Power reads annotations that the dump leaves out: {WATTS}; {remedy}" in ran.complaints
    assert "annotations" not in simulate(dump).err


def test_an_anonymous_dump_renames_what_plugins_declare_and_keeps_what_the_user_names(
    cluster: Path, declared: Path, tmp_path: Path
) -> None:
    renamed, kept = tmp_path / "renamed.json", tmp_path / "kept.json"
    arguments = ("--from", cluster, "--anonymize", "--plugin", declared)
    assert mooring("dump", "-o", renamed, *arguments).code == 0
    assert mooring("dump", "-o", kept, *arguments, "--keep-annotations", WATTS).code == 0
    held = [
        item["metadata"]["annotations"] for item in json.loads(renamed.read_text())["items"] if item["kind"] == "Node"
    ]
    assert all(len(each) == 1 and WATTS not in each for each in held)
    assert len({*(key for each in held for key in each)}) == 1 and len({*map(str, held)}) == 3
    assert "hunter2" not in renamed.read_text() + kept.read_text()
    assert "leftOutAnnotations" not in header(renamed)
    assert node_of_web(simulate(cluster, "--plugin", declared)) == "b"
    ran = simulate(kept, "--plugin", declared)
    watts = [
        item["metadata"]["annotations"] for item in json.loads(kept.read_text())["items"] if item["kind"] == "Node"
    ]
    names = [item["metadata"]["name"] for item in json.loads(kept.read_text())["items"] if item["kind"] == "Node"]
    assert watts == [{WATTS: text} for text in NODES.values()]
    assert node_of_web(ran) == names[1]


@pytest.mark.parametrize("pattern", ["", "a*b", "a,,b"])
def test_a_pattern_that_is_none_is_refused(cluster: Path, tmp_path: Path, pattern: str) -> None:
    ran = mooring("dump", "-o", tmp_path / "dump.json", "--from", cluster, "--keep-annotations", pattern)
    assert ran.code == 2
    assert "is no annotation key: write a key, or its beginning with a * at the end" in ran.err


def test_a_plugin_that_declares_a_text_instead_of_a_tuple_is_refused(cluster: Path, declared: Path) -> None:
    declared.write_text(declared.read_text().replace(f'("{WATTS}",)', f'"{WATTS}"'))
    ran = simulate(cluster, "--plugin", declared)
    assert ran.code == 2
    assert f"Power: annotations is '{WATTS}': write a tuple of keys, such as annotations = ('{WATTS}',)" in ran.err


# ---- recordings


def test_a_recording_has_the_annotations_that_a_plugin_declares_and_replays_equal(
    cluster: Path, declared: Path, tmp_path: Path
) -> None:
    recording = tmp_path / "recording"
    ran = simulate(cluster, "--plugin", declared, "--record", recording)
    assert node_of_web(ran) == "b"
    assert "annotations" not in ran.err
    ran = mooring("replay", recording, "--plugin", declared)
    assert (ran.code, ran.err) == (0, "")
    assert "all came out equal" in ran.out
    ran = mooring("agree", recording, "--plugin", declared)
    assert (ran.code, ran.err) == (0, "")
    story = mooring("replay", recording, "--plugin", declared, "--pod", "web")
    assert story.code == 0 and "default/web" in story.out


def test_a_recording_without_them_says_so_when_it_is_made_and_when_it_is_replayed(
    cluster: Path, undeclared: Path, tmp_path: Path
) -> None:
    recording = tmp_path / "recording"
    ran = simulate(cluster, "--plugin", undeclared, "--record", recording)
    assert "note: plugin Power reads annotations and declares none: the recording has digests of them" in ran.err
    told = "plugin Power reads annotations of which the recording has digests only (it declares none)"
    assert told in mooring("replay", recording, "--plugin", undeclared).err
    assert told in mooring("agree", recording, "--plugin", undeclared).err
    kept = tmp_path / "kept"
    ran = simulate(cluster, "--plugin", undeclared, "--record", kept, "--keep-annotations", WATTS)
    assert "annotations" not in ran.err
    ran = mooring("replay", kept, "--plugin", undeclared)
    assert (ran.code, ran.err) == (0, "")


def test_a_recording_of_the_embedded_cluster_replays_equal(declared: Path, tmp_path: Path) -> None:
    registry = registry_with((str(declared),))
    config = configuration.load(write_config(tmp_path / "config.yaml", **enabling("Power")).read_bytes(), "config")
    kept = tuple(registry.all_annotation_keys().patterns())
    recording = RecordingSettings(tmp_path / "recording", RecordingLimits(drops=False), "test", kept)
    (tmp_path / "recording").mkdir()
    cluster = VirtualCluster(EmbeddedSettings(config, registry, recording=recording))
    for name, watts in NODES.items():
        cluster.node(name, cpu="4", metadata={"name": name, "annotations": {WATTS: watts, "note": "hunter2"}})
    cluster.pod("web", cpu="1")
    cluster.wait(10)
    assert cluster.place("web") == "b"
    assert cluster.cluster.recorder is not None
    cluster.cluster.recorder.close()
    ran = mooring("replay", tmp_path / "recording", "--plugin", declared)
    assert (ran.code, ran.err) == (0, "")
    assert "all came out equal" in ran.out
