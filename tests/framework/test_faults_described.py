"""What a plugin raised: its type, its text, and the line of the plugin that led to it."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from mooring.framework.contract.status import PluginError, describe
from mooring.framework.profile.registry import RegistryError
from mooring.model.quantity import parse


def caught(act: Callable[[], object]) -> BaseException:
    with pytest.raises(BaseException) as info:
        act()
    return info.value


def fails() -> None:
    _ = dict[str, int]()["size"]


def fails_in_a_library() -> None:
    json.loads("{")


def fails_in_numpy() -> None:
    np.broadcast_shapes((2,), (3,))


def fails_in_mooring() -> None:
    parse("2x")


def line_in(function: Callable[[], object]) -> str:
    return f"({__file__}, line {function.__code__.co_firstlineno + 1})"


def test_the_line_of_the_plugin_is_named() -> None:
    assert describe(caught(fails)) == f"KeyError: 'size' {line_in(fails)}"


@pytest.mark.parametrize("function", [fails_in_a_library, fails_in_numpy, fails_in_mooring])
def test_what_others_raise_is_named_by_the_line_that_called_them(function: Callable[[], None]) -> None:
    assert describe(caught(function)).endswith(line_in(function))


def test_what_a_plugin_says_on_purpose_stands_as_it_is() -> None:
    assert describe(PluginError("claim not found")) == "claim not found"
    assert describe("pod does not exist any more") == "pod does not exist any more"


def test_what_the_framework_says_of_an_answer_stands_as_it_is() -> None:
    assert describe(ValueError("2 codes for 3 nodes")) == "2 codes for 3 nodes"
    assert describe(RegistryError("taken")) == "taken"


def test_an_exception_without_text_has_its_type() -> None:
    assert describe(ValueError()) == "ValueError"
    assert describe(AssertionError()) == "AssertionError"
