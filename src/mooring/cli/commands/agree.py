"""`mooring agree`: of the bindings in a recording, how many would Mooring have made as well?"""

from pathlib import Path

import click

from mooring.answers.recorded.agree import agree as find_agreement
from mooring.cli.answering import ShownAnswer, own_output, shows_answer, tell_notes
from mooring.cli.options import configured, file_option, plugin_files, registry_with, tie_break
from mooring.cli.refusal import refusals, refuse
from mooring.cli.terminal import LateBar, tell
from mooring.scheduler.ties import TieRule
from mooring.state.recording.run_reading import runs_in
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.replayer import rules_notes

EPILOG = """
\b
Examples:
  mooring record night/ --for 12h                       watch a cluster that kube-scheduler runs
  mooring agree night/                                  would Mooring have decided the same?
  mooring agree night/ --pod shop/cart-7d9f             one binding: the scores of both nodes by plugin
  mooring agree night/ --config other.yaml              with another configuration than the recorded one
  mooring agree night/ --plugin power.py                with the code of a plugin that the configuration names
  mooring agree night/ -o wide                          every binding
  mooring agree night/ -o json | jq '.verdicts'

\b
Verdicts:
  same       the node is the only one with the highest score
  tied       the node is one of several with the highest score: the order in which kube-scheduler's goroutines find
             them decides. With --tie-break kube-scheduler, a binding to another node than its rule determines is
             listed, and one to the node that the rule determines is the same
  lower      the node passes all filters, but another one has a higher score
  rejected   a filter of Mooring rejects the node
  undecided  there is no verdict: a plugin failed, or the node is not in the recording

\b
kube-scheduler looks at a part of the nodes only on clusters of more than 100 (percentageOfNodesToScore). Which part cannot
be seen from outside. A lower score that this can explain is marked.

\b
Exit status:
  0  every binding is the same or tied, and to the node that --tie-break determines
  1  some are not
  2  the input is invalid
"""


@click.command(epilog=EPILOG, short_help="How many recorded bindings would Mooring have made as well?")
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@file_option("--config", "A KubeSchedulerConfiguration (v1), instead of the one in the recording.")
@plugin_files
@tie_break
@click.option("--pod", default="", metavar="NAME", help="Only the binding of this pod: name or namespace/name.")
@shows_answer
def agree(
    directory: Path, config: str | None, plugins: tuple[str, ...], ties: TieRule, pod: str, shown: ShownAnswer
) -> None:
    """Decide for every pod that was bound in the recording DIR, on the cluster as it was at that moment.

    The recording is one of `mooring record`, of a cluster that any scheduler runs, or one of a scheduler of Mooring.
    """
    with refusals(config or f"{directory}: the configuration in the recording", plugins):
        chosen = None if config is None else configured(config)
        registry = registry_with(plugins)
        try:
            tell_notes(rules_notes(runs_in(directory)))
            with own_output(), LateBar("deciding") as bar:
                answer = find_agreement(directory, chosen, registry, bar, ties)
        except RecordingError as fault:
            refuse(*str(fault).splitlines())
        except OSError as fault:
            refuse(fault)
    if not answer.sources:
        refuse(*answer.problems)
    for problem in answer.problems:
        tell(problem, err=True)
    if pod:
        similar = answer.similar_to(pod)
        answer = answer.about(pod)
        if not answer.bindings:
            refuse(f"the recording has no binding of a pod {pod}{similar}")
    shown.end_with(answer)
