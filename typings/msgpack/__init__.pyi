"""The part of msgpack that omni-host uses; the package has no types of its own."""

from collections.abc import Callable
from typing import Any, NamedTuple

from typing_extensions import Buffer

class ExtType(NamedTuple):
    code: int
    data: bytes

class Packer:
    def __init__(self, *, default: Callable[[Any], Any] | None = None) -> None: ...
    def pack(self, obj: Any, /) -> bytes: ...

def packb(o: Any, *, default: Callable[[Any], Any] | None = None) -> bytes: ...
def unpackb(packed: Buffer, *, ext_hook: Callable[[int, bytes], Any] | None = None) -> Any: ...
