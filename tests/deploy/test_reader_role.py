"""deploy/reader.yaml: exactly what a live source lists and what an observer watches, and nothing else."""

from typing import Any

from deploying import DEPLOY, items_of
from mooring.apiclient.reflectors.reflector import watched_with
from mooring.framework.config.feature_gates import GATES
from mooring.inputs.live_source import EVENTS, LISTED

COMPOSITES = ("scheduling.k8s.io", "compositepodgroups")
"""Granted for v1.37's gate CompositePodGroup."""


def role(name: str) -> dict[str, Any]:
    items = items_of((DEPLOY / "reader.yaml").read_text())
    return next(item for item in items if item["metadata"]["name"] == name)


def verbs(role: dict[str, Any]) -> set[str]:
    return {verb for rule in role["rules"] for verb in rule["verbs"]}


def granted(role: dict[str, Any]) -> set[tuple[str, str]]:
    return {(group, name) for rule in role["rules"] for group in rule["apiGroups"] for name in rule["resources"]}


def test_the_role_allows_the_lists_that_a_live_source_makes_and_nothing_else() -> None:
    reader = role("mooring-reader")
    assert verbs(reader) == {"list"}
    assert granted(reader) == {(spec.group, spec.plural) for spec in (*LISTED, EVENTS)} | {COMPOSITES}


def test_the_role_of_an_observer_allows_to_list_and_watch_what_a_scheduler_watches_and_nothing_else() -> None:
    observer = role("mooring-observer")
    assert verbs(observer) == {"list", "watch"}
    watched = watched_with(dict.fromkeys(GATES, True))
    assert granted(observer) == {(each.group, each.plural) for each in watched} | {COMPOSITES}
