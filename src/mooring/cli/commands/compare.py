"""`mooring compare`: the same cluster and arrivals under several configurations, seeds and loads."""

import json
import sys
from collections.abc import Sequence
from typing import Any

import click
import yaml

from mooring.answers.experiments.comparing import CLUSTER, DEFAULT, config_name
from mooring.answers.experiments.comparing import compare as compare_runs
from mooring.cli.answering import (
    ClusterSource,
    ShownAnswer,
    asks_cluster,
    makes_runs,
    own_output,
    shows_answer,
    told_runs,
    warn,
)
from mooring.cli.options import PRICES, chosen_gates, configured, enable_loaded, file_option, registry_with
from mooring.cli.refusal import refusals, refuse
from mooring.cli.terminal import LateBar
from mooring.framework.config import ConfigError, KubeSchedulerConfiguration
from mooring.inputs.arrivals import Arrival, read_arrivals
from mooring.inputs.loaded_cluster import LoadedCluster, from_manifests
from mooring.inputs.manifests import Manifests

PLACEMENTS_DIFFER = 1
"""The exit status with --exit-code."""

EPILOG = """
\b
Examples:
  mooring compare --from dump.json default packed.yaml          which pods go elsewhere, how many nodes stay empty?
  mooring compare --from dump.json packed.yaml --vary seed=1,2,3,4
                                                                how much is chance? a seed decides among equal nodes
  mooring compare --from cluster.yaml --arrivals day.yaml default packed.yaml --prices prices.yaml
                                                                waiting times, node hours and cost over a day
  mooring compare --generate examples/day.yaml --vary percentageOfNodesToScore=5,20,100 --vary load=0.5,1,1.5 \\
      --results sweep.csv                                       nine days on all cores; goes on where it was stopped
  mooring compare --from dump.json --vary \\
      profiles.0.pluginConfig.NodeResourcesFit.scoringStrategy.type=LeastAllocated,MostAllocated -o json

\b
A CONFIG is a KubeSchedulerConfiguration; `default` is the built-in one, and `cluster` the one of --config or of the
snapshot. Fragmentation is the share of the free CPU or memory that the pods of the cluster and of the arrivals cannot use,
as a mean over their shapes: it is on nodes that do not fit them. A node is in use while it has a pod that does not belong
to a DaemonSet. Prices are numbers an hour by instance type or node name (YAML), or labels or annotations
mooring.dev/price of the nodes.

\b
Exit status:
  0  the comparison ran
  1  with --exit-code: the placements differ
  2  the input is invalid
"""


@click.command(epilog=EPILOG, short_help="The same cluster under several configurations, seeds and loads.")
@click.argument("configs", nargs=-1, metavar="[CONFIG...]")
@click.option(
    "--vary",
    multiple=True,
    metavar="PATH=VALUE,...",
    help="Values for a field of the configuration, for `seed` or for `load`. Can be given several times: every combination "
    "is a run.",
)
@file_option("--arrivals", "Pods that arrive over time (YAML or CSV, see docs/simulation.md).")
@file_option("--generate", "Generate nodes, and pods that arrive over time (docs/simulation.md).")
@click.option("--until", metavar="DURATION", help="Stop each run after this much simulated time: 90s, 24h.")
@file_option("--prices", f"What nodes cost an hour, {PRICES}")
@makes_runs
@click.option("--exit-code", is_flag=True, help="Exit with 1 when the placements differ.")
@asks_cluster
@shows_answer
def compare(
    source: ClusterSource,
    shown: ShownAnswer,
    configs: tuple[str, ...],
    vary: tuple[str, ...],
    arrivals: str | None,
    exit_code: bool,
    **how: Any,
) -> None:
    """Run the same cluster under several configurations and show them side by side: waiting times, attempts, preemptions,
    pending pods, utilisation, fragmentation, nodes in use and their cost, and the pods that go to other nodes.

    Without --arrivals or --generate all pending pods arrive at once, as in `mooring simulate`.
    """
    if arrivals is not None and how["generate"] is not None:
        refuse("--generate cannot be used with --arrivals; choose one of the two")
    varied = _varied(vary)
    loaded = source.load() if source.sources or how["generate"] is None else _without_objects(source)
    named = [(config_name(each), _configuration(each, loaded, source)) for each in configs or (CLUSTER,)]
    with own_output(), LateBar("comparing") as bar:
        try:
            answer = compare_runs(
                loaded,
                named,
                vary=varied,
                arrivals=None if arrivals is None else _arrivals(arrivals, loaded, source),
                **how,
                **told_runs(bar),
            )
        except ConfigError as error:
            refuse(*(f"{error.source}: {problem}" for problem in error.problems))
    shown.show(answer)
    if exit_code and answer.is_different:
        sys.exit(PLACEMENTS_DIFFER)


def _varied(options: Sequence[str]) -> dict[str, list[Any]]:
    """`path=1,2` -> the values of each path, which are YAML: numbers, texts, and lists or objects in brackets."""
    varied: dict[str, list[Any]] = {}
    for option in options:
        path, equals, text = option.partition("=")
        if not equals:
            refuse(f"--vary {option}: no values; write PATH=VALUE,...")
        try:
            values = yaml.safe_load(f"[{text}]")
            json.dumps(values, default=str)  # YAML may refer to itself, JSON not
        except (yaml.YAMLError, ValueError, RecursionError):
            values = None
        if not isinstance(values, list):
            refuse(
                f"--vary {option}: the values are no YAML; write them as 1,2 or as [{{name: cpu}}],[{{name: memory}}]"
            )
        if path in varied:
            refuse(f"--vary {path}: given twice; write all values at once: {path}=1,2,3")
        varied[path] = values
    return varied


def _without_objects(source: ClusterSource) -> LoadedCluster:
    """A cluster of which all nodes are generated."""
    gates = chosen_gates(source.feature_gates)
    config, registry = configured(source.config, gates), registry_with(source.plugins)
    enable_loaded(config, registry)
    return from_manifests(Manifests(), config, registry, gates)


def _configuration(name: str, loaded: LoadedCluster, source: ClusterSource) -> KubeSchedulerConfiguration:
    """The configuration with this name or in this file, with the plugins of --plugin enabled."""
    if name == CLUSTER:
        return loaded.config
    with refusals(name, source.plugins):
        config = configured(None if name == DEFAULT else name, loaded.gates)
    enable_loaded(config, loaded.registry)
    return config


def _arrivals(path: str, loaded: LoadedCluster, source: ClusterSource) -> list[Arrival]:
    return read_arrivals(path, loaded.objects, loaded.gates, source.validate, warn)
