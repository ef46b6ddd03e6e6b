"""`kubectl mooring`: the command by the name that kubectl gives it, and completion in the form that kubectl asks for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.kubectl_plugin import PROGRAM, complete
from mooring.cli.main import main
from programs import BESIDE, KUBECTL, needs


def asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    """The answers for a line, without their help, and the directive."""
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-mooring", *words])
    monkeypatch.setenv("_MOORING_COMPLETE", "")
    complete()
    *answers, directive = capsys.readouterr().out.splitlines()
    return [answer.partition("\t")[0] for answer in answers], directive


def test_help_names_the_command_as_it_was_called() -> None:
    ran = CliRunner().invoke(main, ["explain", "--help"], prog_name=PROGRAM)
    assert ran.stdout.startswith("Usage: kubectl mooring explain ")


@pytest.mark.parametrize(
    ("words", "answers", "directive"),
    [
        (("expl",), ["explain"], ":4"),
        (("what",), ["what-if"], ":4"),
        (("explain", "--conte"), ["--context"], ":4"),
        (("explain", "--all"), ["--all-namespaces", "--all-contexts"], ":4"),
        (("capacity", "--all"), ["--all-contexts"], ":4"),
        (("plan", "--color", "a"), ["auto", "always"], ":4"),
        (("simulate", ""), [], ":0"),
    ],
    ids=["a command", "a command with a dash", "a flag", "all namespaces", "all clusters", "a choice", "files"],
)
def test_answers_are_lines_and_a_directive(
    words: tuple[str, ...],
    answers: list[str],
    directive: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert asked(monkeypatch, capsys, *words) == (answers, directive)


def test_contexts_of_the_kubeconfig_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncontexts:\n- {name: west, context: {}}\n- {name: east, context: {}}\n"
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert asked(monkeypatch, capsys, "explain", "--context", "w") == (["west"], ":4")
    assert asked(monkeypatch, capsys, "plan", "--context", "west", "--context", "") == (["east", "west"], ":4")


@needs(KUBECTL)
@pytest.mark.slow
def test_kubectl_finds_the_plugin_and_its_completion(tmp_path: Path) -> None:
    kubectl = KUBECTL.required()
    environment = {"PATH": f"{BESIDE}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    listed = subprocess.run([kubectl, "plugin", "list"], env=environment, capture_output=True, text=True, timeout=60)
    assert "kubectl-mooring" in listed.stdout
    shown = subprocess.run(
        [kubectl, "mooring", "--version"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (shown.returncode, shown.stdout.startswith("mooring, version ")) == (0, True)
    offered = subprocess.run(
        [kubectl, "__complete", "mooring", "expl"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert offered.stdout.splitlines()[0].startswith("explain\t")
