"""A question to one cluster, or to several of a kubeconfig: they are read beside each other and asked one after the other."""

from collections.abc import Callable, Iterator

from mooring.answers.form.answer import ClusterAnswer
from mooring.answers.form.several_answers import AnsweredCluster, SeveralAnswers
from mooring.cli.answering import ClusterSource, own_output, tell_notes
from mooring.cli.refusal import refuse
from mooring.cli.terminal import LateBar
from mooring.inputs.input_errors import LiveSourceError, problem_line, problems_of
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.inputs.manifests import Manifests

Ask = Callable[[LoadedCluster], ClusterAnswer]
"""Asks one cluster the question of a command."""


def asked(source: ClusterSource, ask: Ask) -> ClusterAnswer:
    """The answer of the cluster, or of several side by side. Plugins print to standard error meanwhile.

    A cluster that cannot be read, or that does not have what the question is about, is part of the answer. A fault of the
    input that concerns every cluster alike is an error.
    """
    if source.is_several:
        return _several(source, ask)
    loaded = source.load()
    with own_output():
        return ask(loaded)


def _several(source: ClusterSource, ask: Ask) -> ClusterAnswer:
    # Hot: the client of the API takes 0.1 s to import, and most questions are about files.
    from mooring.inputs.live_clusters import contexts_of

    source.check()
    try:
        contexts = contexts_of(source.kubeconfig, source.contexts)
    except LiveSourceError as fault:
        refuse(fault)
    with LateBar("asking") as bar:
        found = []
        for each in _answers(source, ask, contexts):
            found.append(each)
            bar(len(found), len(contexts))
    problems = {each.problem for each in found}
    if len(problems) == 1 and "" not in problems and len(found) > 1:
        refuse(*problems)
    return SeveralAnswers(found)


def _answers(source: ClusterSource, ask: Ask, contexts: list[str]) -> Iterator[AnsweredCluster]:
    from mooring.inputs.live_clusters import read_each

    for context, read in read_each(source.kubeconfig, contexts, source.cluster_timeout_s):
        if isinstance(read, LiveSourceError):
            yield AnsweredCluster(context, None, problem_line(read))
        else:
            manifests, notes = read
            tell_notes(notes, context)
            yield _answer(source, ask, context, manifests)


def _answer(source: ClusterSource, ask: Ask, context: str, manifests: Manifests) -> AnsweredCluster:
    """The answer of a cluster that was read; what is wrong with the question for this cluster is its answer as well."""
    try:
        loaded = source.load(manifests, context)
        with own_output():
            return AnsweredCluster(context, ask(loaded))
    except Exception as fault:
        problems = problems_of(fault, source.config or "configuration")
        if not problems:
            raise
        return AnsweredCluster(context, None, "; ".join(problems))
