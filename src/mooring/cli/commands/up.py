"""`mooring up`: a cluster on this machine that kubectl can use.

The command reads its input, builds an EmbeddedCluster, and serves it (`app/up.py`) until Ctrl-C or until the command of
--exec ends.
"""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from mooring.answers.trial.node_prices import NO_PRICES
from mooring.apiserver.journal import JournalError, LossError
from mooring.app.config_reload import ConfigSource
from mooring.app.dashboards import DEFAULT_PORT as DASHBOARD_PORT
from mooring.app.dashboards import DashboardPlan, SchedulerSource
from mooring.app.up import ServiceSettings
from mooring.cli.options import (
    chosen_gates,
    config_file,
    configured,
    feature_gates,
    field_validation,
    idle_plugins,
    node_template,
    path_option,
    plugin_files,
    prices_of_nodes,
    read_node_template,
    registry_with,
    tell_gates,
)
from mooring.cli.recording_options import (
    RecordingFlags,
    SelfCheckFlags,
    recording_options,
    self_check_flags,
    trace_plugins_over,
    tracing_of,
    undeclared_annotations,
)
from mooring.cli.refusal import refusals, refuse
from mooring.cli.terminal import tell
from mooring.cli.up_session import LINK_VARIABLE, UpSession, report
from mooring.controllers.nodes.simulated_nodes import missing_nodes
from mooring.dashboard.questions.asked_cluster import AskedScheduler, objects_in_store
from mooring.dashboard.questions.child_questions import ChildQuestions
from mooring.embedded.embedded_cluster import EmbeddedCluster, EmbeddedSettings, cluster_clock
from mooring.embedded.seeding import default_class, seed
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.durations import Duration
from mooring.framework.config.feature_gates import with_defaults
from mooring.inputs.configuration_files import configuration_of
from mooring.inputs.dump_header import is_header
from mooring.inputs.field_checks import Validation, read_served
from mooring.inputs.offers.price_list import PriceList
from mooring.kit import process
from mooring.kit.clock import Clock
from mooring.kit.logs import one_line, start_logs
from mooring.kit.process import relax_collector
from mooring.serve.service_metrics import ServiceMetrics
from mooring.serve.tracing import Tracing

DEFAULT_NODES = 5
DEFAULT_PORT = 6443
EXIT_DAMAGED = 3
"""Not 2: scripts must see the difference between wrong input and lost data."""

EPILOG = """
\b
Examples:
  mooring up                                            five nodes, and a kubeconfig to use them with
  mooring up --nodes 5000 --node-template big.yaml      5,000 nodes made from a template
  mooring up --cluster dump.json                        a copy of a cluster (kubectl get -A -o json)
  mooring up --data-dir ./state                         keep all objects when the cluster stops or is killed
  mooring up --plugin mine.py --config mine.yaml        try your own plugin
  mooring up --nodes 500 --no-dashboard                 serve nothing for browsers
  mooring up --feature-gates GenericWorkload=true   schedule PodGroups: all or nothing
  mooring up -q --exec 'kubectl apply -f app.yaml && kubectl wait --for=condition=Ready pod --all'   in CI

\b
A changed --config file, or SIGHUP, changes the profiles without a restart; a faulty file changes nothing: docs/run.md.

\b
The section `tracing` of the configuration, or the variables OTEL_*, turn traces of attempts on: docs/tracing.md.

\b
Annotations that simulated kubelets read:
  mooring.dev/run-seconds: "60"     finish after 60 seconds, or "never" (default for pods of Jobs: 5; for others: never)
  mooring.dev/exit-code: "1"        fail with this exit code
  mooring.dev/start-seconds: "5"    take 5 seconds to start (default: 0)
  mooring.dev/ready-seconds: "5"    become ready 5 seconds after the start (default: 0)
  mooring.dev/stop-seconds: "10"    take 10 seconds to stop (default: 1)

\b
Exit status: with --exec, the exit status of the command; 0 after Ctrl-C, SIGTERM, or SIGHUP without --config;
2 for invalid input; 3 if the data directory has lost acknowledged writes: see --accept-loss.
"""

_ADVICE = (
    "The data directory is damaged: it has lost writes that `mooring up` acknowledged. Restore the directory from a "
    "backup, or start with --accept-loss to continue with the objects that are left."
)


@click.command(epilog=EPILOG, short_help="Start a cluster on this machine that kubectl can use.")
@click.option(
    "--nodes",
    type=click.IntRange(0, 100_000),
    help="How many nodes to make; nodes that exist already stay.  "
    f"[default: {DEFAULT_NODES}, or none with --cluster or a --data-dir that has nodes]",
)
@node_template
@click.option(
    "--cluster",
    "files",
    multiple=True,
    metavar="FILE",
    help="Manifests or a cluster dump to start with; - is standard input. May be repeated.",
)
@field_validation(" of --cluster")
@path_option("--data-dir", "Keep all objects in this directory.", file_okay=False)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Start even if the data directory is damaged, with the objects that are left. Damaged files move aside.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help=f"The port of the API server; 0 takes a free one.  [default: {DEFAULT_PORT}, or a free one with --exec]",
)
@path_option("--kubeconfig", "Add a context to this file while the cluster runs.", dir_okay=False)
@click.option(
    "--plain-http", is_flag=True, help="Serve without TLS and token. The API server always listens on loopback only."
)
@config_file
@plugin_files
@feature_gates
@trace_plugins_over
@click.option(
    "--taint-new-nodes",
    is_flag=True,
    help="Taint new nodes not-ready until their first heartbeat, as a real cluster does.",
)
@recording_options
@self_check_flags
@click.option("--no-scheduler", is_flag=True, help="Start no scheduler: pods wait for yours, such as `mooring run`.")
@prices_of_nodes
@click.option("--no-dashboard", is_flag=True, help="Serve no dashboard for browsers.")
@click.option(
    "--dashboard-port",
    type=click.IntRange(0, 65535),
    help="The port of the dashboard; 0 takes a free one.  "
    f"[default: {DASHBOARD_PORT}, or a free one if it is in use or with --exec]",
)
@click.option(
    "--exec",
    "command",
    metavar="CMD",
    help=f"Run a shell command with KUBECONFIG and {LINK_VARIABLE} (the link) set, then stop.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show no live view; with --exec, print no link to the dashboard.")
def up(**given: Any) -> None:
    """Start a Kubernetes API server with simulated nodes, and the scheduler working on them.

    Everything runs in this process. Controllers make pods for Deployments, Jobs and other workloads; the scheduler
    places them; simulated kubelets start and finish them, but run no containers. `mooring nodes` makes nodes fail.
    """
    flags = _Flags(**given)
    template = read_node_template(flags.node_template)
    items = _items(flags.files, flags.validate)
    clock = cluster_clock()
    source = None if flags.no_dashboard else SchedulerSource("up", clock)
    cluster = _cluster(flags, clock, source)
    classes = default_class(items) if cluster.is_new else []
    for refusal in seed(cluster.api, [*classes, *items]):
        tell(one_line(f"left out: {refusal}"), err=True)
    _add_nodes(cluster, flags.nodes, template, has_own=bool(items))
    default_port = 0 if flags.command is not None else DEFAULT_PORT
    port = default_port if flags.port is None else flags.port
    dashboard = _dashboard(flags, cluster, source)
    service = ServiceSettings(port, flags.plain_http, flags.data_dir, flags.kubeconfig, dashboard)
    relax_collector()
    session = UpSession(cluster, service, flags.command, flags.quiet, source=_file(flags))
    sys.exit(process.run_event_loop(session.run()))


@dataclass(frozen=True, slots=True)
class _Flags:
    """The command line; the fields have the names of the options."""

    nodes: int | None
    node_template: str | None
    files: tuple[str, ...]
    validate: Validation
    data_dir: Path | None
    accept_loss: bool
    port: int | None
    kubeconfig: Path | None
    plain_http: bool
    config: str | None
    plugins: tuple[str, ...]
    feature_gates: str
    trace_plugins_over: Duration
    taint_new_nodes: bool
    recording: RecordingFlags
    self_check: SelfCheckFlags
    no_scheduler: bool
    prices: PriceList | None
    no_dashboard: bool
    dashboard_port: int | None
    command: str | None
    quiet: bool


def _cluster(flags: _Flags, clock: Clock, source: SchedulerSource | None) -> EmbeddedCluster:
    """The cluster, with its objects from the data directory. Exits for wrong input and for a damaged directory."""
    gates = chosen_gates(flags.feature_gates)
    tell_gates(gates)
    self_check = flags.self_check.settings()
    if self_check is not None and flags.no_scheduler:
        refuse("--self-check cannot be used with --no-scheduler: give it to the scheduler that you start")
    if self_check is not None:
        start_logs(logging.getLogger("mooring"))
    with refusals(flags.config or "configuration", flags.plugins):
        chosen, registry = configured(flags.config, gates), registry_with(flags.plugins)
        for name in idle_plugins(chosen, registry):
            tell(f"note: plugin {name} is loaded, but no profile enables it", err=True)
        settings = EmbeddedSettings(
            chosen,
            registry,
            flags.data_dir,
            flags.taint_new_nodes,
            not flags.no_scheduler,
            gates,
            accepts_loss=flags.accept_loss,
            recording=flags.recording.settings(registry),
            tracing=_tracing(flags, chosen),
            self_check=self_check,
        )
        for text in undeclared_annotations(settings.recording, registry):
            tell(f"note: {text}", err=True)
        if settings.schedules:
            settings.metrics = ServiceMetrics(clock, has_native=with_defaults(gates)["NativeHistograms"])
            settings.observer = settings.metrics.of_scheduler
        if source is not None:
            settings.observer, settings.tell = source.counting(settings.observer), source.telling()
        try:
            return EmbeddedCluster(settings, clock, report)
        except LossError as fault:
            tell(fault, _ADVICE, err=True)
            sys.exit(EXIT_DAMAGED)
        except JournalError as fault:
            refuse(fault)


def _file(flags: _Flags) -> ConfigSource | None:
    """The file of --config, to be read again when it changes."""
    if flags.config is None or flags.no_scheduler:
        return None
    return ConfigSource(flags.config, lambda: configuration_of(flags.config, chosen_gates(flags.feature_gates)))


def _dashboard(flags: _Flags, cluster: EmbeddedCluster, source: SchedulerSource | None) -> DashboardPlan | None:
    """The source and the port of the dashboard; a script that runs several clusters at once takes any port."""
    if source is None:
        return None
    source.show(cluster.scheduler, cluster.checks)
    is_free = flags.command is not None and flags.dashboard_port is None
    port, prices = 0 if is_free else flags.dashboard_port, flags.prices or NO_PRICES
    return DashboardPlan(source, port, lambda: _questions(cluster, source, prices), prices=prices)


def _questions(cluster: EmbeddedCluster, source: SchedulerSource, prices: PriceList) -> ChildQuestions:
    """Questions about the cluster, with the workloads of its store."""
    settings = cluster.settings
    return ChildQuestions(
        source,
        lambda: AskedScheduler.of(settings.config, settings.gates, settings.registry, prices),
        objects_in_store(cluster.api),
        report=report,
    )


def _tracing(flags: _Flags, config: KubeSchedulerConfiguration) -> Tracing:
    """Traces of the scheduler, if there is one."""
    if flags.no_scheduler:
        return Tracing()
    return tracing_of(config, flags.trace_plugins_over, lambda text: report(text, None))


def _add_nodes(cluster: EmbeddedCluster, count: int | None, template: dict[str, Any] | None, has_own: bool) -> None:
    """Create the nodes numbered up to `count` that do not exist; without a count, five if there are no nodes.

    Existing nodes stay, also if there are more than `count`: removing them would lose their pods.
    """
    existing = {node["metadata"]["name"] for node in cluster.api.store.all("/nodes")}
    wanted = count if count is not None else 0 if existing or has_own else DEFAULT_NODES
    missing = missing_nodes(wanted, existing, template)
    seed(cluster.api, missing)
    if count is not None and existing:
        tell(_told_nodes(count, len(existing), len(missing)), err=True)


def _told_nodes(asked: int, existing: int, made: int) -> str:
    made_text = f"{made} nodes are new" if made else "none is new"
    text = f"--nodes {asked}: the cluster has {existing + made} nodes: {existing} were there already, {made_text}"
    return text if existing <= asked else f"{text}. `mooring nodes remove NODE...` removes nodes"


def _items(paths: tuple[str, ...], validation: Validation) -> list[dict[str, Any]]:
    """The objects of --cluster, without the header that a dump has. Exits with all problems of the files."""
    read = read_served(paths, sys.stdin.buffer, validation)
    for warning in read.warnings:
        tell(one_line(f"warning: {warning}"), err=True)
    if read.problems:
        refuse(*read.problems)
    return [item for item in read.items if not is_header(item["kind"], item["apiVersion"])]
