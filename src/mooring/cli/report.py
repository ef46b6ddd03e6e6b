"""How results are shown: as a web page, in tables as kubectl prints them, as stories, and the last attempt of a pod node by
node."""

import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap

from mooring.answers.form.answer import ClusterAnswer
from mooring.answers.simulate.day_answer import BARS
from mooring.answers.simulate.simulation_form import why_not_placed
from mooring.cli.refusal import refuse, refuse_file, writing
from mooring.kit.private_files import write_private
from mooring.kit.shown_text import shown
from mooring.scheduler.decision import NoFit, Placement
from mooring.sim.results import Explanation, Fate, Story

# ---- web pages


def write_page(path: Path, answer: ClusterAnswer, notes: Sequence[str]) -> None:
    """Write the web page of an answer at once: readers see the old one or the new one. Refuses a file that cannot be
    written."""
    made = f"Made by mooring {version('mooring')} on {datetime.now(UTC):%Y-%m-%d at %H:%M} UTC"
    page = answer.to_html(notes=notes, made=made, command=_command())
    with writing(path):
        write_private(path, page.encode())


def writable(path: str) -> Path:
    """The file that will be replaced: the target of a symbolic link, not the link. Refuses a file that cannot be written,
    before the work begins."""
    try:
        target = Path(path).resolve()
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            refuse(f"{path}: cannot be written: it is not a file")
        handle, scratch = tempfile.mkstemp(dir=target.parent)
        os.close(handle)
        os.unlink(scratch)  # a command that is killed while it works leaves nothing behind
    except (OSError, ValueError) as error:
        refuse_file(path, error)
    return target


def _command() -> str:
    """The command line, if this is the program and not a test or a notebook."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return shlex.join(["mooring", *sys.argv[1:]]) if name in ("mooring", "__main__.py") else ""


ROWS = 100
"""How many rows a table shows; `-o wide` shows all."""
PLAIN_BARS = " .:-=+*#@"
"""For an output encoding without the characters of curves."""


LEAST_WIDTH = 16
"""How far a column is narrowed so that a table fits the terminal: some words still fit on a line."""
_GAP = "   "


def format_table(headers: Sequence[str], rows: Iterable[Sequence[object]], most: int | None = None) -> list[str]:
    """Columns aligned to the left, three spaces apart, no trailing blanks: for cut and grep. Cells are escaped here, because
    their widths count. In a table that is wider than `most`, the widest columns are narrowed, and their cells take several
    lines."""
    lines = [[shown(str(cell)) for cell in row] for row in (headers, *rows)]
    widths = _narrowed([*zip(*lines, strict=True)], most)
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for cells in lines
        for line in _wrapped(cells, widths)
    ]


def _narrowed(columns: Sequence[Sequence[str]], most: int | None) -> list[int]:
    """The widths of columns that fit together, as far as the least width allows it. Names stay whole where there is room: a
    column with shorter words is narrowed instead."""
    widths = [max(map(len, column)) for column in columns]
    room = sum(widths) if most is None else most - len(_GAP) * (len(widths) - 1)
    if sum(widths) <= room:
        return widths
    least = [min(width, max(LEAST_WIDTH, _longest_word(column))) for width, column in zip(widths, columns, strict=True)]
    if sum(least) > room:
        least = [min(width, LEAST_WIDTH) for width in widths]
    limit = min(max(widths, default=0), max(room, LEAST_WIDTH))  # a cell may have megabytes
    while limit > LEAST_WIDTH and sum(_limited(widths, least, limit)) > room:
        limit -= 1
    return _limited(widths, least, limit)


def _limited(widths: Sequence[int], least: Sequence[int], limit: int) -> list[int]:
    return [min(width, max(limit, low)) for width, low in zip(widths, least, strict=True)]


def _longest_word(column: Sequence[str]) -> int:
    return max((len(word) for cell in column for word in cell.split()), default=0)


def _wrapped(cells: Sequence[str], widths: Sequence[int]) -> Iterator[Sequence[str]]:
    """The lines of a row: one, unless a cell is wider than its column."""
    if all(len(cell) <= width for cell, width in zip(cells, widths, strict=True)):
        yield cells
        return
    parts = [wrap(cell, width, break_on_hyphens=False) for cell, width in zip(cells, widths, strict=True)]
    yield from zip_longest(*parts, fillvalue="")


def cut_table(heads: Sequence[str], rows: Sequence[Sequence[object]], wide: bool, most: int | None = None) -> list[str]:
    if wide or len(rows) <= ROWS:
        return format_table(heads, rows, most)
    return [*format_table(heads, rows[:ROWS], most), f"... and {len(rows) - ROWS} more: -o wide shows all"]


def with_known_bars(text: str) -> str:
    """The text with curves in characters that standard output can show."""
    return text if can_show(BARS) else text.translate(str.maketrans(BARS, PLAIN_BARS))


def can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def told_story(story: Story, wide: bool) -> list[str]:
    """The story of a pod, one line for each moment: the first and the last ones, or all with `wide`."""
    lines = [str(moment) for moment in story.moments]
    if story.left_out:
        lines = [f"... {story.left_out} earlier moments are left out", *lines]
    if not wide and len(lines) > ROWS:
        half = ROWS // 2
        lines = [*lines[:half], f"... {len(lines) - 2 * half} more: -o wide shows all", *lines[-half:]]
    return [f"The story of {story.pod}", *(lines or ["nothing happened to it"])]


def told_outcome(explanation: Explanation) -> str:
    """The outcome of an explained pod, in one line."""
    pod, decision = explanation.pod.key, explanation.decision
    where = (
        f" (it is on {explanation.now_on} now; this is the decision if it were not placed)"
        if explanation.now_on
        else ""
    )
    if isinstance(decision, Placement):
        but = "" if explanation.fate is Fate.SCHEDULED else f", but: {explanation.message}"
        return f"{pod} goes to {decision.node}{where}{but}"
    if isinstance(decision, NoFit):
        return f"{pod} fits no node{where}: {decision.message}"
    return f"{pod} was not placed ({explanation.fate.value}){where}: {why_not_placed(explanation)}"


def told_preemption(explanation: Explanation) -> Iterator[str]:
    """Lines that say what preemption did for an explained pod, or why it did nothing."""
    if explanation.victims:
        yield f"Preempted for it: {', '.join(explanation.victims)}"
    if explanation.preemption:
        yield explanation.preemption
    details = getattr(explanation.decision, "details", None)
    if details is not None and details.feasible and not details.scores:
        yield f"The only feasible node: {details.feasible[0]}. The scheduler took it without scoring."


def told_others(explanation: Explanation) -> Iterator[str]:
    """The verdict of all nodes that no filter looked at."""
    decision = explanation.decision
    if isinstance(decision, Placement | NoFit) and decision.details is not None:
        absent = decision.diagnosis.absent if decision.diagnosis is not None else None
        if absent is not None:
            yield f"All other nodes: {absent.message}"
