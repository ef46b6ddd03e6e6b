"""`mooring what-if`: changes of a cluster, and the difference that they make."""

from collections.abc import Iterator
from typing import Any

import click

from mooring.answers.trial.node_prices import NO_PRICES
from mooring.answers.what_if.difference import WhatIf
from mooring.answers.what_if.question import Change
from mooring.answers.what_if.question import what_if as ask
from mooring.cli.answering import ClusterSource, ShownAnswer, asked, asks_clusters, shows_answer, tell_notes
from mooring.cli.options import configured, enable_loaded, prices_of_nodes
from mooring.cli.refusal import refuse
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.inputs.offers.price_list import PriceList

EPILOG = """
\b
Examples:
  mooring what-if --from dump.json --drain node-7
  mooring what-if --from dump.json --drain topology.kubernetes.io/zone=eu-1a      would the other zones hold it?
  mooring what-if --from dump.json --add-nodes 3=node-7 --drain pool=old          new nodes first, then the drain
  mooring what-if --from dump.json --scale Deployment/shop/web=40 -o json | jq .pending
  mooring what-if --from dump.json --apply release.yaml --delete StatefulSet/shop/old-db
  mooring what-if --from dump.json --switch-config packed.yaml --remove-nodes node-7   another configuration
  mooring what-if --from dump.json --taint pool=batch=dedicated=batch:NoSchedule --label node-7=disk=ssd

\b
Changes are made in the order in which they stand, each after the scheduler has placed what it can. First the scheduler
tries what is pending now, so that all differences come from the changes.

\b
--drain does what `kubectl drain` does: it cordons the nodes, leaves DaemonSet and mirror pods, and evicts the others for as
long as their disruption budgets allow. A pod with a controller is replaced and keeps its name in the answer; a pod without
one is lost (`kubectl drain` needs --force to delete it). --remove-nodes asks no budget.

\b
Where all nodes have a price, by --prices or by their label or annotation mooring.dev/price, the answer says what the nodes
and their idle capacity cost before and after.

\b
Nothing is changed in a cluster: all of this is a simulation.

\b
With several --context or --all-contexts every table has a column for the cluster. A cluster that cannot be read, or that does
not have what is asked about, is a row. The exit status is 1 if one of the clusters gives 1 or has no answer.

\b
Exit status:
  0  everything fits: all pods that were placed or pending before have a node in the end
  1  a pod does not fit or is lost, or a drain is blocked
  2  the input is invalid
"""

_SWITCH = "switch-config"
"""The flag of the change that Python calls `config`: --config is the configuration before all changes."""
_NODES = "NODE|SELECTOR"
_OBJECT = "KIND/[NS/]NAME"
_OPTIONS = (
    ("drain", _NODES, "Cordon these nodes and evict their pods, as kubectl drain does."),
    ("cordon", _NODES, "Mark these nodes as unschedulable."),
    ("uncordon", _NODES, "Mark these nodes as schedulable again."),
    ("remove-nodes", _NODES, "Delete these nodes with their pods at once."),
    ("add-nodes", "N=TEMPLATE", "Add N nodes like a node of the cluster, or like the Node manifest in a file."),
    ("scale", f"{_OBJECT}=N", "Give a Deployment, StatefulSet, ReplicaSet or Job N pods."),
    ("apply", "FILE", "Create or change the objects of a file or folder, as kubectl apply does."),
    ("delete", _OBJECT, "Delete an object with what belongs to it."),
    (_SWITCH, "FILE", "From here on the scheduler has this KubeSchedulerConfiguration (v1)."),
    ("taint", f"{_NODES}=key[=value]:Effect", "Taint these nodes; a - at the end removes the taint."),
    ("label", f"{_NODES}=key=value", "Label these nodes; key- at the end removes the label."),
)
_ORDER = "mooring.changes"


class ChangesInOrder(click.Command):
    """Keeps the order of options: click gives the values of each option, but not how they stood among others."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(args=[*args])
        ctx.meta[_ORDER] = [param.name for param in order]
        return super().parse_args(ctx, args)


def _changes(command: Any) -> Any:
    """The options for all changes; the command gets their values by name."""
    for name, form, text in reversed(_OPTIONS):
        option = click.option(f"--{name}", _parameter(name), multiple=True, metavar=form, help=text)
        command = option(command)
    return command


def _parameter(name: str) -> str:
    return f"change_{name.replace('-', '_')}"


@click.command(cls=ChangesInOrder, epilog=EPILOG, short_help="Change a cluster in a simulation: what moves, what fits?")
@asks_clusters
@_changes
@prices_of_nodes
@shows_answer
def what_if(source: ClusterSource, shown: ShownAnswer, prices: PriceList | None, **values: tuple[str, ...]) -> None:
    """Show what changes to a cluster would do: which pods move, become pending or are placed, are preempted or lost, which
    disruption budgets block a drain, and how full the cluster is before and after.

    The cluster comes from --from; without it, it is the one that kubectl would use. NODE|SELECTOR is the name of a node, or a
    label selector such as topology.kubernetes.io/zone=eu-1a.
    """
    given = [*_in_order(click.get_current_context().meta[_ORDER], values)]
    if not given:
        names = ", ".join(f"--{name}" for name, _, _ in _OPTIONS)
        refuse(f"no change: name at least one, such as --drain NODE; the changes are {names}")

    def changed(loaded: LoadedCluster) -> WhatIf:
        return ask(loaded, [_prepared(loaded, *change) for change in given], source.validate, prices or NO_PRICES)

    shown.end_with(asked(source, changed))


def _in_order(order: list[str], values: dict[str, tuple[str, ...]]) -> Iterator[Change]:
    """The changes in the order of the command line."""
    names = {_parameter(name): name for name, _, _ in _OPTIONS}
    left = {parameter: iter(values[parameter]) for parameter in names}
    for parameter in order:
        if parameter in names:
            name = names[parameter]
            yield "config" if name == _SWITCH else name, next(left[parameter])


def _prepared(loaded: LoadedCluster, name: str, value: str) -> Change:
    """A configuration is read here, because plugins of files are enabled in it."""
    if name != "config":
        return name, value
    config = configured(value, loaded.gates)
    tell_notes(f"{value}: {note}" for note in enable_loaded(config, loaded.registry))
    return name, config
