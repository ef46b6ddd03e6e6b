"""`mooring dump`: what it writes and where, and what it refuses."""

import gzip
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from command import mooring, write, write_config

from build import a_node, a_pod
from mooring.inputs.dumps import device_groups


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path / "cluster.json", a_node("n"), a_pod("web", cpu="1"), a_pod("db", nodeName="n"))


def items(path: Path) -> list[dict[str, Any]]:
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    found: list[dict[str, Any]] = json.loads(text)["items"]
    return found


def test_a_dump_is_a_list_of_objects_that_only_the_owner_may_read(cluster: Path, tmp_path: Path) -> None:
    target = tmp_path / "dump.json"
    ran = mooring("dump", "-o", target, "--from", cluster)
    assert (ran.code, ran.out, ran.err) == (0, "", f"{target}: 1 node, 2 pods (1 pending), 1 other object\n")
    assert [item["kind"] for item in items(target)] == ["ClusterDump", "Namespace", "Node", "Pod", "Pod"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cluster.json", "dump.json"]


def test_a_name_that_ends_in_gz_is_compressed(cluster: Path, tmp_path: Path) -> None:
    assert mooring("dump", "-o", tmp_path / "dump.json.gz", "--from", cluster).code == 0
    assert len(items(tmp_path / "dump.json.gz")) == 5


def test_the_dump_may_go_to_standard_output(cluster: Path) -> None:
    ran = mooring("dump", "-o", "-", "--from", cluster)
    assert ran.err == "standard output: 1 node, 2 pods (1 pending), 1 other object\n"
    assert len(json.loads(ran.out)["items"]) == 5


def test_a_file_that_exists_is_only_replaced_with_force(cluster: Path, tmp_path: Path) -> None:
    target = tmp_path / "dump.json"
    target.write_text("mine")
    ran = mooring("dump", "-o", target, "--from", cluster)
    assert (ran.code, ran.err) == (
        2,
        f"{target}: the file exists; choose another name, or replace it with --force\n",
    )
    assert target.read_text() == "mine"
    assert mooring("dump", "-o", target, "--from", cluster, "--force").code == 0
    assert len(items(target)) == 5


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    ran = mooring("dump", "-o", tmp_path, "--from", "nothing.json")
    assert (ran.code, ran.err) == (2, f"{tmp_path}: is a folder; name a file\n")
    target = tmp_path / "none" / "dump.json"
    ran = mooring("dump", "-o", target, "--from", "nothing.json")
    assert (ran.code, ran.err) == (2, f"{target}: cannot be written: there is no folder {target.parent}\n")


def test_the_configuration_becomes_part_of_the_dump(cluster: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config.yaml", profiles=[{"schedulerName": "mine"}])
    target = tmp_path / "dump.json"
    gates = ("--feature-gates", "GenericWorkload=true")
    assert mooring("dump", "-o", target, "--from", cluster, "--config", config, *gates).code == 0
    (settings,) = (item for item in items(target) if item["kind"] == "SchedulerSettings")
    assert settings["configuration"]["profiles"][0]["schedulerName"] == "mine"
    assert settings["featureGates"] == {"GenericWorkload": True}
    again = tmp_path / "again.json"
    assert mooring("dump", "-o", again, "--from", target).code == 0
    assert settings in items(again)


def test_a_configuration_that_is_wrong_is_refused(cluster: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path / "config.yaml", parallelism=-1)
    ran = mooring("dump", "-o", tmp_path / "dump.json", "--from", cluster, "--config", config)
    assert (ran.code, ran.out) == (2, "")
    assert not (tmp_path / "dump.json").exists()


# ---- --anonymize


def test_an_anonymous_dump_has_no_name_of_the_cluster(cluster: Path, tmp_path: Path) -> None:
    write(cluster, a_node("acme-1", labels={"acme/team": "shop"}), a_pod("cart", namespace="acme-shop", cpu="1"))
    ran = mooring("dump", "-o", "-", "--from", cluster, "--anonymize")
    assert ran.code == 0
    assert not any(name in ran.out for name in ("acme", "shop", "cart"))
    kinds = [item["kind"] for item in json.loads(ran.out)["items"]]
    assert kinds == ["ClusterDump", "Namespace", "Node", "Pod"]
    assert json.loads(ran.out)["items"][0]["isAnonymous"] is True


def test_the_names_can_be_written_for_oneself(cluster: Path, tmp_path: Path) -> None:
    target, names = tmp_path / "dump.json", tmp_path / "names.json"
    assert mooring("dump", "-o", target, "--from", cluster, "--anonymize", "--names", names).code == 0
    assert stat.S_IMODE(names.stat().st_mode) == 0o600
    new = json.loads(names.read_text())
    assert {item["metadata"]["name"] for item in items(target) if item["kind"] == "Pod"} == {new["web"], new["db"]}


def test_names_are_only_written_with_anonymize_and_never_over_a_file(cluster: Path, tmp_path: Path) -> None:
    target, names = tmp_path / "dump.json", tmp_path / "names.json"
    ran = mooring("dump", "-o", target, "--from", cluster, "--names", names)
    assert (ran.code, ran.err) == (2, "--names needs --anonymize: without it there are no new names\n")
    names.write_text("mine")
    ran = mooring("dump", "-o", target, "--from", cluster, "--anonymize", "--names", names)
    assert (ran.code, ran.err) == (2, f"{names}: the file exists; choose another name, or replace it with --force\n")


def test_the_configuration_of_an_anonymous_dump_is_anonymous_too(cluster: Path, tmp_path: Path) -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "acme/team", "operator": "Exists"}]}]}
    affinity = {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    spread = {"topologyKey": "acme/rack", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    fit = {"ignoredResources": ["acme.com/fpga"], "ignoredResourceGroups": ["acme.com"]}
    config = write_config(
        tmp_path / "config.yaml",
        profiles=[
            {
                "schedulerName": "acme-scheduler",
                "pluginConfig": [
                    {"name": "NodeAffinity", "args": affinity},
                    {"name": "PodTopologySpread", "args": {"defaultConstraints": [spread], "defaultingType": "List"}},
                    {"name": "NodeResourcesFit", "args": fit},
                ],
            }
        ],
        extenders=[{"urlPrefix": "http://acme.example", "filterVerb": "filter"}],
        leaderElection={"resourceName": "acme-lease"},
    )
    node = a_node("n", allocatable={"acme.com/fpga": "1"}, labels={"acme/team": "a"})
    write(cluster, node, a_pod("web", cpu="1", schedulerName="acme-scheduler"))
    target = tmp_path / "dump.json"
    ran = mooring("dump", "-o", target, "--from", cluster, "--config", config, "--anonymize")
    assert ran.complaints[0] == "note: the extenders of the configuration are left out"
    assert "acme" not in target.read_text()
    (settings,) = (item for item in items(target) if item["kind"] == "SchedulerSettings")
    (pod,) = (item for item in items(target) if item["kind"] == "Pod")
    (node_item,) = (item for item in items(target) if item["kind"] == "Node")
    (profile,) = settings["configuration"]["profiles"]
    assert profile["schedulerName"] == pod["spec"]["schedulerName"]
    args = {entry["name"]: entry["args"] for entry in profile["pluginConfig"]}
    (resource,) = args["NodeResourcesFit"]["ignoredResources"]
    assert resource in node_item["status"]["allocatable"]
    assert args["NodeResourcesFit"]["ignoredResourceGroups"] == [resource.partition("/")[0]]
    ran = mooring("simulate", target, "-o", "json")
    (placed,) = json.loads(ran.out)["pods"]
    assert placed["node"] == node_item["metadata"]["name"]


def test_device_selectors_that_cannot_be_replaced_are_refused(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_groups, "MAX_EVALUATIONS", -1)
    ran = mooring("dump", "-o", tmp_path / "dump.json", "--from", cluster, "--anonymize")
    assert (ran.code, ran.err) == (
        2,
        "--anonymize: there are too many device selectors and devices to replace the selectors\n",
    )
