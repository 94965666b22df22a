"""Progress: a bar on a terminal, lines elsewhere, nothing when quiet."""

import io

import pytest

from twopass.progress import Bar, Lines, say, shown


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """Stands still until it is told to move."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_lines_are_at_least_five_seconds_apart(clock):
    stream = io.StringIO()
    lines = Lines(stream, clock=clock)
    for second in range(13):
        clock.now = float(second)
        lines("render", second, 12)
    assert stream.getvalue() == "render: 5 of 12\nrender: 10 of 12\n"


def test_a_short_job_writes_no_line(clock):
    stream = io.StringIO()
    lines = Lines(stream, clock=clock)
    for done in range(1000):
        lines("render", done, 1000)
    lines.close()
    assert stream.getvalue() == ""


def test_lines_do_without_a_total(clock):
    stream = io.StringIO()
    lines = Lines(stream, clock=clock)
    clock.now = 6.0
    lines("record", 3, None)
    assert stream.getvalue() == "record: 3\n"


def test_a_bar_shows_what_and_how_much_and_is_removed():
    stream = Terminal()
    with shown(stream) as progress:
        assert progress
        progress("render", 1, 40)
    assert "render" in stream.getvalue()
    assert "/40" in stream.getvalue()
    assert stream.getvalue().rstrip(" ").endswith("\r")


def test_a_bar_goes_back_for_a_new_try():
    bar = Bar(Terminal())
    for done in (5, 9, 1, 2):
        bar("render", done, 10)
    assert bar.done == 2
    bar.close()


def test_a_bar_begins_again_for_something_else():
    stream = Terminal()
    bar = Bar(stream)
    bar("record", 9, 10)
    bar("render", 3, 30)
    bar.close()
    assert bar.done == 3
    assert "/10" in stream.getvalue()
    assert "/30" in stream.getvalue()


def test_a_stream_that_is_no_terminal_gets_no_bar():
    stream = io.StringIO()
    with shown(stream) as progress:
        assert progress
        progress("render", 1, 40)
    assert stream.getvalue() == ""


def test_quiet_shows_nothing():
    stream = Terminal()
    with shown(stream, quiet=True) as progress:
        assert progress is None
    assert stream.getvalue() == ""


def test_say_writes_to_the_standard_error(capsys):
    say("warning: wind")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "warning: wind\n")
