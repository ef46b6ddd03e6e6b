"""What traces cost: CPU for each pod that a scheduler with metrics places, by the share of attempts that is traced.

    python benchmarks/tracing.py                          1,000 nodes, 4,000 pods, five rounds in turn
    python benchmarks/tracing.py --nodes 100 --pods 2000 --rounds 9

The spans go over HTTP to a collector in another process, so that its CPU does not count; that of the thread that exports them
does. Binds are answered at once: `benchmarks/live.py` with OTEL_* variables has the cost of a whole `mooring run`. Prints the
least of the rounds for each share, because others use the machine as well.
"""

import argparse
import os
import socket
import subprocess
import sys
import time

import msgspec

from mooring.cli.recording_options import start_tracing
from mooring.controllers.nodes.simulated_nodes import missing_nodes
from mooring.framework import config
from mooring.framework.contract.intents import Bind
from mooring.kit.clock import SteadyClock
from mooring.kit.process import relax_collector
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.inputs import BindAnswered, ObjectAdded
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.scheduler_metrics import SchedulerMetrics
from mooring.serve.tracing import PLUGIN_THRESHOLD, Tracing, tracing_settings
from mooring.state.scheduler_assembly import build_scheduler

SHARES = (None, 0.0, 0.01, 0.1, 1.0)
"""None: tracing is off."""
COLLECTOR = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *args):
        pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def cpu_us(share: float | None, nodes: int, pods: int) -> float:
    """CPU of this process for each pod, the last export included."""
    os.environ["OTEL_TRACES_EXPORTER"] = "none"
    if share is not None:
        os.environ |= {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio"}
        os.environ["OTEL_TRACES_SAMPLER_ARG"] = str(share)
    tracing = start_tracing(tracing_settings(None, os.environ), PLUGIN_THRESHOLD.nanoseconds, print)
    scheduler = _scheduler(tracing, nodes)
    arriving = [_pod(i) for i in range(pods)]
    began_s = time.process_time()
    for pod in arriving:
        scheduler.handle(ObjectAdded(pod))
        scheduler.attempt()
        for intent in scheduler.take_intents():
            if isinstance(intent, Bind):
                scheduler.handle(BindAnswered(intent.pod))
    tracing.close()
    return (time.process_time() - began_s) / pods * 1e6


def _scheduler(tracing: Tracing, nodes: int) -> Scheduler:
    clock = SteadyClock()
    observer, _ = tracing.observe(SchedulerMetrics(clock), clock)
    scheduler = build_scheduler(config.default(), clock, listeners=SchedulerListeners(observer=observer))
    for node in missing_nodes(nodes, ()):
        scheduler.handle(ObjectAdded(msgspec.convert(node, Node)))
    return scheduler


def _pod(number: int) -> Pod:
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    metadata = {"name": f"p-{number}", "namespace": "default", "uid": f"uid-{number}", "labels": {"app": "bench"}}
    spec = {"containers": [{"name": "c", "image": "nginx:1", "resources": resources}]}
    return msgspec.convert({"metadata": metadata, "spec": {**spec, "schedulerName": "default-scheduler"}}, Pod)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"http://127.0.0.1:{port}/v1/traces"
    collector = subprocess.Popen([sys.executable, "-c", COLLECTOR, str(port)])
    relax_collector()
    least = dict.fromkeys(SHARES, float("inf"))
    try:
        cpu_us(None, asked.nodes, 200)  # imports and first shapes
        for _ in range(asked.rounds):
            for share in SHARES:
                least[share] = min(least[share], cpu_us(share, asked.nodes, asked.pods))
    finally:
        collector.kill()
        collector.wait()
    for share, found in least.items():
        print(f"{'off' if share is None else f'{share:.0%}':>5}  {found:7.1f} us of CPU a pod")


if __name__ == "__main__":
    main()
