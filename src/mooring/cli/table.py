"""Tables as kubectl prints them: aligned columns that people can cut and grep."""

from collections.abc import Iterable, Sequence


def format_table(headers: Sequence[str], rows: Iterable[Sequence[object]], indent: str = "") -> str:
    """Columns aligned to the left, three spaces apart, no trailing blanks."""
    lines = [list(headers), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    return "\n".join(
        indent + "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def percent(part: int, whole: int) -> str:
    return f"{100 * part // whole}%" if whole else "-"
