"""One question asked of several clusters: their answers side by side, with a column for the cluster in every table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mooring.answers.form.answer import AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import DataTable, data_table
from mooring.answers.form.published import Form
from mooring.kit.words import count

CLUSTER = "cluster"


class ClusterAnswerForm(Form, frozen=True):
    """A cluster and its answer, or why it has none."""

    cluster: str
    """The name of its context in the kubeconfig."""
    answer: dict[str, Any] | None = None
    """The answer in the form of the command for one cluster."""
    problem: str = ""
    """Why there is no answer: the cluster was not reached in time, or it has no object of the asked name."""


class SeveralAnswersForm(Form, frozen=True):
    """The answers of several clusters to one question, in the order in which they were named."""

    clusters: Sequence[ClusterAnswerForm]


@dataclass(frozen=True, slots=True)
class AnsweredCluster:
    """A cluster with its answer, or with the problem why there is none."""

    cluster: str
    found: ClusterAnswer | None = None
    problem: str = ""

    @property
    def answer(self) -> dict[str, Any] | None:
        return None if self.found is None else self.found.to_dict()


@dataclass(frozen=True, repr=False)
class SeveralAnswers(ClusterAnswer):
    """The answers of several clusters."""

    kind: ClassVar[str] = "ClusterAnswers"
    form: ClassVar = SeveralAnswersForm
    clusters: Sequence[AnsweredCluster]

    @property
    def exit_status(self) -> int:
        """1 if one of the clusters would give 1, or has no answer."""
        return max((1 if each.found is None else each.found.exit_status for each in self.clusters), default=0)

    @property
    def side_notes(self) -> list[str]:
        return [f"{each.cluster}: {note}" for each in self.clusters if each.found for note in each.found.side_notes]

    def summary(self) -> list[str]:
        silent = sum(each.found is None for each in self.clusters)
        without = f", {silent} without an answer" if silent else ""
        return [f"{count(len(self.clusters), 'cluster')}{without}"]

    def tables(self) -> list[AnswerTable]:
        rows = [
            (each.cluster, each.problem if each.found is None else next(iter(each.found.summary()), "-"))
            for each in self.clusters
        ]
        return [AnswerTable("Clusters", (CLUSTER, "answer"), rows), *_merged(self._tables("tables"))]

    def report_tables(self) -> list[AnswerTable]:
        return [self.tables()[0], *_merged(self._tables("report_tables"))]

    def _tables(self, which: str) -> Iterator[tuple[str, AnswerTable]]:
        for each in self.clusters:
            yield from ((each.cluster, table) for table in (getattr(each.found, which)() if each.found else ()))

    def data_tables(self) -> Mapping[str, DataTable]:
        answers = (
            (each.cluster, each.found.summary()[0] if each.found else None, each.problem) for each in self.clusters
        )
        merged: dict[str, list[tuple[str, DataTable]]] = {}
        for each in self.clusters:
            for name, table in each.found.data_tables().items() if each.found else ():
                merged.setdefault(name, []).append((each.cluster, table))
        clusters = data_table({CLUSTER: str, "answer": str, "problem": str}, answers)
        return {"clusters": clusters, **{name: _joined(tables) for name, tables in merged.items()}}


def _merged(tables: Iterable[tuple[str, AnswerTable]]) -> list[AnswerTable]:
    """One table for all of the same title. A column that a cluster does not have is empty for it."""
    by_title: dict[str, list[tuple[str, AnswerTable]]] = {}
    for cluster, table in tables:
        if table.rows:
            by_title.setdefault(table.title, []).append((cluster, table))
    return [_under(title, found) for title, found in by_title.items()]


def _under(title: str, found: Sequence[tuple[str, AnswerTable]]) -> AnswerTable:
    first = found[0][1]
    columns = [*dict.fromkeys(column for _, table in found for column in table.columns)]
    rows = [
        (cluster, *(cells.get(column, "-") for column in columns))
        for cluster, table in found
        for cells in (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    ]
    is_same = all(table.columns == first.columns for _, table in found)
    return AnswerTable(title, (CLUSTER, *columns), rows, first.is_detail, first.detail_columns if is_same else 0)


def _joined(found: Sequence[tuple[str, DataTable]]) -> DataTable:
    columns = {column: kind for _, table in found for column, kind in table.columns.items()}
    rows = (
        (cluster, *(cells.get(column) for column in columns))
        for cluster, table in found
        for cells in (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    )
    return data_table({CLUSTER: str, **columns}, rows)
