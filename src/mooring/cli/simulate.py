"""`mooring simulate`."""

import sys
from typing import NoReturn

import click
import msgspec

from mooring.app.assembly import all_plugins
from mooring.cli.progress import LateBar
from mooring.cli.report import as_json, as_tables
from mooring.cli.report import explain as show_explanation
from mooring.framework import config as configuration
from mooring.framework.config import ConfigError, KubeSchedulerConfiguration
from mooring.framework.registry import Registry, RegistryError, load_file
from mooring.sim.manifests import Manifests, read
from mooring.sim.simulation import NoSuchPod, Report, Simulation

BAD_INPUT = 2
NOT_ALL_PLACED = 1

EPILOG = """
\b
Examples:
  mooring simulate cluster.yaml                         where do the pending pods go?
  kubectl get nodes,pods,services,replicasets,priorityclasses,namespaces -A -o json > dump.json
  mooring simulate dump.json more-pods.yaml             would these fit into my cluster?
  mooring simulate cluster.yaml --explain web-0         why there? why not elsewhere?
  mooring simulate cluster.yaml --config packed.yaml    with another scheduler configuration
  mooring simulate cluster.yaml --plugin mine.py --config mine.yaml   with a plugin of your own
  cat *.yaml | mooring simulate - -o json | jq '.pods[] | select(.result != "scheduled")'

\b
Exit status: 0 when the simulation ran, 1 with --exit-code when a pod is still pending, 2 for input that cannot be used.
"""


@click.command(epilog=EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--config", metavar="FILE", help="A KubeSchedulerConfiguration (v1), as kube-scheduler takes it.")
@click.option("--plugin", "plugins", multiple=True, metavar="FILE.py", help="A Python file with plugins of your own.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "wide", "json"]), default="table", show_default=True, help="The form."
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
        _refuse(*(str(problem) for problem in manifests.problems))
    chosen = _configuration(config)
    try:
        registry = all_plugins()
        _load_plugins(registry, plugins)
        simulation = Simulation([manifest.object for manifest in manifests.objects], chosen, registry)
        with LateBar("placing") as bar:
            report = simulation.run(explain, bar)
    except ConfigError as error:
        _refuse(*(f"{config or 'configuration'}: {problem}" for problem in error.problems))
    except (RegistryError, NoSuchPod) as error:
        _refuse(str(error))
    report.notes = _ignored(manifests) + report.notes
    _print(report, output)
    if exit_code and report.pending:
        sys.exit(NOT_ALL_PLACED)


def _configuration(path: str | None) -> KubeSchedulerConfiguration:
    if path is None:
        return configuration.default()
    try:
        with open(path, "rb") as file:
            return configuration.load(file.read(), path)
    except OSError as error:
        _refuse(f"{path}: cannot be read: {error.strerror}")
    except ConfigError as error:
        _refuse(*(f"{path}: {problem}" for problem in error.problems))


def _load_plugins(registry: Registry, files: tuple[str, ...]) -> None:
    for file in files:
        load_file(registry, file)


def _ignored(manifests: Manifests) -> list[str]:
    if not manifests.ignored:
        return []
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(manifests.ignored.items()))
    return [f"not considered, for they do not change where pods go: {kinds}"]


def _print(report: Report, output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(as_json(report)), indent=2))
        return
    parts = [*as_tables(report, wide=output == "wide")]
    if report.explanation is not None:
        parts = [*show_explanation(report.explanation), parts[-1]]
    click.echo("\n\n".join(parts))
    for note in report.notes:
        click.echo(f"note: {note}", err=True)


def _refuse(*problems: str) -> NoReturn:
    for problem in problems:
        click.echo(problem, err=True)
    sys.exit(BAD_INPUT)
