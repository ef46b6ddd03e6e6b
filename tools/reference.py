"""Writes docs/reference from the code: commands, exit codes, configuration, feature gates, metrics, JSON, Python. Also
docs/schemas, and the list of choices in docs/adr.

python tools/reference.py             writes the pages that changed
python tools/reference.py --check     changes nothing; exit code 1 if a page is not what the code gives
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reference_commands import commands_page, exit_codes_page, flags_page
from reference_metrics import metrics_page
from reference_python import python_page
from reference_schemas import schema_text, schemas, schemas_page
from reference_settings import configuration_page, gates_page
from reference_text import page

DOCS = Path(__file__).parent.parent / "docs"

MADE = {
    "commands.md": (commands_page, "every command with its arguments, options and examples"),
    "flags.md": (flags_page, "flags that several commands have, and what they mean in each"),
    "exit-codes.md": (exit_codes_page, "what the exit status of each command means"),
    "configuration.md": (configuration_page, "every field of the configuration file, with its default"),
    "feature-gates.md": (gates_page, "every feature gate, its stage, and whether it has an effect"),
    "metrics.md": (metrics_page, "every metric with its type, labels and stability"),
    "schemas.md": (schemas_page, "every field that `-o json` prints"),
    "python.md": (python_page, "the calls for notebooks and what they return"),
}
"""Page of the reference -> what makes it, and what it has."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Write docs/reference from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if something would change")
    options = parser.parse_args(arguments)
    changed = stale(pages())
    if options.check:
        sys.exit("\n".join(f"{path} is not what the code gives: make reference" for path in changed) or 0)
    for path, text in changed.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"wrote {path}")


def pages() -> dict[Path, str]:
    """The text of every page that is made."""
    made = {name: make() for name, (make, _) in MADE.items()}
    lines = [f"- [{title_of(text)}]({name}): {MADE[name][1]}" for name, text in made.items()]
    index = page("Reference", "These pages are made from the code.", "\n".join(lines))
    reference = {DOCS / "reference" / name: text for name, text in {"index.md": index, **made}.items()}
    described = {DOCS / "schemas" / name: f"{schema_text(schema)}\n" for name, schema in schemas().items()}
    return {**described, **reference, DOCS / "adr" / "index.md": choices_page()}


def choices_page() -> str:
    """The list of architecture decision records, by their titles."""
    intro = "Why Mooring is built as it is: one page for each choice that someone will question (ADR)."
    records = {path.name: title_of(path.read_text()) for path in sorted((DOCS / "adr").glob("0*.md"))}
    return page("Choices", intro, "\n".join(f"- [{title}]({name})" for name, title in records.items()))


def title_of(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def stale(made: dict[Path, str]) -> dict[Path, str]:
    """The pages that are not what they should be."""
    return {path: text for path, text in made.items() if not path.exists() or path.read_text() != text}


if __name__ == "__main__":
    main()
