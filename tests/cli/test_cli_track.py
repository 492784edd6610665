"""`nmt track`: the command that a training starts is one that the command line understands."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nmt.cli.track import follow
from nmt.tracking.follow import start_follower


def test_a_training_starts_its_follower(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    start_follower(Path("run"), Path("tracking.json"), "table/system", 3)
    assert started[0][1:5] == ["-m", "nmt", "track", "follow"]
    values: dict[str, Any] = follow.make_context("follow", started[0][5:]).params
    assert values == {
        "run": Path("run"), "tracking": Path("tracking.json"), "name": "table/system", "seed": 3, "pid": os.getpid(),
    }  # fmt: skip
