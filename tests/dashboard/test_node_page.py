"""The page of a node."""

import msgspec

from build import a_node, a_pod
from dashboard_stage import StagedSource
from mooring.dashboard.views.page_views import MAX_ENTRIES, node_page


def test_a_node_shows_what_it_has_and_who_is_there() -> None:
    source = StagedSource(
        a_node("n", cpu="8", memory="16Gi", pods=10, labels={"zone": "a"}, taints=["k=v:NoSchedule"]),
        a_pod(
            "low",
            cpu="1300m",
            memory="4Gi",
            nodeName="n",
            status={"phase": "Running", "startTime": "2026-01-31T10:00:00Z"},
        ),
        a_pod("high", cpu="3", nodeName="n", priority=5, metadata={"creationTimestamp": "2026-01-31T09:00:00Z"}),
    )
    assert msgspec.to_builtins(node_page(source.scheduler, "n")) == {
        "name": "n",
        "labels": {"zone": "a"},
        "labelsTotal": 1,
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
        "unschedulable": False,
        "ready": True,
        "resources": [
            {"name": "pods", "allocatable": "10", "requested": "2", "free": "8", "share": 0.2},
            {"name": "cpu", "allocatable": "8", "requested": "4300m", "free": "3700m", "share": 0.5375},
            {"name": "memory", "allocatable": "16Gi", "requested": "4Gi", "free": "12Gi", "share": 0.25},
        ],
        "pods": [
            {
                "namespace": "default",
                "name": "high",
                "priority": 5,
                "requests": {"cpu": "3"},
                "phase": "Pending",
                "since": "2026-01-31T09:00:00.000Z",
            },
            {
                "namespace": "default",
                "name": "low",
                "priority": 0,
                "requests": {"cpu": "1300m", "memory": "4Gi"},
                "phase": "Running",
                "since": "2026-01-31T10:00:00.000Z",
            },
        ],
        "total": 2,
        "price": None,
        "priceUnit": "",
    }


def test_there_is_no_page_without_a_node() -> None:
    """Also if pods name the node: it may be gone, or not be seen yet."""
    source = StagedSource(a_pod("p", nodeName="gone"))
    assert node_page(source.scheduler, "gone") is None
    assert node_page(source.scheduler, "unknown") is None


def test_lists_are_cut_and_counted() -> None:
    pods = [a_pod(f"p{i:04}", nodeName="n") for i in range(MAX_ENTRIES + 3)]
    source = StagedSource(a_node("n", labels={f"{i:05}": "x" for i in range(10_000)}), *pods)
    page = node_page(source.scheduler, "n")
    assert page is not None
    assert (len(page.pods), page.total) == (MAX_ENTRIES, MAX_ENTRIES + 3)
    assert (len(page.labels), page.labels_total) == (MAX_ENTRIES, 10_000)


def test_amounts_that_are_no_quantities_count_as_nothing() -> None:
    source = StagedSource(a_node("n", cpu="lots", memory="1Gi"), a_pod("p", cpu="1", nodeName="n"))
    page = node_page(source.scheduler, "n")
    assert page is not None
    shown = {each.name: (each.allocatable, each.free, each.share) for each in page.resources}
    assert shown["cpu"] == ("0", "0", 1.0)


def test_times_that_are_none_are_left_out() -> None:
    source = StagedSource(
        a_node("n"),
        *(
            a_pod(f"p{i}", nodeName="n", metadata={"creationTimestamp": text})
            for i, text in enumerate(["</script>", "9999-12-31T23:59:59.9999999Z", "2" * 1000])
        ),
    )
    page = node_page(source.scheduler, "n")
    assert page is not None
    assert [each.since for each in page.pods] == ["", "", ""]
