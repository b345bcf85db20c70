"""What pytest loads in every run of an environment with omni-host: next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from omni_host.testing.served_model import ServedModel

pytest.register_assert_rewrite(
    "omni_host.testing.plugin_checks",
    "omni_host.testing.speech_checks",
    "omni_host.testing.process_checks",
)


@pytest.fixture(scope="module")
def serve_model() -> Iterator[Callable[..., ServedModel]]:
    """`serve_model(reference, *settings, ...)`: a `ServedModel` that runs.

    Takes what `ServedModel` takes. The same arguments give the same running model for the
    rest of the module, after which all are stopped.
    """
    from contextlib import ExitStack  # noqa: PLC0415 - nothing of the kit before it is used

    from omni_host.testing.served_model import ServedModel  # noqa: PLC0415

    with ExitStack() as stack:
        running: dict[str, ServedModel] = {}

        def serve(reference: str, *settings: str, **options: Any) -> ServedModel:
            key = repr((reference, settings, sorted(options.items())))
            if key not in running:
                running[key] = stack.enter_context(ServedModel(reference, *settings, **options))
            return running[key]

        yield serve
