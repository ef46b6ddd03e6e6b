"""`mooring simulate`."""

import json
import sys

import click

from mooring.app.assembly import all_plugins
from mooring.cli.progress import LateBar
from mooring.cli.refusal import refusals, refuse
from mooring.cli.report import as_json, as_tables
from mooring.cli.report import explain as show_explanation
from mooring.framework import config as configuration
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.registry import load_file
from mooring.sim.manifests import Manifests, read
from mooring.sim.simulation import Report, Simulation, note_ignored

NOT_ALL_PLACED = 1

EPILOG = """
\b
Examples:
  mooring simulate cluster.yaml                         where do the pending pods go?
  kubectl get nodes,pods,services,replicasets,statefulsets,priorityclasses,namespaces -A -o json > dump.json
  mooring simulate dump.json more-pods.yaml             would these fit into my cluster?
  mooring simulate cluster.yaml --explain web-0         why there? why not elsewhere?
  mooring simulate cluster.yaml --config packed.yaml    with another scheduler configuration
  mooring simulate cluster.yaml --plugin mine.py --config mine.yaml   with a plugin of your own
  kubectl get nodes,pods -A -o json | mooring simulate - -o json | jq '.pods[] | select(.result != "scheduled")'

\b
Amounts in JSON are whole numbers: cpu in milli-CPU, memory in bytes, all else as counted.

\b
Exit status:
  0 when the simulation ran
  1 with --exit-code when a pod is still pending
  2 for input that cannot be used
"""


@click.command(epilog=EPILOG, short_help="Place the pending pods of a cluster, explain any of them.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--config", metavar="FILE", help="A KubeSchedulerConfiguration (v1), as kube-scheduler takes it.")
@click.option("--plugin", "plugins", multiple=True, metavar="FILE.py", help="A Python file with plugins of your own.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json"]),
    default="table",
    show_default=True,
    help="Tables, tables with every row and column, or JSON.",
)
@click.option(
    "--explain", metavar="POD", help="Show the verdict and scores of this pod, node by node ([namespace/]name)."
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 when a pod is still pending.")
def simulate(
    files: tuple[str, ...],
    config: str | None,
    plugins: tuple[str, ...],
    output: str,
    explain: str | None,
    exit_code: bool,
) -> None:
    """Place the pending pods of a cluster and show where each goes, how full the nodes get, and what does not fit.

    FILE is a manifest, a folder of them, a dump of a cluster (kubectl get -o json), or - for standard input. Workloads
    (Deployments, StatefulSets, Jobs, ...) whose pods are not in the input stand for the pods that they would make.
    """
    with LateBar("reading") as bar:
        manifests = read(files, sys.stdin.buffer, bar)
    if manifests.problems:
        refuse(*manifests.problems)
    with refusals(config or "configuration", plugins):
        report = _run(manifests, _configuration(config), plugins, explain)
    _print(report, output)
    if exit_code and report.pending:
        sys.exit(NOT_ALL_PLACED)


def _run(
    manifests: Manifests, config: KubeSchedulerConfiguration, plugins: tuple[str, ...], explain: str | None
) -> Report:
    registry = all_plugins()
    for file in plugins:
        load_file(registry, file)
    simulation = Simulation([manifest.object for manifest in manifests.objects], config, registry)
    with LateBar("placing") as bar:
        report = simulation.run(explain, bar)
    report.notes = note_ignored(manifests) + report.notes
    return report


def _configuration(path: str | None) -> KubeSchedulerConfiguration:
    if path is None:
        return configuration.default()
    try:
        with open(path, "rb") as file:
            text = file.read()
    except (OSError, ValueError) as error:  # a path with a NUL in it is a ValueError
        refuse(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")
    return configuration.load(text, path)


def _print(report: Report, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(as_json(report), indent=2, ensure_ascii=False))
        return
    wide = output == "wide"
    parts = [*as_tables(report, wide)]
    if report.explanation is not None:
        parts = [*show_explanation(report.explanation, wide), parts[-1]]
    click.echo("\n\n".join(parts))
    for note in report.notes:
        click.echo(f"note: {note}", err=True)
