"""What SIGUSR2 logs: the comparison of the cache with the watches, nodes with their pods, and the queue."""

import io
import json
import logging
from typing import Any

from build import a_node, a_pod
from mooring.framework import config
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.kit.logs import start_logs
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved
from mooring.scheduler.scheduler import Scheduler
from mooring.serve.cache_debugger import compare, dump, snapshot, waiting_record
from mooring.state.scheduler_assembly import build_scheduler


class Lines:
    """A log, and its lines with their keys."""

    def __init__(self, verbosity: int = 0) -> None:
        self._stream = io.StringIO()
        self.log = start_logs(logging.Logger("cache"), "json", verbosity, self._stream, 1).log

    @property
    def all(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._stream.getvalue().splitlines()]
        return [{key: line[key] for key in line if key not in ("ts", "caller", "v")} for line in lines]


def our_pod(name: str, **more: Any) -> Pod:
    return a_pod(name, metadata={"uid": f"uid-{name}"}, schedulerName="default-scheduler", **more)


def a_scheduler(*items: KubeObject) -> Scheduler:
    scheduler = build_scheduler(config.default(), VirtualClock(1_800_000_000 * NS_PER_S))
    for item in items:
        scheduler.handle(ObjectAdded(item))
    return scheduler


NODE = a_node("n1", cpu="4", memory="1Gi", pods=10)
RUNNING, PENDING = our_pod("running", cpu="1", nodeName="n1"), our_pod("pending", cpu="1")
FOREIGN = a_pod("foreign", metadata={"uid": "uid-foreign"}, schedulerName="another")


def by_key(*items: KubeObject) -> dict[str, KubeObject]:
    return {item.key: item for item in items}


def test_a_cache_that_agrees_with_the_watches() -> None:
    lines = Lines(3)
    scheduler = a_scheduler(NODE, RUNNING, PENDING)
    assert compare(scheduler, by_key(NODE), by_key(RUNNING, PENDING, FOREIGN), lines.log) is True
    assert lines.all == [{"msg": "Cache comparer started"}, {"msg": "Cache comparer finished"}]
    quiet = Lines(2)
    compare(scheduler, by_key(NODE), by_key(RUNNING, PENDING), quiet.log)
    assert quiet.all == []


def test_differences_between_cache_and_watches() -> None:
    lines = Lines()
    scheduler = a_scheduler(NODE, RUNNING)
    foreign_but_placed = a_pod("x", metadata={"uid": "uid-x"}, schedulerName="another", nodeName="n1")
    pods = by_key(PENDING, FOREIGN, foreign_but_placed)
    assert compare(scheduler, by_key(a_node("n2"), a_node("n3")), pods, lines.log) is False
    assert lines.all == [
        {"msg": "Cache mismatch", "missedNodes": ["n2", "n3"], "redundantNodes": ["n1"]},
        {"msg": "Cache mismatch", "missedPods": ["uid-pending", "uid-x"], "redundantPods": ["uid-running"]},
    ]


def test_one_side_alone_is_a_difference() -> None:
    for nodes, pods in ((by_key(NODE, a_node("n2")), by_key(RUNNING)), (by_key(NODE), {})):
        lines = Lines()
        assert compare(a_scheduler(NODE, RUNNING), nodes, pods, lines.log) is False
        assert len(lines.all) == 1


def _line(name: str) -> str:
    return f"name: {name}, namespace: default, uid: uid-{name}, phase: , nominated node: "


def test_nodes_and_queue_are_dumped() -> None:
    lines = Lines()
    gated = our_pod("gated", schedulingGates=[{"name": "wait"}])
    scheduler = a_scheduler(NODE, RUNNING, a_node("gone"), our_pod("left", nodeName="gone"), a_node("away"))
    scheduler.handle(ObjectRemoved(a_node("gone")))
    scheduler.handle(ObjectRemoved(a_node("away")))
    scheduler.handle(ObjectAdded(PENDING))
    scheduler.handle(ObjectAdded(gated))
    nominated = our_pod("nominated", status={"nominatedNodeName": "n1", "phase": "Pending"})
    scheduler.handle(ObjectAdded(nominated))
    dump(scheduler, lines.log)
    nodes, queue = lines.all
    shown = "name: nominated, namespace: default, uid: uid-nominated, phase: Pending, nominated node: n1"
    assert nodes["msg"] == "Dump of cached NodeInfo"
    blocks = nodes["nodes"].split("\n\n")
    assert blocks[0].split("\n") == [
        "Node name: n1",
        "Deleted: false",
        "Requested Resources: {'cpu': 1000}",
        "Allocatable Resources: {'cpu': 4000, 'memory': 1073741824}",
        "Scheduled Pods(number: 1):",
        _line("running"),
        "Nominated Pods(number: 1):",
        shown,
    ]
    assert blocks[1].split("\n")[:2] == ["Node name: gone", "Deleted: true"]
    assert blocks[1].rstrip("\n").split("\n")[-2:] == ["Scheduled Pods(number: 1):", _line("left")]
    assert len(blocks) == 2 or not "".join(blocks[2:]), "a node that is gone with its pods is not shown"
    assert queue["msg"] == "Dump of scheduling queue"
    assert queue["summary"] == "activeQ:2; backoffQ:0; unschedulableEntities:1"
    assert sorted(queue["pods"].split("\n")) == sorted([_line("pending"), _line("gated"), shown])


def test_v137_5_1_with_groups_their_pods_are_counted_too() -> None:
    lines, gates = Lines(), {"GenericWorkload": True}
    settings = config.default(feature_gates=gates)
    dump(build_scheduler(settings, VirtualClock(), gates=gates), lines.log)
    summary = "activeQ:0; backoffQ:0; unschedulableEntities:0; pendingPodGroupMemberPods:0; incompletePodGroupPods:0"
    assert lines.all[1]["summary"] == summary


# ---- the snapshot


def test_a_snapshot_is_a_list_with_settings_queue_and_each_pod_once() -> None:
    scheduler = a_scheduler(NODE, RUNNING, PENDING)
    found = snapshot(scheduler, config.default())
    assert {key: found[key] for key in found if key != "items"} == {"kind": "List", "apiVersion": "v1", "metadata": {}}
    kinds = [(item["kind"], item.get("metadata", {}).get("name")) for item in found["items"]]
    assert kinds[2:] == [("Node", "n1"), ("Pod", "running"), ("Pod", "pending")]
    assert kinds[0][0] == "SchedulerSettings"
    queue = found["items"][1]
    (waiting,) = queue["pods"]
    assert (waiting["pod"], waiting["place"]) == ("default/pending", "active")
    assert queue["takenAt"] == "2027-01-15T08:00:00Z"


def test_what_waits_is_recorded_with_its_place_and_the_end_of_its_backoff() -> None:
    scheduler = a_scheduler(a_node("n1", cpu="500m"), PENDING)
    scheduler.attempt()
    found = waiting_record(scheduler, PENDING)
    assert found is not None and (found.place, found.attempts, found.backoff_until) == ("unschedulable", 1, "")
    scheduler.handle(ObjectAdded(a_node("n2", cpu="4")))
    found = waiting_record(scheduler, PENDING)
    assert found is not None and (found.place, found.backoff_until) == ("backoff", "2027-01-15T08:00:02Z"), (
        "a second, and the rest of the next"
    )
    assert waiting_record(scheduler, RUNNING) is None
