from __future__ import annotations

import tempfile

import pytest


@pytest.fixture(autouse=True, scope="session")
def private_temporary_folder():
    """Folders of other hosts on this machine must not look like left-overs of these tests.

    Under pytest's own the names of sockets would be too long.
    """
    with tempfile.TemporaryDirectory(prefix="omnitest-", dir="/tmp") as folder:
        before, tempfile.tempdir = tempfile.tempdir, folder
        yield
        tempfile.tempdir = before
