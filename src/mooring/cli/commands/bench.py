"""`mooring bench`: the throughput of a scenario. The measurement itself is `sim/scenario.py`."""

from typing import BinaryIO

import click
import msgspec

from mooring.cli.refusal import refusals, refuse
from mooring.cli.terminal import tell_json_text

EPILOG = """
\b
Examples:
  python tests/conformance/workloads.py basic 5000 1000 3000 > basic.json
  mooring bench basic.json
  make bench                                            all workloads of docs/parity.md

Exit status: 0 when all pods were attempted, 2 for an invalid scenario.
"""


@click.command(epilog=EPILOG, short_help="Measure the throughput of a scenario.")
@click.argument("scenario", type=click.File("rb"))
@click.option("--queue", is_flag=True, help="Measure with queue, cache and events; attempt preemptors again.")
def bench(scenario: BinaryIO, queue: bool) -> None:
    """Attempt every pod of SCENARIO once and print the throughput as one line of JSON."""
    from mooring.inputs.input_errors import ScenarioError
    from mooring.sim.scenario import measure, measure_with_queue

    with refusals():
        try:
            figures = (measure_with_queue if queue else measure)(scenario.read())
        except ScenarioError as error:
            refuse(f"{scenario.name}: {error}")
    tell_json_text(msgspec.json.encode(figures))
