"""Replies are read as Go reads them: one JSON value, keys in any case, and a text for all that makes no sense."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mooring.framework.contract.intents import CallFault
from mooring.scheduler.extender_replies import (
    MAX_TEXT,
    FilterReply,
    MetaVictims,
    Unusable,
    read_bound,
    read_filter,
    read_scores,
    read_victims,
)

GARBAGE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "EOF"),
    "white space": (b" \n", "EOF"),
    "a page": (b"<html>", "invalid character '<' looking for beginning of value"),
    "a quote": (b"'", "invalid character '\\'' looking for beginning of value"),
    "cut short": (b'{"NodeNames": ["n1"', "unexpected EOF"),
    "cut short in a text": (b'{"NodeNames": ["n1', "unexpected EOF"),
    "a text": (b'"n1"', "json: cannot unmarshal string into Go value of type v1.ExtenderFilterResult"),
    "true": (b"true", "json: cannot unmarshal bool into Go value of type v1.ExtenderFilterResult"),
    "an object for names": (
        b'{"NodeNames": {"n1": 1}}',
        "json: cannot unmarshal object into Go struct field ExtenderFilterResult.NodeNames",
    ),
    "a list for reasons": (
        b'{"FailedNodes": ["n1"]}',
        "json: cannot unmarshal array into Go struct field ExtenderFilterResult.FailedNodes",
    ),
    "a number for an error": (
        b'{"Error": 5}',
        "json: cannot unmarshal number 5 into Go struct field ExtenderFilterResult.Error of type string",
    ),
    "a text for nodes": (
        b'{"Nodes": "n1"}',
        "json: cannot unmarshal string into Go struct field ExtenderFilterResult.Nodes",
    ),
    "a number for a name of a node": (
        b'{"Nodes": {"items": [{"metadata": {"name": 1}}]}}',
        "json: cannot unmarshal number 1 into Go struct field ObjectMeta.name of type string",
    ),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage(case: str) -> None:
    body, text = GARBAGE[case]
    with pytest.raises(Unusable) as fault:
        read_filter(body)
    assert str(fault.value) == text


@pytest.mark.parametrize("body", [b"{" * 100_000, b"[" * 100_000, b'{"Error": NaN}', b"1" * 10_000, b"\xff\xfe{}"])
def test_no_bytes_are_more_than_unusable(body: bytes) -> None:
    for read in (read_filter, read_scores, read_victims, read_bound):
        with pytest.raises(Unusable) as fault:
            read(body)
        assert len(str(fault.value)) < 300


def test_what_follows_the_value_is_left_alone() -> None:
    assert read_filter(b'{"NodeNames": ["n1"]} trailing').node_names == ["n1"]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert read_filter(b'{"FailedNodes": {"n1": "a\xffb"}}').failed == {"n1": "a�b"}


def test_half_a_pair_of_surrogates_is_replaced() -> None:
    reason = read_filter(b'{"FailedNodes": {"n1": "a\\ud800b"}}').failed["n1"]
    assert reason == "a�b"
    reason.encode()


def test_the_last_of_several_keys_counts() -> None:
    assert read_filter(b'{"NodeNames": ["n1"], "nodenames": ["n2"]}').node_names == ["n2"]


def test_null_is_the_empty_value() -> None:
    assert read_filter(b"null") == FilterReply()
    everything = b'{"Nodes": null, "NodeNames": null, "FailedNodes": null, "Error": null}'
    assert read_filter(everything) == FilterReply()
    assert read_filter(b'{"NodeNames": [null], "FailedNodes": {"n1": null}}') == FilterReply(None, [""], {"n1": ""})
    assert read_scores(b"null") == []
    assert read_scores(b"[null]") == [("", 0)]
    assert read_victims(b'{"NodeNameToMetaVictims": {"n1": null}}') == {"n1": MetaVictims([])}
    read_bound(b"null")


def test_long_reasons_are_cut() -> None:
    body = json.dumps({"FailedNodes": {"n1": "x" * (MAX_TEXT + 5)}}).encode()
    assert read_filter(body).failed["n1"] == "x" * MAX_TEXT + " ..."


def test_a_fault_speaks_for_itself() -> None:
    with pytest.raises(Unusable, match=r"^nobody there$"):
        read_scores(CallFault("nobody there"))


Reader = Callable[[bytes], Any]


@pytest.mark.parametrize(
    ("read", "body", "told"),
    [
        (read_scores, {}, "object into Go value of type v1.HostPriorityList"),
        (read_scores, [5], "number 5 into Go value of type v1.HostPriority"),
        (read_scores, [{"Host": 1.5}], "number 1.5 into Go struct field HostPriority.Host of type string"),
        (read_scores, [{"Score": "7"}], "string into Go struct field HostPriority.Score of type int64"),
        (read_scores, [{"Score": True}], "bool into Go struct field HostPriority.Score of type int64"),
        (
            read_scores,
            [{"Score": 2**63}],
            "number 9223372036854775808 into Go struct field HostPriority.Score of type int64",
        ),
        (
            read_scores,
            [{"Score": -(2**63) - 1}],
            "number -9223372036854775809 into Go struct field HostPriority.Score of type int64",
        ),
        (read_victims, [], "array into Go value of type v1.ExtenderPreemptionResult"),
        (
            read_victims,
            {"NodeNameToMetaVictims": []},
            "array into Go struct field ExtenderPreemptionResult.NodeNameToMetaVictims",
        ),
        (read_victims, {"NodeNameToMetaVictims": {"n": 1}}, "number 1 into Go value of type v1.MetaVictims"),
        (
            read_victims,
            {"NodeNameToMetaVictims": {"n": {"Pods": {}}}},
            "object into Go struct field MetaVictims.Pods",
        ),
        (
            read_victims,
            {"NodeNameToMetaVictims": {"n": {"Pods": ["u"]}}},
            "string into Go value of type v1.MetaPod",
        ),
        (
            read_victims,
            {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": 3}]}}},
            "number 3 into Go struct field MetaPod.UID of type string",
        ),
        (
            read_victims,
            {"NodeNameToMetaVictims": {"n": {"NumPDBViolations": "1"}}},
            "string into Go struct field MetaVictims.NumPDBViolations of type int64",
        ),
        (read_bound, [], "array into Go value of type v1.ExtenderBindingResult"),
        (read_bound, {"Error": 1}, "number 1 into Go struct field ExtenderBindingResult.Error of type string"),
        (read_filter, {"Nodes": {"items": {}}}, "object into Go struct field NodeList.items"),
        (read_filter, {"Nodes": {"items": ["n"]}}, "string into Go value of type v1.Node"),
        (read_filter, {"Nodes": {"items": [{"metadata": 1}]}}, "number 1 into Go struct field Node.metadata"),
        (
            read_filter,
            {"NodeNames": [1]},
            "number 1 into Go struct field ExtenderFilterResult.NodeNames of type string",
        ),
        (
            read_filter,
            {"FailedNodes": {"n": 1}},
            "number 1 into Go struct field ExtenderFilterResult.FailedNodes of type string",
        ),
        (
            read_filter,
            {"FailedAndUnresolvableNodes": 1},
            "number 1 into Go struct field ExtenderFilterResult.FailedAndUnresolvableNodes",
        ),
    ],
)
def test_a_value_of_another_type_is_named_as_go_names_it(read: Reader, body: Any, told: str) -> None:
    with pytest.raises(Unusable) as fault:
        read(json.dumps(body).encode())
    assert str(fault.value) == f"json: cannot unmarshal {told}"


def test_members_may_be_written_in_any_case() -> None:
    nodes = {"ITEMS": [{"Metadata": {"NAME": "n1"}}, {"metadata": {"Name": "n2"}}, {"metadata": {"name": "n3"}}, {}]}
    body = {"nodes": nodes, "FAILEDNODES": {"A": "x"}, "failedAndUnresolvableNodes": {"B": "y"}}
    assert read_filter(json.dumps(body).encode()) == FilterReply(["n1", "n2", "n3", ""], None, {"A": "x"}, {"B": "y"})
    scores = [{"HOST": "n1", "score": -(2**63)}, {"host": "n2", "SCORE": 2**63 - 1}]
    assert read_scores(json.dumps(scores).encode()) == [("n1", -(2**63)), ("n2", 2**63 - 1)]
    victims = {"nodenametometavictims": {"N": {"PODS": [{"uid": "u"}, None], "numPDBviolations": 2}}}
    assert read_victims(json.dumps(victims).encode()) == {"N": MetaVictims(["u", ""], 2)}


def test_a_long_number_is_cut_in_a_message() -> None:
    with pytest.raises(Unusable) as fault:
        read_scores(json.dumps([{"Score": 10**100}]).encode())
    shown = f"number 1{'0' * 72}"
    assert len(shown) == 80
    assert str(fault.value) == f"json: cannot unmarshal {shown} into Go struct field HostPriority.Score of type int64"
