"""docs/reference is what the code gives, and leaves nothing out."""

import json
import re
import sys
from pathlib import Path

import click
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))

import reference
import reference_text
from gate_notes import GATE_NOTES
from reference_commands import exit_texts, walk
from reference_python import ANSWERS, signature
from reference_schemas import fields, forms, heading

from docs_pages import DOCS, ROOT
from mooring.framework.config.feature_gates import EFFECTIVE, GATES, OF_EMBEDDED, OF_SCHEDULERS
from mooring.framework.config.types import Extender, KubeSchedulerConfiguration
from mooring.framework.profile.metric_catalogue import METRICS_FILE
from mooring.inputs.generated_load import GeneratedLoad

METRICS = METRICS_FILE.read_text()


def page(name: str) -> str:
    return (DOCS / "reference" / name).read_text()


def test_the_pages_are_what_the_code_gives() -> None:
    assert [str(path) for path in reference.stale(reference.pages())] == [], "make reference"


def test_every_command_and_option_is_described() -> None:
    text = page("commands.md")
    parts = {part.partition("\n")[0]: part for part in text.split("\n## ")}
    for name, command, _ in walk():
        options = [option for option in command.params if isinstance(option, click.Option)]
        missing = [opt for option in options for opt in option.opts if f"`{opt}`" not in parts[name]]
        assert missing == [], name


def test_every_command_that_does_something_has_its_exit_codes() -> None:
    told = {name for name, _ in exit_texts()}
    doing = {name for name, command, _ in walk() if not isinstance(command, click.Group)}
    assert {name for name in doing if not any(f"{name} ".startswith(f"{each} ") for each in told)} == set()


def test_every_metric_that_the_code_names_is_described() -> None:
    """A name that the code has in quotes where it declares a metric, or that a row of the catalogue has."""
    source = "".join(path.read_text() for path in (ROOT / "src" / "mooring").rglob("*.py"))
    names = {
        *re.findall(r"Description\(\s*\"([a-z_]+)\"", source),
        *re.findall(r"^([a-z_]+) \|", METRICS, re.MULTILINE),
    }
    assert len(names) > 60
    assert {name for name in names if f"`{name}`" not in page("metrics.md")} == set()


def test_every_gate_and_every_field_is_described() -> None:
    assert {gate for gate in GATES if f"| `{gate}` |" not in page("feature-gates.md")} == set()
    for kind in (KubeSchedulerConfiguration, Extender):
        names = [name for name in kind.__struct_encode_fields__ if f"| `{name}` |" not in page("configuration.md")]
        assert names == []


def test_every_gate_of_a_scheduler_has_its_effect_and_a_test_that_is_there() -> None:
    assert GATE_NOTES.keys() == OF_SCHEDULERS | OF_EMBEDDED
    for name, note in GATE_NOTES.items():
        assert note.effect and note.ours, name
        assert not note.test or (ROOT / "tests" / note.test).is_file(), name
    assert [name for name in EFFECTIVE | OF_EMBEDDED if not GATE_NOTES[name].test] == []


def test_defaults_are_those_of_a_scheduler_without_a_file() -> None:
    text = page("configuration.md")
    for row in (
        "| `leaseDuration` | duration | `15s` |",
        "| `podMaxBackoffSeconds` | int64 | `10` |",
        "| `hardPodAffinityWeight` | int32 | `1` |",
        "| `filterTimeout` | duration | `10s` |",
    ):
        assert row in text


@pytest.mark.parametrize("path", sorted((DOCS / "schemas").glob("*.json")), ids=lambda path: path.name)
def test_every_schema_has_its_fields_on_the_page(path: Path) -> None:
    schema = json.loads(path.read_text())
    part = page("schemas.md").partition(f"## {heading(path.name)}\n")[2].partition("\n## ")[0]
    for _, form in forms(schema):
        names = [name for name, *_ in fields(schema, form)]
        assert form["properties"].keys() <= {*names}
        assert [name for name in names if f"| `{name}` |" not in part] == []


def test_the_form_of_an_explanation_has_the_fields_of_its_pod() -> None:
    schema = json.loads((DOCS / "schemas" / "explain.v1.json").read_text())
    names = [name for name, *_ in fields(schema, dict(forms(schema))["Explanation"])]
    assert {"kind", "pod", "cures[].change", "reasons[].plugin"} <= {*names}
    assert "waitsFor" in names and len(names) == len({*names})


def test_fields_of_a_schema_are_found_below_lists_mappings_and_references() -> None:
    tree = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    by_name = {"type": "object", "additionalProperties": {"type": "object", "properties": {"b": {"type": "string"}}}}
    schema = {
        "required": ["a"],
        "properties": {"a": by_name, "t": {"$ref": "#/$defs/tree", "description": "A tree."}},
        "$defs": {"tree": tree},
    }
    assert [*fields(schema, schema)] == [
        ("a", "object", True, ""),
        ("a{}.b", "string", False, ""),
        ("t", "object", False, "A tree."),
        ("t.children", "list of object", False, ""),
    ]


def test_every_answer_that_a_notebook_gets_is_described() -> None:
    text = page("python.md")
    assert [answer.__name__ for answer in ANSWERS if f"\n### {answer.__name__}\n" not in text] == []
    assert signature(GeneratedLoad.__len__) == "__len__() -> int"


def test_every_type_that_a_signature_names_is_described() -> None:
    text = page("python.md")
    known = {
        "Any",
        "None",
        "Mapping",
        "Sequence",
        "QuestionedCluster",
        *(each.__name__ for each in ANSWERS),
    }
    named = {
        name for part in re.findall(r"```python\n(.*?)```", text, re.DOTALL) for name in re.findall(r"\b[A-Z]\w+", part)
    }
    assert {name for name in named - known - {"True", "False"} if f"| `{name}` |" not in text} == set()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b *c* <d> | e", r"a\_b \*c\* &lt;d&gt; \| e"),
        ("`a_b <c>`", "`a_b <c>`"),
        ("`a <b>|c`", "<code>a &lt;b&gt;&#124;c</code>"),
        ("see docs/simulation.md", "see [simulation.md](../simulation.md)"),
        ("(docs/schemas)", "([JSON of answers](schemas.md))"),
        ("two\n  lines", "two lines"),
    ],
)
def test_texts_of_the_code_are_neither_markup_nor_html(text: str, shown: str) -> None:
    assert reference_text.prose(text) == shown


def test_check_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "DOCS", tmp_path)
    monkeypatch.setattr(reference, "MADE", {"exit-codes.md": reference.MADE["exit-codes.md"]})
    with pytest.raises(SystemExit, match=r"exit-codes\.md is not what the code gives: make reference"):
        reference.main(["--check"])
    assert [*tmp_path.iterdir()] == []
    reference.main([])
    assert capsys.readouterr().out.startswith(f"wrote {tmp_path}")
    with pytest.raises(SystemExit) as ended:
        reference.main(["--check"])
    assert ended.value.code == 0
