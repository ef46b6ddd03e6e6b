"""`mooring explain`: why a pod is where it is, or why pods are pending, and what would place them."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mooring.answers.explain.cure_search import DECISIONS
from mooring.answers.explain.explain import explain_named
from mooring.answers.explain.explanation import GroupExplanation, PodExplanation, WorkloadExplanation
from mooring.answers.explain.unused_capacity import idle_capacity, unused_notes, unused_requests
from mooring.answers.form.answer import ClusterAnswer
from mooring.answers.pending.asked_pending import explain_pending
from mooring.answers.trial.changing_cluster import settled
from mooring.cli.answering import ClusterSource, ShownAnswer, asked, asks_clusters, shows_answer
from mooring.cli.options import real_use, tie_break
from mooring.cli.refusal import refuse
from mooring.cli.terminal import LateBar
from mooring.inputs.loaded_cluster import LoadedCluster

if TYPE_CHECKING:
    from mooring.inputs.real_use import RealUse

EPILOG = """
\b
Examples:
  mooring explain -A                                    what is pending, why, and which one change helps most?
  mooring explain -n shop                               the same for one namespace
  mooring explain --all-contexts                        the same for every cluster of the kubeconfig
  mooring explain -n shop cart-7d9f-x2x4j               why is it pending, and what would place it?
  mooring explain --from dump.json shop/cart-7d9f       the same, from a dump (mooring dump -o dump.json)
  mooring explain --from dump.json deployment/cart      the pending pods of a Deployment, grouped by reason
  mooring explain --from dump.json podgroup/ml/train    a gang: how many of its pods fit, what stops the rest
  mooring explain --from cluster.yaml web-0 --settle    place the pending pods of manifests first
  mooring explain --from dump.json cart-7d9f -o json | jq '.cures[0].change'

\b
Costs order the changes, the smallest first: wait for pods that end already 5; remove the gates, or uncordon a node, 10; use
the schedulerName of a profile 15; lower a request 20 to 80; tolerate a taint 30; drop or widen a rule of the pod 40; claim
fewer or other devices 40; create a volume or a claim, free devices, remove a taint from a node, label a node (65 where it
has another value), or let it run more pods, 45; move pods 50; lower a request of another pod 55 to 75; raise the priority,
or let the pod preempt, 60 and 5 for each victim; remove pods 70; create a claim again without its data 75; add a node 90,
one unlike all others 95; drop the request of a resource that no node has 100. Up to three changes that are needed together
cost the sum. Each was tried: the scheduler placed the pod.

\b
With several --context or --all-contexts every table has a column for the cluster. A cluster that cannot be read, or that does
not have what is asked about, is a row. The exit status is 1 if one of the clusters gives 1 or has no answer.

\b
Exit status:
  0  the pod has a node, or would get one; without a name: no pod is pending, or all would get a node
  1  it gets no node, or a controller could not create it
  2  the input is invalid
"""


@click.command(epilog=EPILOG, short_help="Why pods are pending, or on their nodes, and what would place them.")
@click.argument("name", metavar="[[KIND/]NAME]", required=False)
@click.option(
    *("-n", "--namespace"),
    default="",
    help="The namespace of the pod or workload; NAMESPACE/NAME works as well. Without a name, the pods of this namespace.",
)
@click.option(
    "-A", "--all-namespaces", is_flag=True, help="Without a name: the pods of all namespaces. This is the default."
)
@click.option("--settle", is_flag=True, help="Let the scheduler place all pending pods first: for manifests.")
@real_use
@click.option("--no-cures", is_flag=True, help="Do not look for changes that would place the pod.")
@click.option(
    "--decisions",
    type=click.IntRange(min=1),
    default=DECISIONS,
    show_default=True,
    help="How many decisions the search for changes may make.",
)
@tie_break
@asks_clusters
@shows_answer
def explain(source: ClusterSource, shown: ShownAnswer, name: str | None, namespace: str, **given: Any) -> None:
    """Explain all pending pods, one pod, the pods of a workload (deployment/web), or a pod group (podgroup/train).

    Without a name: the pending pods by reason and by owner, for how long, and the one change after which most of them get a
    node, counted by decisions of the scheduler. A workload whose pods were not created is explained by what its controller
    says: a quota or an admission rejects them.

    For a pod that has a node: the scores of the nodes that could take it, and which plugin tipped the balance. For a
    pending pod: the nodes by reason with amounts, taints and rules; what the pod waits for; and changes that would place
    it, each tried by a real decision.
    """
    if given["all_namespaces"] and (name is not None or namespace):
        refuse("--all-namespaces cannot be used with a name or --namespace; choose one pod, one namespace, or all")
    options = {"cures": not given["no_cures"], "decisions": given["decisions"]}

    use = _real_use(source, given["use"]) if given["use"] else {}

    def explained(loaded: LoadedCluster) -> ClusterAnswer:
        loaded = replace(loaded, ties=given["ties"])
        if given["settle"]:
            loaded = settled(loaded)
        if name is not None:
            answer = explain_named(loaded, name, namespace, **options)
            return _with_unused(answer, loaded, use) if use else answer
        with LateBar("explaining") as bar:
            found = explain_pending(loaded, namespace, **options, tell=bar)
        return replace(found, unused=unused_requests(loaded, use), idle=idle_capacity(loaded, use)) if use else found

    shown.end_with(asked(source, explained))


def _real_use(source: ClusterSource, named: str) -> "RealUse":
    """Read the real use of pods. A source answers for one cluster."""
    if source.is_several:
        refuse("--use is about one cluster: leave further contexts out")
    # Hot: the client of the API takes 0.1 s to import, and most questions are about files.
    from mooring.inputs.live_source import connection_to
    from mooring.inputs.real_use import read_use

    return read_use(named, lambda: connection_to(source.kubeconfig, source.context))


def _with_unused(
    answer: PodExplanation | WorkloadExplanation | GroupExplanation, loaded: LoadedCluster, use: "RealUse"
) -> ClusterAnswer:
    """The answer with sentences about requests far above use; that about a pod group stays as it is."""
    if isinstance(answer, GroupExplanation):
        return answer
    pod = loaded.pod(answer.pod) if isinstance(answer, PodExplanation) else None
    return replace(answer, notes=[*answer.notes, *unused_notes(loaded, use, pod)])
