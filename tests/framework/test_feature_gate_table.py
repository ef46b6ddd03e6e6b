"""The table of feature gates, and what may be chosen of it."""

from typing import Any

import pytest

from mooring.framework.config.feature_gates import (
    DEFAULTS,
    EFFECTIVE,
    GATES,
    NEEDS,
    OF_EMBEDDED,
    OF_SCHEDULERS,
    Gate,
    GateError,
    Stage,
    gates_with,
    parse_gates,
    told_gates,
)


def test_all_gates_of_kube_scheduler_are_known() -> None:
    """251 gates and the two for stages; 163 of them are alpha or beta, as its help lists them besides those two."""
    assert len(GATES) == 251
    assert sum(gate.stage in (Stage.ALPHA, Stage.BETA) for gate in GATES.values()) == 163


def test_no_gate_is_listed_twice_or_missing_elsewhere() -> None:
    assert EFFECTIVE <= OF_SCHEDULERS <= GATES.keys()
    assert GATES.keys() - OF_SCHEDULERS >= OF_EMBEDDED
    assert {*NEEDS, *(other for needed in NEEDS.values() for other in needed)} <= GATES.keys()


@pytest.mark.parametrize(
    ("name", "gate"),
    [
        ("NodeDeclaredFeatures", Gate(Stage.GA, True, True)),
        ("DynamicResourceAllocation", Gate(Stage.GA, True, True)),
        ("DRAPrioritizedList", Gate(Stage.GA, True, True)),
        ("DRADeviceTaintRules", Gate(Stage.GA, True, False)),
        ("GenericWorkload", Gate(Stage.BETA, False, False)),
        ("StorageCapacityScoring", Gate(Stage.BETA, True, False)),
        ("VolumeLimitScaling", Gate(Stage.BETA, True, False)),
        ("SchedulerPreQueueingHints", Gate(Stage.ALPHA, False, False)),
        ("DRAFractionalCapacityRange", Gate(Stage.BETA, False, False)),
        ("OpportunisticBatching", Gate(Stage.BETA, True, False)),
        ("TopologyAwareWorkloadScheduling", Gate(Stage.ALPHA, False, False)),
        ("GitRepoVolumeDriver", Gate(Stage.DEPRECATED, False, True)),
        ("SeparateCacheWatchRPC", Gate(Stage.DEPRECATED, False, True)),
    ],
)
def test_some_gates_as_upstream_has_them(name: str, gate: Gate) -> None:
    assert GATES[name] == gate


def test_the_defaults_fulfil_all_needs() -> None:
    assert parse_gates("") == DEFAULTS


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Nope=true", "unrecognized feature gate: Nope"),
        ("GenericWorkload", "missing bool value for GenericWorkload"),
        (
            "GenericWorkload=maybe",
            'invalid value of GenericWorkload=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (
            "PodGroupPreemptionPolicy=true",
            "PodGroupPreemptionPolicy is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        (
            "DRADeviceTaints=false",
            "DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]",
        ),
        ("foo:Bar=true", "component not registered: foo"),
        (
            "GenericWorkload=true,kube:TopologyAwareWorkloadScheduling=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
        (
            "DynamicResourceAllocation=false",
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
        (
            "NodeDeclaredFeatures=false,Nope=true",
            "[cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true, "
            "unrecognized feature gate: Nope]",
        ),
    ],
)
def test_what_cannot_be_chosen_is_told_in_upstreams_words(text: str, fault: str) -> None:
    with pytest.raises(GateError) as told:
        parse_gates(text)
    assert str(told.value) == fault


def test_choices_by_name_are_checked_like_a_text() -> None:
    assert gates_with({"GenericWorkload": True}) == parse_gates("GenericWorkload=true")
    with pytest.raises(GateError, match="^unrecognized feature gate: Nope$"):
        gates_with({"Nope": True})
    not_a_bool: Any = "false"
    with pytest.raises(GateError, match="^invalid value of GenericWorkload='false': must be True or False$"):
        gates_with({"GenericWorkload": not_a_bool})


def test_a_gate_may_be_set_to_what_it_is_locked_to() -> None:
    assert parse_gates("kube:DynamicResourceAllocation = true") == DEFAULTS


def test_a_stage_stands_for_its_gates_but_for_those_that_are_named() -> None:
    gates = parse_gates("WorkloadWithJob=false,AllAlpha=true,GenericWorkload=true")
    assert all(gates[name] for name, gate in GATES.items() if gate.stage is Stage.ALPHA and name != "WorkloadWithJob")
    assert not gates["WorkloadWithJob"]
    gates = parse_gates("AllBeta=false")
    assert not any(gates[name] for name, gate in GATES.items() if gate.stage is Stage.BETA)
    assert gates.keys() == GATES.keys()


def test_v137_2_1_all_alpha_needs_the_beta_gate_of_groups() -> None:
    """GenericWorkload is beta and off, and alpha gates depend on it: AllAlpha alone is refused, as upstream refuses it."""
    with pytest.raises(GateError, match="CompositePodGroup is enabled, but depends on .*: .GenericWorkload"):
        parse_gates("AllAlpha=true")


@pytest.mark.parametrize(
    "name",
    ["GangScheduling", "WorkloadAwarePreemption", "SchedulerQueueingHints", "SidecarContainers", "APIServerTracing"],
)
def test_v137_2_a_gate_that_v1_37_removed_is_not_known(name: str) -> None:
    with pytest.raises(GateError, match=f"^unrecognized feature gate: {name}$"):
        parse_gates(f"{name}=true")


@pytest.mark.parametrize("name", ["NodeDeclaredFeatures", "DRAExtendedResource", "DRAResourceClaimDeviceStatus"])
def test_v137_2_a_gate_that_v1_37_locked_stays_on(name: str) -> None:
    with pytest.raises(GateError, match=f"cannot set feature gate {name} to false, feature is locked to true"):
        parse_gates(f"{name}=false")


def test_v137_2_needs_are_named_in_the_order_of_their_names() -> None:
    """Upstream sorts what a gate depends on."""
    assert NEEDS["CompositePodGroup"] == ("GenericWorkload", "TopologyAwareWorkloadScheduling")
    assert all(list(needed) == sorted(needed) for needed in NEEDS.values())


def test_stages_do_not_fulfil_needs_by_themselves() -> None:
    with pytest.raises(GateError, match="DRADeviceCompatibilityGroups is enabled, but depends on features that are "):
        parse_gates("AllAlpha=true,AllBeta=false")


def test_gates_that_are_not_as_usual_are_told_by_their_effect() -> None:
    text = "GenericWorkload=true,ClientsPreferCBOR=true,PodsAPI=false,DRADeviceTaints=true"
    text += ",MutablePVNodeAffinity=true"
    assert dict(told_gates(parse_gates(text))) == {
        "Feature gates are in effect": ["GenericWorkload=true"],
        "Feature gates have no effect in Mooring yet": ["ClientsPreferCBOR=true"],
        "Feature gates have an effect in the embedded cluster only": ["MutablePVNodeAffinity=true"],
        "Feature gates have no effect in a scheduler": ["PodsAPI=false"],
    }
    assert not dict(told_gates(DEFAULTS))
