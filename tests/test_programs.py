"""Tests ask for programs in one place (programs.py). Without a program they are skipped with a sentence; nothing fails."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import programs
from programs import (
    BASH,
    CHROMIUM,
    FISH,
    GIT,
    HELM,
    KUBECTL,
    MAKE,
    NODE,
    PROGRAMS,
    PROMTOOL,
    ROOT,
    SHELLCHECK,
    WEB_PACKAGES,
    ZSH,
    Program,
    needs,
)

TESTS = ROOT / "tests"
RUN_WITHOUT: dict[Program, tuple[str, ...]] = {
    BASH: ("tests/cli/test_completion_in_shells.py", "tests/docs/test_tutorial.py", "-k", "bash or reader"),
    ZSH: ("tests/cli/test_completion_in_shells.py", "-k", "zsh"),
    FISH: ("tests/cli/test_completion_in_shells.py", "-k", "fish"),
    GIT: (
        *("tests/packaging/test_distributions.py", "tests/test_adding_a_plugin.py", "tests/test_adding_a_metric.py"),
        *("tests/test_adding_a_kind.py", "tests/test_adding_a_command.py", "tests/test_adding_a_controller.py"),
        *("tests/test_bench_records.py", "-k", "test_adding or wheel or sdist or installed or twine or day or dirty"),
    ),
    PROMTOOL: ("tests/deploy/test_monitoring.py", "-k", "promtool"),
    SHELLCHECK: ("tests/packaging/test_release.py", "-k", "shellcheck"),
    CHROMIUM: (
        *("tests/browser/test_keys_and_connection.py", "tests/browser/test_dashboard_pages.py"),
        *("tests/browser/test_hostile_names.py", "tests/docs/test_site.py"),
        *("-k", "test_dashboard_pages or names or keys or file_system"),
    ),
    KUBECTL: (
        *("tests/e2e/test_kubectl.py", "tests/e2e/test_examples_on_a_cluster.py", "tests/docs/test_tutorial.py"),
        *("tests/cli/test_replay_command.py", "tests/apiclient/test_client.py", "tests/api/test_protobuf.py"),
        *("-k", "(kubectl or reader or cluster or go_on) and not demonstration"),
    ),
    MAKE: ("tests/test_habits.py", "-k", "says_so_first"),
    HELM: ("tests/deploy/test_chart.py", "tests/deploy/test_rbac.py"),
    NODE: ("tests/dashboard/test_web_build.py", "-k", "new_build"),
}
"""Tests that need each program, as arguments of pytest. What else the files have is left out, since it takes minutes."""

WITHOUT_THOSE_BESIDE = """\
import sys, pytest
sys.path.insert(0, "tests")
import programs
programs.BESIDE = ""
sys.exit(pytest.main(sys.argv[1:]))
"""


def modules(words: str) -> Iterator[tuple[Path, ast.Module]]:
    """Modules of tests with one of these words in their text: only they are worth parsing."""
    for path in sorted(TESTS.rglob("*.py")):
        if path.name not in ("programs.py", "test_programs.py") and re.search(words, text := path.read_text()):
            yield path, ast.parse(text)


def path_without(folder: Path, *programs: Program) -> str:
    """A folder with links to all programs of the PATH but these."""
    left_out = {program.name for program in programs}
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for each in place.iterdir() if place.is_dir() else ():
            link = folder / each.name
            if each.name not in left_out and not link.is_symlink():
                link.symlink_to(each)
    return str(folder)


def tried_without(arguments: Iterable[str], path: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_THOSE_BESIDE, *arguments, "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
def test_without_any_program_tests_are_skipped_with_the_sentences_of_all(tmp_path: Path) -> None:
    """One run for the first file of each program; a test that needs two of them names one."""
    files = {arguments[0] for arguments in RUN_WITHOUT.values()}
    chosen = " or ".join(f"({arguments[-1]})" for arguments in RUN_WITHOUT.values() if "-k" in arguments)
    ran = tried_without(
        [*sorted(files), "-k", f"{chosen} or test_chart or test_rbac"], path_without(tmp_path, *RUN_WITHOUT)
    )
    assert " failed" not in ran.stdout and " error" not in ran.stdout, ran.stdout[-3000:] + ran.stderr
    missing = [program for program in RUN_WITHOUT if f": {program.missing()}" not in ran.stdout]
    assert missing == [], ran.stdout[-3000:]


@pytest.mark.soak
@pytest.mark.parametrize("program", RUN_WITHOUT, ids=lambda program: program.name)
def test_without_a_program_its_tests_are_skipped_with_one_sentence(program: Program, tmp_path: Path) -> None:
    """All of them are skipped: a test of the table that passes does not need the program."""
    ran = tried_without(RUN_WITHOUT[program], path_without(tmp_path, program))
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr
    count = re.search(rf"^(\d+) tests?: {re.escape(program.missing())}$", ran.stdout, re.MULTILINE)
    assert count is not None, ran.stdout[-3000:]
    assert re.match(rf"{count[1]} skipped(, \d+ deselected)? in ", ran.stdout.splitlines()[-1]), ran.stdout[-3000:]


def test_each_program_has_a_sentence_and_tests_that_run_without_it() -> None:
    assert {*PROGRAMS} == {*RUN_WITHOUT, WEB_PACKAGES}
    assert CHROMIUM.missing() == "chromium is missing: `make test` as root installs Debian's package chromium"
    for program in PROGRAMS:
        assert re.fullmatch(rf"{program.name} is missing: [^\n]+", program.missing())


def test_only_one_module_looks_for_programs_and_packages() -> None:
    """`make test` installs all packages of the extra `dev`, so no test has to look for one."""
    asked = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path, tree in modules("which|importorskip")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("which", "importorskip")
        and ast.unparse(node) in ("shutil.which", "pytest.importorskip")
    ]
    assert asked == []


def test_every_command_that_a_test_runs_names_its_program_by_the_table() -> None:
    named = {program.name for program in PROGRAMS} | {"npm", "docker"}
    running = r"subprocess|Popen|check_output|a_shell|execv"
    flags = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path, tree in modules(running)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and re.search(running, ast.unparse(node.func))
        for literal in ast.walk(node)
        if isinstance(literal, ast.List | ast.Tuple) and literal.elts
        if isinstance(first := literal.elts[0], ast.Constant) and first.value in named
    ]
    assert flags == []


# ---- asking


def test_a_program_is_found_on_the_path_and_beside_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program("mooring-test-program", "it is made by a test")
    assert program.path() is None
    with pytest.raises(pytest.skip.Exception, match=r"^mooring-test-program is missing: it is made by a test$"):
        program.required()
    assert needs(program).args == (True,) and needs(program).kwargs == {"reason": program.missing()}
    made = tmp_path / "mooring-test-program"
    made.write_text("#!/bin/sh\n")
    made.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.path() == program.required() == str(made) and needs(program).args == (False,)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(programs, "BESIDE", str(tmp_path))
    assert program.required() == str(made)


def test_a_folder_is_there_or_not(tmp_path: Path) -> None:
    assert Program("f", "s", folder=tmp_path).required() == str(tmp_path)
    assert Program("f", "s", folder=tmp_path / "none").path() is None


# ---- installing

FAKE_APT = """\
#!/bin/sh
echo "$*" >> "$TOLD"
[ "$1" = update ] && { : > "$TOLD.updated"; exit 0; }
[ -e "$TOLD.updated" ] || exit 100
for package; do :; done
[ "$package" = zsh ] && exit 100
printf '#!/bin/sh\\n' > "$BIN/$package" && chmod +x "$BIN/$package"
"""


def a_machine(folder: Path, monkeypatch: pytest.MonkeyPatch, user: int) -> Path:
    """A machine whose only program is an apt-get that knows fish and git. Returns the file of the calls of apt-get."""
    folder.mkdir()
    (folder / "apt-get").write_text(FAKE_APT)
    (folder / "apt-get").chmod(0o755)
    (folder / "chmod").symlink_to("/bin/chmod")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("BIN", str(folder))
    monkeypatch.setenv("TOLD", str(folder / "told"))
    monkeypatch.setattr(programs, "BESIDE", "")
    monkeypatch.setattr(programs, "PROGRAMS", (FISH, ZSH, GIT))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    return folder / "told"


def test_root_installs_what_is_missing_and_goes_on_where_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = a_machine(tmp_path / "bin", monkeypatch, user=0)
    programs.install_missing()
    programs.tell_missing()
    install = "install -qq -y --no-install-recommends"
    calls = [f"{install} fish", "update -qq", f"{install} fish", f"{install} zsh", "update -qq", f"{install} zsh"]
    assert told.read_text().splitlines() == [*calls, f"{install} git"]
    assert capsys.readouterr().out.splitlines() == [
        f"fish is missing: running apt-get {install} fish",
        f"zsh is missing: running apt-get {install} zsh",
        f"git is missing: running apt-get {install} git",
        "Tests are skipped, because zsh is missing: `make test` as root installs Debian's package zsh",
    ]
    programs.install_missing()
    assert f"{install} fish" not in told.read_text().splitlines()[7:], "what is there is not installed again"


def test_another_user_installs_nothing_and_reads_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = a_machine(tmp_path / "bin", monkeypatch, user=1000)
    programs.install_missing()
    programs.tell_missing()
    assert not told.exists()
    assert len(capsys.readouterr().out.splitlines()) == 3
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (tmp_path / "bin" / "apt-get").unlink()
    programs.install_missing()
    assert not told.exists(), "and so does root on a system without apt-get"


def test_programs_are_installed_before_python_has_its_packages(tmp_path: Path) -> None:
    """`make test` installs them while pip works: the module may not import what only the environment has."""
    (tmp_path / "pytest.py").write_text("raise ImportError")
    early = [sys.executable, str(TESTS / "programs.py"), "early"]
    ran = subprocess.run(
        early, env={"PYTHONPATH": str(tmp_path), "PATH": ""}, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_a_command_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(programs, "PATIENCE_S", 0.05)
    assert not programs.succeeds([sys.executable, "-c", "import time; time.sleep(60)"])
    assert "timed out after 0.0" in capsys.readouterr().err
    assert not programs.succeeds(["/nowhere/apt-get"])


# ---- the summary


SKIPPING = """\
import pytest

@pytest.mark.parametrize("n", range(3))
def test_a(n):
    pytest.skip("there is no a\\nmore of it")

@pytest.mark.skipif(True, reason="there is no b")
def test_b(): pass

def test_c(): pass
"""


def test_reasons_of_skipped_tests_are_printed_once_each(tmp_path: Path) -> None:
    (tmp_path / "test_skipping.py").write_text(SKIPPING)
    arguments = ["-q", "--rootdir", str(tmp_path), "-p", "conftest", "-p", "no:cacheprovider", "test_skipping.py"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    printed = ran.stdout.splitlines()
    start = next(i for i, line in enumerate(printed) if "skipped tests" in line)
    assert printed[start + 1 : start + 3] == ["3 tests: there is no a", "1 test: there is no b"]
