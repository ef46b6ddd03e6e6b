"""The JSON of every kind of answer stays as it is, byte for byte, and is what its schema in docs/schemas describes.

Set PUBLISH=1 to write the files anew: only for fields that are added.
"""

import importlib
import json
import os
import pkgutil
import re
from pathlib import Path

import jsonschema
import pytest
from command import mooring

from mooring import answers
from mooring.answers.form.answer import ClusterAnswer

ROOT = Path(__file__).parent.parent.parent
PUBLISHED = Path(__file__).parent / "published"
GROUPS = "--feature-gates=GenericWorkload=true"
CROWDED, TRAINING = "--from=examples/crowded.yaml", "--from=examples/training.yaml"
QUESTIONS = {
    "explain-all": ["explain", CROWDED],
    "explain-pending": ["explain", CROWDED, "-n", "shop", "report-0"],
    "explain-placed": ["explain", CROWDED, "shop/cart-5d8f-2"],
    "explain-workload": ["explain", CROWDED, "-n", "shop", "deployment/cart"],
    "explain-group": ["explain", "podgroup/train", TRAINING, GROUPS],
    "simulate": ["simulate", "examples/cluster.yaml", "--explain=web-0", "--story=web-0"],
    "simulate-pending": ["simulate", "examples/crowded.yaml", "--explain=shop/report-0"],
    "simulate-groups": ["simulate", "examples/training.yaml", GROUPS],
    "simulate-day": ["simulate", "examples/cluster.yaml", "--arrivals=examples/arrivals.yaml"],
    "what-if": ["what-if", CROWDED, "--drain=topology.kubernetes.io/zone=b"],
    "what-if-groups": ["what-if", TRAINING, GROUPS, "--add-nodes=1=gpu-1", "--remove-nodes=gpu-2"],
    "capacity": ["capacity", CROWDED, "examples/worker.yaml"],
    "capacity-most": ["capacity", CROWDED, "examples/worker.yaml", "--max=2"],
    "capacity-gang": ["capacity", "examples/worker.yaml", "--gang=50", TRAINING, GROUPS],
    "capacity-preempt": ["capacity", CROWDED, "examples/urgent.yaml", "--preempt"],
    "plan": ["plan", CROWDED, "--offer=examples/offers.yaml", "--apply=examples/launch.yaml"],
    "plan-shrink": ["plan", CROWDED, "--shrink"],
    "compare": ["compare", "--from=examples/cluster.yaml", "default", "examples/packed.yaml", "--vary=seed=1,2"],
    "study": ["study", "examples/studies/packing.yaml"],
    "replay": ["replay", "DIR"],
    "replay-pod": ["replay", "DIR", "--pod=web-0"],
    "agree": ["agree", "DIR"],
}
VARYING = re.compile(
    r'(?<="tookSeconds": )[^,\n]+|(?<="speed": )[^,\n]+|(?<="version": )[^,\n]+|(?<="peakMemoryBytes": )[^,\n]+'
    r'|(?<="parts": ){[^}]+}|(?<=T000000Z-)\w+'
)
"""What differs between machines, moments and versions."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("recording")
    mooring("simulate", ROOT / "examples" / "cluster.yaml", "--record", directory)
    return directory


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_json_of_an_answer_stays_as_it_is(name: str, recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    asked = [recording if each == "DIR" else each for each in QUESTIONS[name]]
    ran = mooring(*asked, "-o", "json")
    written = VARYING.sub("...", ran.out)
    file = PUBLISHED / f"{name}.json"
    if os.environ.get("PUBLISH"):
        file.write_text(written)
    assert written == file.read_text()
    schema = json.loads((ROOT / "docs" / "schemas" / f"{QUESTIONS[name][0]}.v1.json").read_text())
    jsonschema.validate(json.loads(ran.out), schema)


def test_every_kind_of_answer_has_a_schema() -> None:
    for module in pkgutil.walk_packages(answers.__path__, "mooring.answers."):
        importlib.import_module(module.name)
    text = "".join(file.read_text() for file in (ROOT / "docs" / "schemas").glob("*.json"))
    kinds = {kind.kind for kind in ClusterAnswer.__subclasses__()}
    assert len(kinds) > 10 and {kind for kind in kinds if f'"const": "{kind}"' not in text} == set()
