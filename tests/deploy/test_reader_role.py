"""deploy/reader.yaml: exactly what a live source lists, and nothing else."""

from deploying import DEPLOY, items_of
from mooring.answers.live_kinds import EVENTS, LISTED


def test_the_role_allows_the_lists_that_a_live_source_makes_and_nothing_else() -> None:
    (role,) = items_of((DEPLOY / "reader.yaml").read_text())
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list"}
    granted = {(group, name) for rule in role["rules"] for group in rule["apiGroups"] for name in rule["resources"]}
    assert granted == {(spec.group, spec.plural) for spec in (*LISTED, EVENTS)}
