"""A real HTTP extender on this machine, with `mooring up --config` and with `mooring run` against another process."""

import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from forked_commands import run_mooring, start_mooring
from running_cluster import PATIENCE_S, Client, Process, a_process

pytestmark = pytest.mark.slow

JsonObject = dict[str, Any]
POD_PATH = "/api/v1/namespaces/default/pods"


@dataclass(slots=True)
class Extender:
    """Answers what it is told to by verb: data, or a function of the request."""

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, JsonObject]] = field(default_factory=list)

    def reply(self, verb: str, sent: JsonObject) -> Any:
        self.asked.append((verb, sent))
        answer = self.answers[verb]
        return answer(sent) if callable(answer) else answer

    def sent(self, verb: str) -> list[JsonObject]:
        return [body for asked, body in self.asked if asked == verb]


@contextmanager
def an_extender() -> Iterator[Extender]:
    extender = Extender()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps(extender.reply(self.path.rpartition("/")[2], sent)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    extender.url = f"http://127.0.0.1:{server.server_address[1]}/sched"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield extender
    finally:
        server.shutdown()
        server.server_close()


Start = Callable[[JsonObject], Any]


@contextmanager
def up(config: JsonObject) -> Iterator[Process]:
    """The scheduler in the process of the cluster."""
    with tempfile.TemporaryDirectory(prefix="mooring-test-") as scratch:
        file = Path(scratch) / "config.yaml"
        file.write_text(yaml.safe_dump(config))
        with a_process("--nodes", "3", "--config", str(file)) as cluster:
            yield cluster


@contextmanager
def run(config: JsonObject) -> Iterator[Process]:
    """The scheduler in a process of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="mooring-test-") as scratch,
        a_process("--nodes", "3", "--no-scheduler") as cluster,
    ):
        file, log = Path(scratch) / "config.yaml", Path(scratch) / "log"
        file.write_text(yaml.safe_dump(config))
        flags = ("--leader-elect=false", "--secure-port=0", "--kubeconfig", str(cluster.kubeconfig))
        with log.open("w") as stderr:
            popen = start_mooring("run", "--config", file, *flags, stdout=stderr, stderr=stderr)
        try:
            yield cluster
        except BaseException:
            print(f"--- what the scheduler logged\n{log.read_text()}---")
            raise
        finally:
            popen.terminate()
            popen.wait(PATIENCE_S)


NAMES = ["mooring up", "mooring run"]
both = pytest.mark.parametrize("start", [up, run], ids=NAMES)
"""For tests of what the two do in ways of their own. `make soak` runs all of them with both."""


@pytest.fixture(params=[up, pytest.param(run, marks=pytest.mark.soak)], ids=NAMES)
def start(request: pytest.FixtureRequest) -> Start:
    chosen: Start = request.param
    return chosen


def a_config(extender: Extender, **settings: Any) -> JsonObject:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": f"{extender.url}//", "weight": 5, **settings}],
    }


def create(cluster: Client, name: str, **spec: Any) -> None:
    container = {"name": "main", "image": "x", "env": [{"name": "A", "value": "1"}]}
    body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
    assert cluster.ask("POST", POD_PATH, body).code == 201


def condition(pod: JsonObject) -> JsonObject:
    found: JsonObject = next((c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"), {})
    return found


def is_placed(pod: JsonObject) -> bool:
    return "nodeName" in pod["spec"]


def is_refused(pod: JsonObject) -> bool:
    return condition(pod).get("status") == "False"


def test_an_extender_filters_and_scores(start: Start) -> None:
    with an_extender() as extender:
        extender.answers["filter"] = lambda sent: {
            "Nodes": {"items": [node for node in sent["Nodes"]["items"] if node["metadata"]["name"] != "node-0001"]},
            "FailedNodes": {"node-0001": "not this one"},
        }
        extender.answers["prioritize"] = lambda sent: [{"Host": "node-0003", "Score": 10}]
        with start(a_config(extender, filterVerb="filter", prioritizeVerb="prioritize")) as cluster:
            create(cluster, "pod")
            pod = cluster.wait(f"{POD_PATH}/pod", is_placed)
            assert pod["spec"]["nodeName"] == "node-0003"
        (filtered,), (scored,) = extender.sent("filter"), extender.sent("prioritize")
        assert [node["metadata"]["name"] for node in scored["Nodes"]["items"]] == ["node-0002", "node-0003"]
        for sent in (filtered, scored):
            assert list(sent) == ["Pod", "Nodes", "NodeNames"] and sent["NodeNames"] is None
            assert "kind" not in sent["Pod"] and sent["Pod"]["metadata"]["uid"] == pod["metadata"]["uid"]
            assert sent["Pod"]["spec"]["containers"][0]["env"] == [{"name": "A", "value": "1"}], "the whole pod"
            assert "nodeInfo" in sent["Nodes"]["items"][0]["status"], "and whole nodes"


def test_a_pod_that_no_node_passes_for_is_told_why_and_tried_again(start: Start) -> None:
    with an_extender() as extender:
        extender.answers["filter"] = lambda sent: {
            "NodeNames": [],
            "FailedAndUnresolvableNodes": dict.fromkeys(sent["NodeNames"], "no licence"),
        }
        with start(a_config(extender, filterVerb="filter", nodeCacheCapable=True)) as cluster:
            create(cluster, "pod")
            refused = condition(cluster.wait(f"{POD_PATH}/pod", is_refused))
            assert refused["reason"] == "Unschedulable"
            assert refused["message"].startswith("0/3 nodes are available: 3 no licence. ")
            extender.answers["filter"] = {"NodeNames": ["node-0002"]}
            create(cluster, "other")
            assert cluster.wait(f"{POD_PATH}/other", is_placed)["spec"]["nodeName"] == "node-0002"
            assert cluster.wait(f"{POD_PATH}/pod", is_placed)["spec"]["nodeName"] == "node-0002"


@both
def test_an_extender_binds(start: Start) -> None:
    with an_extender() as extender, start(a_config(extender, bindVerb="bind")) as cluster:

        def bind(sent: JsonObject) -> JsonObject:
            metadata = {"name": sent["PodName"], "namespace": sent["PodNamespace"], "uid": sent["PodUID"]}
            body = {"metadata": metadata, "target": {"kind": "Node", "name": sent["Node"]}}
            reply = cluster.ask("POST", f"{POD_PATH}/{sent['PodName']}/binding", body)
            return {"Error": "" if reply.code == 201 else str(reply.body)}

        extender.answers["bind"] = bind
        create(cluster, "pod")
        pod = cluster.wait(f"{POD_PATH}/pod", is_placed)
        (sent,) = extender.sent("bind")
        assert sent == {
            "PodName": "pod",
            "PodNamespace": "default",
            "PodUID": pod["metadata"]["uid"],
            "Node": pod["spec"]["nodeName"],
        }
        notes = cluster.wait(
            "/apis/events.k8s.io/v1/namespaces/default/events",
            lambda found: any(event["reason"] == "Scheduled" for event in found["items"]),
        )
        assert f"Successfully assigned default/pod to {sent['Node']}" in [e["note"] for e in notes["items"]]


@both
def test_a_dead_extender_is_an_error_of_the_pod_alone(start: Start) -> None:
    with an_extender() as extender:
        managed = [{"name": "example.com/gpu", "ignoredByScheduler": True}]
        dead = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "managedResources": managed}
        with start(a_config(extender, **dead)) as cluster:
            resources = {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}
            create(cluster, "needs-it", containers=[{"name": "main", "image": "x", "resources": resources}])
            refused = condition(cluster.wait(f"{POD_PATH}/needs-it", is_refused))
            assert refused["reason"] == "SchedulerError"
            refusal = "dial tcp 127.0.0.1:1: connect: connection refused"
            assert refused["message"] == f'Post "http://127.0.0.1:1/filter": {refusal}'
            create(cluster, "does-not")
            cluster.wait(f"{POD_PATH}/does-not", is_placed)


def test_a_slow_extender_that_may_fail_is_waited_for_no_longer_than_it_says(start: Start) -> None:
    with an_extender() as extender:
        woken = threading.Event()

        def sleep(sent: JsonObject) -> JsonObject:
            woken.wait(PATIENCE_S)
            return {"NodeNames": []}

        extender.answers["filter"] = sleep
        settings = {"filterVerb": "filter", "ignorable": True, "httpTimeout": "200ms", "nodeCacheCapable": True}
        with start(a_config(extender, **settings)) as cluster:
            create(cluster, "pod")
            cluster.wait(f"{POD_PATH}/pod", is_placed)
        woken.set()


def test_what_cannot_be_configured_is_refused_at_the_start() -> None:
    tls = {"insecure": True, "caFile": "/nowhere"}
    with tempfile.TemporaryDirectory(prefix="mooring-test-") as scratch:
        file = Path(scratch) / "config.yaml"
        file.write_text(yaml.safe_dump(a_config(Extender("https://127.0.0.1:1"), filterVerb="filter", tlsConfig=tls)))
        done = run_mooring("up", "-q", "--port", "0", "--config", file)
    assert done.returncode == 2
    assert "specifying a root certificates file with the insecure flag is not allowed" in done.stderr
