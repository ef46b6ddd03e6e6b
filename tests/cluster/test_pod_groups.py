"""Pod groups: who is in which, and how far each member has come."""

import msgspec

from build import a_pod
from gangs import a_member
from mooring.cluster.pods.pod_groups import PodGroupMembers, PodGroups
from mooring.model.pod import Pod


def on(pod: Pod, node_name: str = "n1") -> Pod:
    return Pod(metadata=pod.metadata, spec=msgspec.structs.replace(pod.spec, node_name=node_name), status=pod.status)


def counts(groups: PodGroups, pod: Pod) -> tuple[int, int, int] | None:
    """Unscheduled, assumed and assigned members of the pod's group."""
    group = groups.of(pod)
    return None if group is None else (len(group.unscheduled), len(group.assumed), len(group.assigned))


A, B = a_member("a"), a_member("b")


def test_a_member_goes_from_unscheduled_to_assumed_to_assigned() -> None:
    groups = PodGroups()
    groups.add(A)
    assert counts(groups, A) == (1, 0, 0)
    groups.assume(on(A))
    assert counts(groups, A) == (0, 1, 0)
    groups.add(A)  # its status changed meanwhile
    assert counts(groups, A) == (0, 1, 0)
    groups.add(on(A))
    assert counts(groups, A) == (0, 0, 1)


def test_a_member_that_is_forgotten_is_unscheduled_again() -> None:
    groups = PodGroups()
    groups.add(A)
    groups.assume(on(A))
    groups.forget(on(A))
    assert counts(groups, A) == (1, 0, 0)


def test_a_member_that_was_removed_does_not_come_back() -> None:
    groups = PodGroups()
    groups.add(A)
    groups.add(B)
    groups.assume(on(A))
    groups.remove(A)
    groups.forget(on(A))
    assert counts(groups, B) == (1, 0, 0)


def test_a_group_without_members_is_gone() -> None:
    groups = PodGroups()
    groups.add(on(A))
    groups.remove(on(A))
    assert groups.of(A) is None


def test_groups_of_one_name_in_two_namespaces_are_two() -> None:
    groups = PodGroups()
    groups.add(A)
    groups.add(a_member("a", namespace="elsewhere"))
    assert counts(groups, A) == (1, 0, 0)


def test_pods_without_a_group_are_nobodys_members() -> None:
    groups = PodGroups()
    for pod in (a_pod(), a_member("a", "")):
        groups.add(pod)
        groups.assume(pod)
        groups.forget(pod)
        groups.remove(pod)
        assert groups.of(pod) is None


def test_what_contradicts_the_cache_is_told() -> None:
    groups = PodGroups()
    groups.add(A)
    groups.add(B)
    groups.assume(on(B))
    groups.add(on(a_member("c")))
    assert groups.check({"uid-b", "uid-c"}, {"uid-b"}) == []
    assert groups.check({"uid-a"}, set()) == [
        "default/a is on a node, but unscheduled in default/gang",
        "default/b is assumed in default/gang only",
        "default/c is assigned in default/gang only",
    ]
    assert PodGroupMembers().member_count == 0
