"""How the examples in docstrings and pages are run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from _pytest.doctest import DoctestItem


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow for compiling in the pages whose examples build scenes."""
    for item in items:
        if item.path.name in ("README.md", "genesis.md"):
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(autouse=True)
def example_folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Run an example in an empty folder, with events apart from its output."""
    if isinstance(request.node, DoctestItem):
        monkeypatch.chdir(tmp_path)
        # At the time of use: pytest has replaced the stream by then.
        structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))
    yield
    structlog.reset_defaults()
