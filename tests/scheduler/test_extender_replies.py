"""Replies are read as Go reads them: one JSON value, keys in any case, and a text for all that makes no sense."""

import json

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
