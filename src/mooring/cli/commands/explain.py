"""`mooring explain`: why a pod is where it is, or why it is pending, and what would place it."""

from dataclasses import replace

import click

from mooring.answers.explain.cure_search import DECISIONS
from mooring.answers.explain.explain import explain_named
from mooring.answers.trial.changing_cluster import settled
from mooring.cli.answering import ClusterSource, asks_cluster, output_form, own_output, print_answer
from mooring.cli.options import tie_break
from mooring.scheduler.ties import TieRule

EPILOG = """
\b
Examples:
  mooring explain -n shop cart-7d9f-x2x4j               why is it pending, and what would place it?
  mooring explain --from dump.json shop/cart-7d9f       the same, from a dump (mooring dump -o dump.json)
  mooring explain --from dump.json deployment/cart      the pending pods of a Deployment, grouped by reason
  mooring explain --from dump.json podgroup/ml/train    a gang: how many of its pods fit, what stops the rest
  mooring explain --from cluster.yaml web-0 --settle    place the pending pods of manifests first
  mooring explain --from dump.json cart-7d9f -o json | jq '.cures[0].change'

\b
Costs order the changes, the smallest first: remove the gates, or uncordon a node, 10; use the schedulerName of a profile
15; lower a request 20 to 80; tolerate a taint 30; drop or widen a rule of the pod 40; claim fewer or other devices 40;
create a volume, free devices, remove a taint from a node, label a node (65 where it has another value), or let it run
more pods, 45; move pods 50; lower a request of another pod 55 to 75; raise the priority, or let the pod preempt, 60 and 5
for each victim; remove pods 70; add a node 90. Up to three changes that are needed together cost the sum. Each was tried:
the scheduler placed the pod.

\b
Exit status:
  0  the pod has a node, or would get one
  1  it gets no node
  2  the input is invalid
"""


@click.command(epilog=EPILOG, short_help="Why a pod is pending, or on its node, and what would place it.")
@click.argument("name", metavar="[KIND/]NAME")
@click.option(
    "-n", "--namespace", default="", help="The namespace of the pod or workload; NAMESPACE/NAME works as well."
)
@click.option("--settle", is_flag=True, help="Let the scheduler place all pending pods first: for manifests.")
@click.option("--no-cures", is_flag=True, help="Do not look for changes that would place the pod.")
@click.option(
    "--decisions",
    type=click.IntRange(min=1),
    default=DECISIONS,
    show_default=True,
    help="How many decisions the search for changes may make.",
)
@tie_break
@asks_cluster
@output_form
def explain(
    source: ClusterSource,
    name: str,
    namespace: str,
    settle: bool,
    no_cures: bool,
    decisions: int,
    ties: TieRule,
    output: str,
) -> None:
    """Explain one pod, the pods of a workload (deployment/web), or a pod group (podgroup/train).

    For a pod that has a node: the scores of the nodes that could take it, and which plugin tipped the balance. For a
    pending pod: the nodes by reason with amounts, taints and rules; what the pod waits for; and changes that would place
    it, each tried by a real decision.
    """
    loaded = replace(source.load(), ties=ties)
    with own_output():
        if settle:
            loaded = settled(loaded)
        answer = explain_named(loaded, name, namespace, cures=not no_cures, decisions=decisions)
    print_answer(answer, output)
    if not answer.is_settled:
        click.get_current_context().exit(1)
