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
    """239 gates and the two for stages; 147 of them are alpha or beta, as its help lists them besides those two."""
    assert len(GATES) == 239
    assert sum(gate.stage in (Stage.ALPHA, Stage.BETA) for gate in GATES.values()) == 147


def test_no_gate_is_listed_twice_or_missing_elsewhere() -> None:
    assert EFFECTIVE <= OF_SCHEDULERS <= GATES.keys()
    assert GATES.keys() - OF_SCHEDULERS >= OF_EMBEDDED
    assert {*NEEDS, *(other for needed in NEEDS.values() for other in needed)} <= GATES.keys()


@pytest.mark.parametrize(
    ("name", "gate"),
    [
        ("SchedulerQueueingHints", Gate(Stage.GA, True, True)),
        ("DynamicResourceAllocation", Gate(Stage.GA, True, True)),
        ("DRAPrioritizedList", Gate(Stage.GA, True, False)),
        ("DRADeviceTaintRules", Gate(Stage.BETA, False, False)),
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
        ("GangScheduling", "missing bool value for GangScheduling"),
        (
            "GangScheduling=maybe",
            'invalid value of GangScheduling=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        (
            "GangScheduling=true",
            "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
        (
            "DRADeviceTaints=false,DRADeviceTaintRules=true",
            "DRADeviceTaintRules is enabled, but depends on features that are disabled: [DRADeviceTaints]",
        ),
        ("foo:Bar=true", "component not registered: foo"),
        (
            "GenericWorkload=true,kube:GangScheduling=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
        (
            "DynamicResourceAllocation=false",
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
        ),
        (
            "SchedulerQueueingHints=false,Nope=true",
            "[cannot set feature gate SchedulerQueueingHints to false, feature is locked to true, "
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
    gates = parse_gates("WorkloadWithJob=false,AllAlpha=true")
    assert all(gates[name] for name, gate in GATES.items() if gate.stage is Stage.ALPHA and name != "WorkloadWithJob")
    assert not gates["WorkloadWithJob"]
    gates = parse_gates("AllBeta=false")
    assert not any(gates[name] for name, gate in GATES.items() if gate.stage is Stage.BETA)
    assert gates.keys() == GATES.keys()


def test_stages_do_not_fulfil_needs_by_themselves() -> None:
    with pytest.raises(
        GateError, match="UserNamespacesHostNetworkSupport is enabled, but depends on features that are "
    ):
        parse_gates("AllAlpha=true,AllBeta=false")


def test_gates_that_are_not_as_usual_are_told_by_their_effect() -> None:
    text = "GenericWorkload=true,ClientsPreferCBOR=true,SELinuxMount=true,DRADeviceTaints=true"
    text += ",MutablePVNodeAffinity=true"
    assert dict(told_gates(parse_gates(text))) == {
        "Feature gates are in effect": ["GenericWorkload=true"],
        "Feature gates have no effect in Mooring yet": ["ClientsPreferCBOR=true"],
        "Feature gates have an effect in the embedded cluster only": ["MutablePVNodeAffinity=true"],
        "Feature gates have no effect in a scheduler": ["SELinuxMount=true"],
    }
    assert not dict(told_gates(DEFAULTS))
