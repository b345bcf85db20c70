"""What a terminal stage gives to the client, checked where it leaves the stage."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from omni_host.errors import StageFailedError
from omni_host.transports.tensors import is_tensor

__all__ = ["checked"]

_AUDIO = "audio is a float32 array [samples], mono, -1..1"
_TEXT = "text is a str"


def checked(stage: str, modality: str, chunk: Any) -> Any:
    """`chunk` as it may leave `stage`; a torch tensor of audio comes out as numpy, uncopied.

    Chunks of modalities other than `audio` and `text` are the family's own business.
    Raises StageFailedError that says what is wrong.
    """
    if modality == "audio":
        return _audio(stage, chunk)
    if modality == "text" and not isinstance(chunk, str):
        raise _fault(stage, _named(chunk), "text", _TEXT)
    return chunk


def _audio(stage: str, chunk: Any) -> NDArray[np.float32]:
    if not is_tensor(chunk):
        raise _fault(stage, _named(chunk), "audio", _AUDIO)
    array: Any = chunk if type(chunk) is np.ndarray else _from_torch(stage, chunk)
    if array.dtype != np.float32:
        dtype = str(array.dtype).removeprefix("torch.")
        raise _fault(stage, f"an array of {dtype}", "audio", _AUDIO, _conversion(dtype))
    if array.ndim != 1:
        raise _fault(stage, f"an array of shape {tuple(array.shape)}", "audio", _AUDIO)
    if not np.isfinite(array).all():
        raise _fault(stage, "NaN or infinite samples", "audio", _AUDIO)
    return array


def _from_torch(stage: str, tensor: Any) -> Any:
    if isinstance(tensor, np.ndarray):  # of a subclass, such as a memory map
        return cast("Any", tensor)
    if tensor.device.type != "cpu":
        raise _fault(stage, f"a tensor on {tensor.device}", "audio", _AUDIO, "Use .cpu().")
    return tensor.detach().numpy() if str(tensor.dtype) == "torch.float32" else tensor


def _conversion(dtype: str) -> str:
    if dtype == "int16":
        return "Divide it by 32768 in float32."
    return "Convert it to float32." if dtype.startswith(("float", "bfloat")) else ""


def _fault(stage: str, what: str, modality: str, rule: str, hint: str = "") -> StageFailedError:
    return StageFailedError(
        f"Stage {stage!r} emitted {what} as {modality}; {rule}", hint=hint, field=stage
    )


def _named(value: object) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
