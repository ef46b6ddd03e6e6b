"""`mooring capacity`: how many more of a pod fit into a cluster."""

import click

from mooring.answers.capacity.capacity import MOST, Capacity
from mooring.answers.capacity.capacity import capacity as ask_capacity
from mooring.answers.capacity.gangs import MOST_SIZE
from mooring.cli.answering import ClusterSource, ShownAnswer, asked, asks_clusters, shows_answer, warn
from mooring.inputs.loaded_cluster import LoadedCluster

EPILOG = """
\b
Examples:
  mooring capacity web.yaml --from dump.json               how many more of this pod fit, and what stops the next one?
  mooring capacity deployment.yaml --from dump.json        the same for a pod of a Deployment
  mooring capacity web.yaml=2 --mix db.yaml --from c.yaml  two of web for each db, in turn
  mooring capacity web.yaml --from dump.json --max 50      are there 50?
  mooring capacity web.yaml --from dump.json --preempt     and how many if they evict pods of lower priority?
  mooring capacity train.yaml --gang 8 --from dump.json --feature-gates GenericWorkload=true
  mooring capacity web.yaml --from dump.json -o json | jq '.perNode[] | select(.pods > 0)'

\b
The pods are placed one by one by the scheduler's own decisions, on the cluster without its pending pods; nominated pods keep
their room. With --preempt a pod that fits nowhere evicts pods of lower priority, as DefaultPreemption chooses them. Evicted
pods do not come back, and no pod that was counted is evicted for another one.
Amounts in JSON are whole numbers: cpu in milli-CPU, memory in bytes, other resources as counted.

\b
With several --context or --all-contexts every table has a column for the cluster. A cluster that cannot be read, or that does
not have what is asked about, is a row. The exit status is 1 if one of the clusters gives 1 or has no answer.

\b
Exit status:
  0  at least one pod fits
  1  none does
  2  the input is invalid
"""


@click.command(epilog=EPILOG, short_help="How many more of a pod fit, where, and what stops the next one.")
@click.argument("pod", metavar="POD.yaml[=N]")
@click.option(
    "--mix",
    multiple=True,
    metavar="FILE[=N]",
    help="Another pod, to be placed in turn with the first: N of it in each turn. Can be given several times.",
)
@click.option(
    "--gang",
    type=click.IntRange(1, MOST_SIZE),
    metavar="N",
    help="Count whole gangs of N pods, of which all fit or none; a PodGroup in POD.yaml does the same.",
)
@click.option("--max", "most", type=click.IntRange(1, MOST), metavar="N", help="Stop when so many pods are placed.")
@click.option(
    "--preempt", is_flag=True, help="Count pods that fit by evicting pods of lower priority, and list the victims."
)
@asks_clusters
@shows_answer
def capacity(
    source: ClusterSource,
    pod: str,
    mix: tuple[str, ...],
    gang: int | None,
    most: int | None,
    preempt: bool,
    shown: ShownAnswer,
) -> None:
    """Count how many more pods like the one in a file fit into a cluster.

    POD.yaml has a Pod, a workload (Deployment, StatefulSet, Job, ...), which stands for one of its pods, or a list of them.
    """

    def counted(loaded: LoadedCluster) -> Capacity:
        return ask_capacity(
            loaded,
            _counted(pod),
            mix=[_counted(each) for each in mix],
            most=most,
            gang=gang,
            preempt=preempt,
            validation=source.validate,
            warn=warn,
        )

    shown.end_with(asked(source, counted))


def _counted(text: str) -> tuple[str, int]:
    """`web.yaml=2` is the file and how many of it come in a turn."""
    file, equals, number = text.rpartition("=")
    if equals and number.isdecimal() and 0 < int(number) <= 1000:
        return file, int(number)
    return text, 1
