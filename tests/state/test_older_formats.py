"""Recordings of older formats and of older rules are replayed by this version. The files were written by the version of their
time. Under other rules decisions may come out otherwise; what was recorded is read all the same. A recording under the rules
of this version has equal outcomes to the end."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mooring.framework.config.settings import read_settings
from mooring.model.release import RULES
from mooring.state.recording.run_reading import runs_in
from mooring.state.recording.segment_file import FORMAT
from mooring.state.replay.replayer import Replayer, rules_notes

DATA = Path(__file__).parent / "data"
OLDER_RULES = ("1.36",)


def test_there_is_a_recording_of_each_older_format_and_of_all_rules() -> None:
    formats = {f"format-{number}" for number in range(1, FORMAT)}
    assert {folder.name for folder in DATA.iterdir()} == formats | {f"rules-{each}" for each in (*OLDER_RULES, RULES)}


def _in_words_of_v137(outcome: tuple[Any, ...]) -> tuple[Any, ...]:
    """These runs followed v1.36, whose DynamicResources always had a word to add (v1.37, 8.1)."""
    return tuple(
        part.replace("no new claims to deallocate, ", "") if isinstance(part, str) else part for part in outcome
    )


@pytest.mark.parametrize("folder", sorted(DATA.iterdir()), ids=lambda folder: folder.name)
def test_a_stored_recording_is_replayed(folder: Path) -> None:
    (run,) = runs_in(folder)
    written = int(folder.name.removeprefix("format-")) if folder.name.startswith("format-") else FORMAT
    assert {segment.format for segment in run.segments} == {written}
    settings = read_settings(run.header.settings, "")
    assert settings is not None
    is_of_these_rules = folder.name == f"rules-{RULES}"
    assert settings.rules == (RULES if is_of_these_rules else "1.36")
    for start in [None, *(segment.header.started_ns for segment in run.segments)]:
        replayer = Replayer(run)
        found: Counter[str] = Counter()
        is_alike = True
        for step in replayer.steps(start):
            recorded = step.step.outcomes
            if not is_of_these_rules:
                # v1.37, 12.2: among victims that have not started another one leaves, and what follows is another story.
                is_alike = is_alike and not any(outcome[0] == "evict" for outcome in recorded)
                recorded = tuple(map(_in_words_of_v137, recorded))
            assert not is_alike or step.outcomes == recorded
            found.update(outcome[0] for outcome in step.outcomes)
        assert replayer.problems == [] and replayer.fault_count == 0
        assert found["bind"] > 0 or start == run.segments[-1].header.started_ns
        assert found["evict"] > 0 or start is not None or not is_of_these_rules
    assert all(segment.is_ended for segment in run.segments)


def test_a_recording_of_other_rules_says_so() -> None:
    (run,) = runs_in(DATA / "rules-1.36")
    (note,) = rules_notes([run])
    assert note.startswith(
        f"the recording {run.name} was made with the rules of Kubernetes 1.36, and this version of Mooring has those of "
        f"{RULES}: decisions and messages may differ"
    )
