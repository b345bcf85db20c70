from __future__ import annotations

import os
import sys

import pytest

from tests.testing.contract_runs import Site


@pytest.fixture(scope="module")
def toy_site(tmp_path_factory):
    """The toy voice installed, for this process and for those that it starts."""
    site = Site(tmp_path_factory.mktemp("toy") / "site")
    site.install("toy_voice")
    folder, modules = str(site.folder), set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", folder + os.pathsep + os.environ.get("PYTHONPATH", ""))
        patch.setattr(sys, "dont_write_bytecode", True)
        yield site
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(folder):
            del sys.modules[name]
