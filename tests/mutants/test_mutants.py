"""The planted bugs of tests/mutants fit the sources, and a sample of them is found."""

from __future__ import annotations

import pytest
from mutants.run import ROOT, Mutant, is_found, mutants, without_bugs
from support.harness import LONG

ALL = {mutant.name: mutant for mutant in mutants()}
#: Quick ones, of different parts of the store.
SAMPLE = (
    "a_deletion_is_not_taken_up_again",
    "an_acknowledgement_out_of_order_is_not_noted",
    "clean_removes_what_is_not_durable",
    "damage_counts_as_torn_after_a_power_cut",
    "the_progress_record_has_one_slot",
)
#: Quick ones that `make torture` adds. `make mutants` plants all.
LONG_SAMPLE = (
    "a_member_sleeps_without_a_second_look",
    "a_message_that_could_not_be_sent_back_is_acknowledged",
    "a_result_is_read_before_tail_passed_it",
    "append_does_not_clear_behind_wrote",
    "append_does_not_roll_back_queue_offsets",
    "damage_in_mid_log_is_cut_off",
    "permissions_go_without_a_round_of_append",
    "the_last_word_of_a_window_is_not_read",
    "timers_are_forgotten_before_they_are_durable",
    "torn_bytes_stay",
)


@pytest.mark.parametrize("mutant", ALL.values(), ids=ALL)
def test_a_planted_bug_fits_the_sources(mutant: Mutant) -> None:
    """Its text occurs once, the bug changes it, and its tests exist."""
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert mutant.planted_in(text) != text
    assert mutant.seen
    assert mutant.tests
    assert all((ROOT / test.partition("::")[0]).is_file() for test in mutant.tests)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name", [*SAMPLE, *(pytest.param(name, marks=LONG) for name in LONG_SAMPLE)]
)
def test_a_planted_bug_is_found(name: str) -> None:
    assert without_bugs([ALL[name]]) == []
    assert is_found(ALL[name]) == ""


@pytest.mark.timeout(600)
def test_a_bug_that_no_test_finds_is_told() -> None:
    """A change that breaks nothing, with a test that passes: the runner must say so."""
    harmless = Mutant(
        name="harmless",
        seen="nothing",
        file="store/retention/rules.py",
        old="def used_percent(",
        new="# nothing is changed\n\n\ndef used_percent(",
        tests=ALL["clean_removes_what_is_not_durable"].tests,
    )
    assert "passes" in is_found(harmless)


def test_a_place_that_is_gone_is_told() -> None:
    gone = Mutant("gone", "nothing", "store/names.py", "no such text", "", ())
    with pytest.raises(ValueError, match="occurs 0 times"):
        gone.planted_in((ROOT / gone.file).read_text(encoding="utf-8"))
