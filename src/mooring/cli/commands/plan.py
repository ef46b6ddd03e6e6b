"""`mooring plan`: which nodes to add to a cluster, and which can go."""

from dataclasses import replace
from typing import Any

import click

from mooring.answers.plan.plan import Plan
from mooring.answers.plan.plan import plan as ask_plan
from mooring.answers.plan.programs import SolverMissing
from mooring.answers.plan.shrink import ShrinkOptions
from mooring.cli.answering import ClusterSource, ShownAnswer, asked, asks_clusters, shows_answer, tell_notes
from mooring.cli.options import PRICES, file_option, price_unit
from mooring.cli.refusal import refuse
from mooring.cli.terminal import LateBar
from mooring.inputs.arrivals import ArrivalsError
from mooring.inputs.loaded_cluster import LoadedCluster


def _live_offers(source: ClusterSource) -> list[dict[str, Any]]:
    """The NodePools and NodeClaims of the live cluster."""
    # Hot: the client of the API takes 0.1 s to import, and most questions are about files.
    from mooring.inputs.live_clusters import read_live_offers

    objects, notes = read_live_offers(source.kubeconfig, source.context)
    tell_notes(notes)
    return objects


EPILOG = """
\b
Examples:
  mooring plan --offer offers.yaml --from dump.json                 which nodes to buy for what is pending?
  mooring plan --offer offers.yaml --from dump.json --apply web.yaml    ... and for what I am about to apply?
  mooring plan --offer offers.yaml --from dump.json --arrivals day.yaml ... for the busiest moment of a day?
  mooring plan --offer offers.yaml --from dump.json --at-once       ... if I add all of them at the same time?
  mooring plan --offer nodepools.yaml --offer types.json            ... of what Karpenter may add, at the prices of the types?
  mooring plan --context prod --offers-of-cluster --offer types.json    ... with the NodePools of the live cluster?
  mooring plan --shrink --from dump.json                            which nodes can go?
  mooring plan --offer offers.yaml --from dump.json --html plan.html    tables and plots to look at, to print or to send
  mooring plan --offer offers.yaml --from dump.json -o json | jq '.add[] | {step, offer, count}'

\b
Offers are a YAML list. A node template is as in a manifest, without a name; DaemonSets of the cluster run on new nodes:
  - name: m-large
    price: 0.41        # for one node, in any unit (--price-unit names it)
    limit: 20          # the most nodes of it, if there is a limit
    node:
      metadata: {labels: {topology.kubernetes.io/zone: a}}
      status: {allocatable: {cpu: "16", memory: 64Gi, pods: "110"}}
  - {name: more, price: 0.2, like: node-7}    # like a node of the cluster

\b
Other files are recognised by their content, and put together:
  NodePools of Karpenter      requirements, taints, labels, limits and weight; types come from one of the next two, or else
                              from the nodes of the cluster
  instance types, JSON        as Karpenter's kwok provider reads them: name, offerings (zone, capacity type, price),
                              architecture, operatingSystems, resources
  instance types, CSV         a row for each offering: name, price, zone, capacityType, architecture, operatingSystem, and a
                              column for each resource (cpu, memory, nvidia.com/gpu, ...)
  cluster-autoscaler          its Deployment with --nodes=MIN:MAX:NAME; a Node of the file or of the cluster is the template
  OpenCost's CSV              prices an hour (MarketPriceHourly) for offers that have none

\b
Pods that fit on the present nodes go there first. The scheduler itself decides in a simulation whether the rest fits on
the new nodes; the plan preempts no pod. The lower bound is the cost of the solution of a linear program: no plan for the
same pods is cheaper. A scheduler that spreads pods leaves no node with room for the large ones, if all nodes come at
once. So a plan may have steps: add the nodes of one step, wait until the scheduler has placed what fits, then add the
next. The plan says how many pods would stay pending otherwise. --at-once gives a plan without steps, which may cost
much more; one that costs at most 2 % more is preferred in any case. Adding nodes needs SciPy: pip install 'mooring[plan]'.

\b
With --shrink, many orders of drains are tried, and the best one is carried out in a simulation: no disruption budget is
broken, every pod is placed again, and no pod is preempted. The best one frees the most nodes, or saves most where all
nodes have a price: by --prices, or by a label or annotation mooring.dev/price. With SciPy a solver proposes nodes as well.
The search is bounded by a number of decisions, so that two runs give the same answer; --seconds bounds it by time.

\b
With several --context or --all-contexts every table has a column for the cluster. A cluster that cannot be read, or that does
not have what is asked about, is a row. The exit status is 1 if one of the clusters gives 1 or has no answer.

\b
Exit status:
  0  everything is placed
  1  pods stay pending
  2  the input is invalid
"""


@click.command(epilog=EPILOG, short_help="Which nodes to add at least cost, and which can go.")
@file_option(
    "--offer",
    "The nodes that can be added, with prices and limits: Mooring's own list, NodePools and instance types of Karpenter, "
    "node groups of cluster-autoscaler, prices of OpenCost (see below). Can be given several times.",
    multiple=True,
)
@click.option(
    "--offers-of-cluster",
    "live_offers",
    is_flag=True,
    help="Offer what the NodePools of the live cluster allow as well.",
)
@click.option(
    "--apply",
    multiple=True,
    metavar="FILE",
    help="Objects that are to fit as well: manifests or a folder of them. Can be given several times.",
)
@file_option("--arrivals", "Pods that arrive over time: those of the busiest moment are to fit.")
@click.option("--at-once", is_flag=True, help="Everything fits also if all nodes come at once: no steps (see below).")
@click.option("--shrink", is_flag=True, help="Also find nodes that can be drained and removed.")
@file_option("--prices", f"With --shrink: what nodes cost an hour, {PRICES}")
@price_unit
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    metavar="N",
    help="With --shrink: how long the search for nodes that can go may take.",
)
@asks_clusters
@shows_answer
def plan(source: ClusterSource, shown: ShownAnswer, offer: tuple[str, ...], shrink: bool, **given: Any) -> None:
    """Find the cheapest nodes on which everything pending fits, or nodes that are not needed."""
    live_offers = given.pop("live_offers")
    if not offer and not live_offers and not shrink:
        refuse("nothing to plan: name the nodes that can be added with --offer FILE, or ask with --shrink which can go")
    unit = given.pop("price_unit")
    options = ShrinkOptions(given.pop("prices"), given.pop("seconds"))
    if not shrink and options != ShrinkOptions():
        refuse("--prices and --seconds are about --shrink: add it, or leave them out")
    if live_offers and (source.sources or source.is_several):
        refuse(
            "--offers-of-cluster asks one live cluster: leave --from and further contexts out, or name files with --offer"
        )
    offers = [*offer, *(_live_offers(source) if live_offers else ())]

    def planned(loaded: LoadedCluster) -> Plan:
        try:
            with LateBar("planning") as bar:
                answer = ask_plan(
                    loaded, offers or None, shrink=shrink and options, validation=source.validate, tell=bar, **given
                )
                return replace(answer, price_unit=unit)
        except SolverMissing as error:
            refuse(error)
        except ArrivalsError as error:
            refuse(*error.problems)

    shown.end_with(asked(source, planned))
