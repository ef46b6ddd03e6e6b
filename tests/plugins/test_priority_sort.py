"""PrioritySort: priority first, then who came first."""

from alone import build
from build import a_pod
from mooring.plugins.queue_and_bind import PrioritySort

ARRIVALS = {
    "late and urgent": (a_pod(priority=10), 5.0),
    "early": (a_pod(priority=0), 1.0),
    "late": (a_pod(priority=0), 3.0),
    "in between, without priority": (a_pod(), 2.0),
    "negative": (a_pod(priority=-1), 0.0),
}


def test_the_order_of_the_queue() -> None:
    plugin = build(PrioritySort)
    order = sorted(ARRIVALS, key=lambda name: plugin.sort_key(*ARRIVALS[name]))
    assert order == ["late and urgent", "early", "in between, without priority", "late", "negative"]


def test_pods_that_came_together_are_equal() -> None:
    plugin = build(PrioritySort)
    assert plugin.sort_key(a_pod("a"), 1.0) == plugin.sort_key(a_pod("b", priority=0), 1.0)
