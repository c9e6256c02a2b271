"""A process spins while that pays."""

from silomq.actors.spinning import Spinning


def test_it_spins_until_that_was_in_vain_three_times() -> None:
    spinning = Spinning(200)
    for pause in (1000, 1000, 200, 1000, 1000):
        assert spinning.spin_ns == 200
        spinning.paused(pause)
    assert spinning.spin_ns == 200
    spinning.paused(201)
    assert spinning.spin_ns == 0
    spinning.paused(1000)
    assert spinning.spin_ns == 0


def test_one_short_pause_has_it_spin_again() -> None:
    spinning = Spinning(200)
    for _ in range(10):
        spinning.paused(1000)
    assert spinning.spin_ns == 0
    spinning.paused(60)
    assert spinning.spin_ns == 200


def test_a_spin_of_nothing() -> None:
    assert Spinning(0).spin_ns == 0
