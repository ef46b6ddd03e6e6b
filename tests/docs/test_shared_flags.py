"""Flags mean the same in all commands: a flag of a new command has the value and the meaning that users know from others."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))

from reference_commands import shared_flags

DIFFERENT_VALUES = {
    "-o, --output": "a form of the answer; `dump` and `snapshot` write a file",
    "--until": "a duration of a simulation; a moment of a recording",
    "--pod": "a pod of a recording",
}
"""Flags whose values are of two kinds, and why."""
MORE_THAN_ONE_MEANING = {
    "--apply": 2,
    "--arrivals": 3,
    "--config": 3,
    "--context": 3,
    "--dashboard-port": 2,
    "--exec": 2,
    "--exit-code": 2,
    "--generate": 2,
    "--kubeconfig": 6,
    "--port": 2,
    "--prices": 2,
    "--results": 2,
    "--serve": 2,
    "--validate": 2,
    **dict.fromkeys(DIFFERENT_VALUES, 3),
    "--pod": 2,
}
"""How many texts a flag has whose meaning depends on the command. The numbers may go down."""


def test_a_flag_takes_the_same_kind_of_value_in_all_commands() -> None:
    values = {name: {value for value, _ in forms} for name, forms in shared_flags().items()}
    assert {name for name, found in values.items() if len(found) > 1} == DIFFERENT_VALUES.keys()
    assert {values[name] == {"FILE"} for name in ("--from", "--config", "--html", "--kubeconfig")} == {True}
    assert values["--context"] == {"NAME"}


def test_a_flag_has_one_meaning_unless_the_list_names_it() -> None:
    flags = shared_flags()
    several = {name: len({text for _, text in forms}) for name, forms in flags.items()}
    assert {name: number for name, number in several.items() if number > 1} == MORE_THAN_ONE_MEANING
    assert several["--from"] == several["--html"] == several["--feature-gates"] == 1


def test_every_meaning_of_a_shared_flag_begins_with_the_same_subject() -> None:
    """The words that each text of the flag has."""
    words = {"--config": "KubeSchedulerConfiguration (v1)", "--context": "context of the kubeconfig"}
    flags = shared_flags()
    assert {name for name, part in words.items() for _, text in flags[name] if part not in text} == set()


def test_the_namespace_flags_are_those_of_kubectl() -> None:
    from reference_commands import walk

    short = {
        opt: option.opts[-1]
        for _, command, _ in walk()
        for option in command.params
        for opt in option.opts
        if len(opt) == 2
    }
    assert (short["-n"], short["-A"]) == ("--namespace", "--all-namespaces")
