"""Send every poison to `mooring run` and to `mooring up`, and see whether anybody else notices.

    python tests/hostile/poison.py                              all of them, on 200 nodes, against both
    python tests/hostile/poison.py --against up --only host-ports --nodes 1000
    python tests/hostile/poison.py --kubeconfig FILE            `mooring run` on a kube-apiserver of your own, on this machine

While a poison is at work, probe pods are created one after another: each must be bound within 2 s. The memory of the process
must not grow by more than 100 MiB. Afterwards the poison is deleted, and a pod that needs the whole room of the node which it
was on, or of the smallest node, must fit there: nothing stayed behind. Prints a table; the exit status is 1 if a row fails.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from poisons import NAMESPACE, NODES, PODS, POISONS, VICTIM_NODE, Poison, Step, pod

from forked_commands import start_mooring
from mooring.controllers.nodes.simulated_nodes import missing_nodes
from running_cluster import Client, a_process

LONGEST_WAIT_S = 2.0
MOST_MEMORY_MIB = 100.0
PATIENCE_S = 60.0
PROBES = 5
SETTLE_S = 1.0
"""How long a poison is given to work after it was sent, while probes go on. Where nothing is timed, the probes of the next
poison meet what comes later."""
ROOM = {"cpu": "4", "memory": "16Gi", "pods": "110"}
EVERY_POD_TOLERATES = [{"operator": "Exists"}]


@dataclass(slots=True)
class Outcome:
    poison: str
    against: str
    waited_s: float = 0.0
    grown_mib: float = 0.0
    faults: list[str] = field(default_factory=list)

    def judge(self, is_timed: bool = True) -> None:
        if is_timed and self.waited_s > LONGEST_WAIT_S:
            self.faults.append(f"another pod waited {self.waited_s:.1f} s")
        if self.grown_mib > MOST_MEMORY_MIB:
            self.faults.append(f"memory grew by {self.grown_mib:.0f} MiB")


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster to poison, and the process that must survive it."""

    name: str
    client: Client
    pid: int

    def peak_mib(self) -> float:
        return _status_kib(self.pid, "VmHWM") / 1024

    def resident_mib(self) -> float:
        return _status_kib(self.pid, "VmRSS") / 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


def _status_kib(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


# ---- targets


@contextmanager
def an_embedded_target(nodes: int) -> Iterator[Target]:
    with a_process("--nodes", str(nodes)) as cluster:
        assert cluster.popen is not None
        _prepare(cluster)
        yield Target("up", cluster, cluster.popen.pid)


@contextmanager
def a_live_target(nodes: int) -> Iterator[Target]:
    with a_process("--nodes", str(nodes), "--no-scheduler") as cluster, a_scheduler_of(cluster) as target:
        yield target


@contextmanager
def a_foreign_target(kubeconfig: Path, nodes: int) -> Iterator[Target]:
    """`mooring run` on another API server, which gets our nodes. It must be on this machine: never poison a real cluster."""
    client = Client(kubeconfig)
    if urlsplit(client.server).hostname not in ("127.0.0.1", "localhost", "::1"):
        raise SystemExit(f"{kubeconfig} names {client.server}: poison is only for an API server on 127.0.0.1")
    for node in missing_nodes(nodes, ()):
        _must(client, Step("POST", NODES, node), or_exists=True)
    with a_scheduler_of(client) as target:
        yield target


@contextmanager
def a_scheduler_of(cluster: Client) -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            arguments = ("run", "--secure-port=0", f"--kubeconfig={cluster.kubeconfig}")
            scheduler = start_mooring(*arguments, stdout=output, stderr=output)
        try:
            _prepare(cluster)
            yield Target("run", cluster, scheduler.pid)
            assert scheduler.poll() is None, f"the scheduler ended: {log.read_text()[-2000:]}"
            assert "Traceback" not in log.read_text(), log.read_text()[-4000:]
        finally:
            scheduler.kill()
            scheduler.wait(PATIENCE_S)


def _prepare(client: Client) -> None:
    _must(client, Step("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}), or_exists=True)
    taint = {"key": "hostile.example/victim", "effect": "NoSchedule"}
    victim = {
        "metadata": {"name": VICTIM_NODE, "labels": {"kubernetes.io/hostname": VICTIM_NODE}},
        "spec": {"taints": [taint]},
        "status": {"capacity": ROOM, "allocatable": ROOM, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    _must(client, Step("POST", NODES, victim), or_exists=True)
    _probe(client, "warm-up")
    for number in range(50):  # what the first pods cost once is not what a poison costs
        _probe(client, f"warm-up-{number}", is_waited_for=number == 49)
    for number in range(50):
        _remove(client, f"warm-up-{number}")


# ---- one poison


def try_poison(target: Target, poison: Poison, is_timed: bool = True) -> Outcome:
    outcome = Outcome(poison.name, target.name)
    before_mib = target.resident_mib()
    target.forget_peak()
    sender = threading.Thread(target=_send, args=(target.client, poison.steps(), outcome.faults))
    sender.start()
    settle_s = SETTLE_S if is_timed else 0.0
    ends = time.monotonic() + settle_s
    number = 0
    while number < PROBES or sender.is_alive() or time.monotonic() < ends:
        outcome.waited_s = max(outcome.waited_s, _probe(target.client, f"probe-{number}"))
        number += 1
        ends = ends if sender.is_alive() else min(ends, time.monotonic() + settle_s)
    sender.join()
    outcome.faults += [f"{name} has no node" for name in poison.placed if not _is_placed(target.client, name)][:1]
    _send(target.client, poison.cleaning(), outcome.faults)
    outcome.waited_s = max(outcome.waited_s, _probe(target.client, "probe-after"))
    for name in ["probe-after", *(f"probe-{n}" for n in range(number))]:
        _remove(target.client, name)
    outcome.faults += _leftovers(target.client)
    outcome.grown_mib = target.peak_mib() - before_mib
    outcome.judge(is_timed)
    return outcome


def _send(client: Client, steps: list[Step], faults: list[str]) -> None:
    for step in steps:
        reply = client.ask(step.method, step.path, step.body, {"Content-Type": step.content_type})
        if reply.code != step.code:
            text = str(reply.body)[:200]
            faults.append(f"{step.method} {step.path}: the server answers {reply.code} instead of {step.code}: {text}")


def _probe(client: Client, name: str, is_waited_for: bool = True) -> float:
    """Create an ordinary pod; how long until it has a node."""
    begin = time.monotonic()
    _must(client, Step("POST", PODS, pod(name, {"cpu": "1m"})))
    if is_waited_for:
        _is_placed(client, name)
    return time.monotonic() - begin


def _is_placed(client: Client, name: str) -> bool:
    """Whether a pod gets a node before patience ends."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        reply = client.ask("GET", f"{PODS}/{name}")
        if reply.code == 200 and reply.body["spec"].get("nodeName"):
            return True
        time.sleep(0.01)
    return False


def _leftovers(client: Client) -> list[str]:
    """A pod that needs all of the victim's room must get it, once the poison is gone."""
    requests = {"cpu": ROOM["cpu"], "memory": ROOM["memory"]}
    selector = {"kubernetes.io/hostname": VICTIM_NODE}
    witness = pod("witness", requests, nodeSelector=selector, tolerations=EVERY_POD_TOLERATES)
    _must(client, Step("POST", PODS, witness))
    is_placed = _is_placed(client, "witness")
    conditions = client.ask("GET", f"{PODS}/witness").body.get("status", {}).get("conditions")
    _remove(client, "witness")
    return [] if is_placed else [f"the room of {VICTIM_NODE} is not free again: {conditions}"]


def _remove(client: Client, name: str) -> None:
    path = f"{PODS}/{name}"
    client.ask("DELETE", path, {"gracePeriodSeconds": 0})
    client.wait_gone(path)


def _must(client: Client, step: Step, *, or_exists: bool = False) -> None:
    reply = client.ask(step.method, step.path, step.body)
    is_done = reply.code == step.code or (or_exists and reply.code == 409)
    assert is_done, f"{step.method} {step.path}: {reply.code} {reply.body}"


# ---- all of them


def try_all(opening: AbstractContextManager[Target], only: list[str]) -> list[Outcome]:
    outcomes = []
    with opening as target:
        for poison in POISONS:
            if (only and poison.name not in only) or (poison.only_up and target.name != "up"):
                continue
            outcomes.append(try_poison(target, poison))
            _print(outcomes[-1])
    return outcomes


def _print(outcome: Outcome) -> None:
    verdict = "; ".join(outcome.faults) or "ok"
    row = f"{outcome.against:4} {outcome.poison:28} {outcome.waited_s:8.2f} s {outcome.grown_mib:8.1f} MiB  {verdict}"
    print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", choices=["run", "up"], action="append")
    parser.add_argument("--only", action="append", default=[], choices=[poison.name for poison in POISONS])
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--kubeconfig", type=Path, help="an API server on this machine without nodes of its own")
    asked = parser.parse_args()
    print(f"{'':4} {'poison':28} {'longest wait':>10} {'memory':>12}", flush=True)
    targets = {"run": a_live_target, "up": an_embedded_target}
    if asked.kubeconfig is not None:
        openings = [a_foreign_target(asked.kubeconfig, asked.nodes)]
    else:
        openings = [targets[name](asked.nodes) for name in asked.against or targets]
    outcomes = [outcome for opening in openings for outcome in try_all(opening, asked.only)]
    sys.exit(1 if any(outcome.faults for outcome in outcomes) else os.EX_OK)


if __name__ == "__main__":
    main()
