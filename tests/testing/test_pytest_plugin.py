from __future__ import annotations

import subprocess
import sys

LOADED = """
import sys
import pytest
before = set(sys.modules)
import omni_host.testing.pytest_plugin
print(*sorted(set(sys.modules) - before))
"""


def test_it_loads_nothing_of_the_kit_before_that_is_used():
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [
        "omni_host",
        "omni_host.testing",
        "omni_host.testing.pytest_plugin",
    ]


def test_pytest_loads_it(request):
    assert request.config.pluginmanager.get_plugin("omni_host") is not None
