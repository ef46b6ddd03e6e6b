"""Settings in snapshots and recordings name the rules by which decisions were made, and those of other rules are usable."""

from typing import Any

import msgspec
import pytest

from mooring.framework import config as configuration
from mooring.framework.config.feature_gates import parse_gates
from mooring.framework.config.settings import read_settings, settings_object
from mooring.inputs.documents import ManifestFile
from mooring.inputs.manifests import read_files
from mooring.model.release import RULES

WRITTEN = settings_object(configuration.default(), {"DRADeviceTaints": False})
OLDER: dict[str, Any] = {key: value for key, value in WRITTEN.items() if key != "rules"}


def test_settings_name_the_rules_of_this_version() -> None:
    assert WRITTEN["rules"] == RULES == "1.37"
    settings = read_settings(WRITTEN, "f")
    assert settings is not None and settings.notes("the snapshot") == []


def test_settings_without_rules_are_of_release_0_2() -> None:
    settings = read_settings(OLDER, "f")
    assert settings is not None and settings.rules == "1.36"
    assert settings.notes("the snapshot") == [
        "the snapshot was made with the rules of Kubernetes 1.36, and this version of Mooring has those of 1.37: decisions "
        "and messages may differ"
    ]


def test_gates_that_are_gone_or_locked_are_dropped_and_said() -> None:
    gates = {"DRADeviceTaints": False, "GoneA": True, "GoneB": False}
    locked = {"DRAExtendedResource": False, "NodeDeclaredFeatures": True}
    settings = read_settings({**OLDER, "featureGates": {**gates, **locked}}, "f")
    assert settings is not None and settings.dropped == ("DRAExtendedResource", "GoneA", "GoneB")
    chosen = parse_gates(settings.gates_text)
    assert (chosen["DRADeviceTaints"], chosen["DRAExtendedResource"]) == (False, True)
    (note,) = settings.notes("the recording")
    assert note.endswith(
        "; without the feature gates DRAExtendedResource, GoneA, GoneB, which 1.37 does not have or has locked"
    )


def test_gates_that_depend_on_one_that_was_off_are_off_too() -> None:
    """DRADeviceTaintRules depends on it and was off by default in 1.36; parse_gates refuses one without the other."""
    settings = read_settings({**OLDER, "featureGates": {"DRADeviceTaints": False}}, "f")
    assert settings is not None and not settings.dropped
    assert settings.gates == {"DRADeviceTaints": False, "DRADeviceTaintRules": False}
    assert parse_gates(settings.gates_text)["DRADeviceTaintRules"] is False


def test_gates_that_never_were_are_a_fault_under_the_same_rules() -> None:
    settings = read_settings({**WRITTEN, "featureGates": {"Nope": True}}, "f")
    assert settings is not None and settings.gates == {"Nope": True} and not settings.dropped


@pytest.mark.parametrize("rules", [7, None, ["1.37"]])
def test_rules_of_another_form_are_not_settings(rules: Any) -> None:
    assert read_settings({**WRITTEN, "rules": rules}, "f") is None


@pytest.mark.parametrize(("written", "count"), [(WRITTEN, 0), (OLDER, 1)], ids=["these rules", "older rules"])
def test_a_snapshot_says_by_which_rules_it_was_made(written: Any, count: int) -> None:
    text = msgspec.json.encode({"kind": "List", "apiVersion": "v1", "items": [written]})
    manifests = read_files([ManifestFile("snapshot.json", text)])
    assert manifests.problems == [] and len(manifests.notes_of_dump()) == count
