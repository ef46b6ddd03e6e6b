"""`mooring completion`: what it prints and writes, what it leaves alone, and the answers that the scripts ask for."""

import stat
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from command import mooring
from hypothesis import given
from hypothesis import strategies as st

from mooring.cli.commands.completion import place_of
from mooring.cli.completion_scripts import MARK, SHELLS, offer_values, script
from mooring.cli.main import Commands, main

PLACES = {
    "bash": ".local/share/bash-completion/completions/mooring",
    "zsh": ".local/share/zsh/site-functions/_mooring",
    "fish": ".config/fish/completions/mooring.fish",
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "BASH_COMPLETION_USER_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


# ---- the command


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed_and_nothing_is_written(shell: str, home: Path) -> None:
    ran = mooring("completion", shell)
    assert (ran.code, ran.out) == (0, script(shell))
    assert list(home.iterdir()) == []


def test_zsh_finds_what_it_looks_for_in_the_first_line() -> None:
    assert script("zsh").splitlines()[:2] == ["#compdef mooring", MARK]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_put_where_the_shell_looks_for_it(shell: str, home: Path) -> None:
    ran = mooring("completion", "--install", shell)
    path = home / PLACES[shell]
    assert ran.code == 0 and path.read_text() == script(shell)
    assert ran.out.splitlines()[0] == f"The completion for {shell} is in {path}. Delete this file to remove it."
    assert not stat.S_IMODE(path.stat().st_mode) & 0o111
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_without_a_name_it_is_for_the_shell_of_the_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert mooring("completion", "--install").out.splitlines()[1] == "New shells use it."
    assert (home / PLACES["fish"]).exists()


def test_what_is_left_to_do_is_told(home: Path) -> None:
    told = mooring("completion", "--install", "zsh").out.splitlines()[1]
    folder = (home / PLACES["zsh"]).parent
    assert told == f"Add this to ~/.zshrc before compinit, unless fpath has the folder already: fpath=({folder} $fpath)"


def test_folders_of_the_user_are_respected() -> None:
    chosen = {"HOME": "/h", "XDG_DATA_HOME": "/d", "XDG_CONFIG_HOME": "/c"}
    assert [str(place_of(shell, chosen)) for shell in ("bash", "zsh", "fish")] == [
        "/d/bash-completion/completions/mooring",
        "/d/zsh/site-functions/_mooring",
        "/c/fish/completions/mooring.fish",
    ]
    assert str(place_of("bash", {**chosen, "BASH_COMPLETION_USER_DIR": "/b"})) == "/b/completions/mooring"


def test_its_own_file_is_replaced(home: Path) -> None:
    path = home / PLACES["zsh"]
    path.parent.mkdir(parents=True)
    path.write_text(f"#compdef mooring\n{MARK}\nan older script\n")
    assert mooring("completion", "--install", "zsh").code == 0
    assert path.read_text() == script("zsh")


@pytest.mark.parametrize(
    "text", ["", "my own\n", f"one\ntwo\n{MARK}\n"], ids=["empty", "another", "the mark elsewhere"]
)
def test_a_file_of_somebody_else_stays_as_it_is(text: str, home: Path) -> None:
    path = home / PLACES["bash"]
    path.parent.mkdir(parents=True)
    path.write_text(text)
    ran = mooring("completion", "--install", "bash")
    assert (ran.code, ran.out, path.read_text()) == (2, "", text)
    reason = "this file was not written by `mooring completion --install`; move it away, then repeat"
    assert ran.complaints == [f"{path}: {reason}"]


def test_a_link_is_not_followed(home: Path) -> None:
    path = home / PLACES["bash"]
    path.parent.mkdir(parents=True)
    (home / "mine").write_text(script("bash"))
    path.symlink_to(home / "mine")
    assert mooring("completion", "--install", "bash").code == 2
    assert path.is_symlink()


def test_a_folder_that_cannot_be_made_is_named(home: Path) -> None:
    (home / ".local").write_text("a file")
    ran = mooring("completion", "--install", "bash")
    assert (ran.code, ran.complaints) == (2, [f"{home / PLACES['bash']}: cannot be written: Not a directory"])


def test_an_unknown_shell_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    ran = mooring("completion", "--install")
    assert ran.code == 2
    assert ran.complaints == ["SHELL is '/bin/tcsh': name a shell, as in mooring completion --install bash"]
    assert mooring("completion").code == 2
    assert mooring("completion", "tcsh").code == 2


# ---- the answers


def answers(line: str, monkeypatch: pytest.MonkeyPatch, shell: str = "fish", **environment: str) -> list[list[str]]:
    """Kind, value and help of each answer to a line."""
    monkeypatch.setenv("_MOORING_COMPLETE", f"{shell}_complete")
    for name, value in {"COMP_LINE": line, **environment}.items():
        monkeypatch.setenv(name, value)
    told: ShellComplete = SHELLS[shell](main, {}, "mooring", "_MOORING_COMPLETE")
    return [each.split("\t") for each in told.complete().splitlines()]


def test_commands_come_with_their_help_and_none_is_imported_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Commands, ctx: click.Context, name: str) -> None:
        raise AssertionError(f"{name} is imported")

    monkeypatch.setattr(Commands, "get_command", fail)
    told = answers("mooring what", monkeypatch)
    assert told == [["plain", "what-if", "Change a cluster in a simulation: what moves, what fits?"]]


def test_the_help_is_that_of_the_command() -> None:
    context = click.Context(main)
    told = {item.value: item.help for item in main.shell_complete(context, "")}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None and told[name] == command.short_help, name


def test_every_file_and_directory_in_the_help_is_completed() -> None:
    """Flags that other commands get later are completed too, if their help says FILE or DIR."""

    @click.command()
    @click.option("--in", "in_", metavar="FILE[=N]")
    @click.option("--out", metavar="DIR")
    @click.option("--name", metavar="PROFILE")
    @click.argument("rest", nargs=-1, metavar="[FILE]...")
    def command(in_: str, out: str, name: str, rest: str) -> None: ...

    offer_values(command)
    types = {param.name: param.type for param in command.params}
    assert isinstance(types["in_"], click.Path) and types["in_"].file_okay
    assert isinstance(types["out"], click.Path) and not types["out"].file_okay
    assert isinstance(types["rest"], click.Path)
    assert not isinstance(types["name"], click.Path)


def test_commands_are_as_they_are_while_no_shell_asks() -> None:
    command = main.get_command(click.Context(main), "compare")
    assert command is not None
    assert not any(isinstance(param.type, click.Path) for param in command.params)


def test_bash_is_not_told_again_what_it_keeps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    contexts = '{contexts: [{name: "a:b:c", context: {cluster: x, user: x}}]}'
    (tmp_path / "config").write_text(contexts)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    for line, breaks, value in [
        ("mooring explain --context a:b", "=:", "b:c"),
        ("mooring explain --context=a:b", "=:", "b:c"),
        ("mooring explain --context=a:b", "=", "a:b:c"),
        ("mooring explain --context=a:b", "", "a:b:c"),
    ]:
        assert answers(line, monkeypatch, "bash", COMP_WORDBREAKS=breaks) == [["plain", value, ""]]


@pytest.mark.parametrize("text", ["{", "[]", "contexts: 3", "kind: Pod"])
def test_a_broken_kubeconfig_gives_no_answers(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert answers("mooring explain --context ", monkeypatch) == []
    assert answers("mooring explain --kubeconfig /nowhere --context ", monkeypatch) == []


@given(
    rest=st.text(max_size=30),
    shell=st.sampled_from(sorted(SHELLS)),
    begins=st.sampled_from(["", "mooring ", "mooring run "]),
)
def test_no_line_is_too_strange(rest: str, shell: str, begins: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for kind, *_ in answers(begins + rest.replace("\0", ""), patch, shell):
            assert kind in ("plain", "file", "dir")
