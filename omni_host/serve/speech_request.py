"""What a client may ask of `/v1/audio/speech`, checked against what the model can do."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic_core import PydanticCustomError

from omni_host.audio import FORMATS, AudioFormat
from omni_host.errors import (
    InvalidRequestError,
    OmniError,
    StageFailedError,
    UnknownModelError,
)
from omni_host.graph import Task
from omni_host.serve.family_fields import family_definitions, family_values
from omni_host.serve.field_errors import invalid_fields, quoted, unknown_field

__all__ = ["Delivery", "SpeechForm", "SpeechOrder", "no_audio"]

Delivery = Literal["whole", "audio", "sse"]

DEFAULT_VOICE = "default"
"""Stands for the first voice, since the official client cannot leave `voice` out."""

_DEFAULT_FORMAT = next(iter(FORMATS))


def _voice_name(value: Any) -> Any:
    match value:
        case {"id": str(name), **rest} if not rest:
            return name
        case None | str():
            return value
        case _:
            raise PydanticCustomError("voice", 'it must be a string or {"id": "..."}')


_Voice = Annotated[
    str | None,
    BeforeValidator(_voice_name),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"id": {"type": "string"}},
                    "required": ["id"],
                    "additionalProperties": False,
                },
                {"type": "null"},
            ]
        }
    ),
]
_Format = Annotated[
    str | None,
    WithJsonSchema({"anyOf": [{"type": "string", "enum": list(FORMATS)}, {"type": "null"}]}),
]


class SpeechFields(BaseModel):
    """The fields of the OpenAI API. Null stands for a field left out."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    model: str = Field(description="The model's name, as `/v1/models` lists it.")
    input: str = Field(description="The text to speak.", min_length=1)
    voice: _Voice = Field(
        None,
        description="A voice of the model; left out, or `default`, it is the model's first one.",
    )
    instructions: str | None = Field(
        None, description="How to speak. A 400 if the model cannot be told."
    )
    response_format: _Format = Field(_DEFAULT_FORMAT, description="The audio's format.")
    speed: float | None = Field(
        1.0,
        ge=0.25,
        le=4.0,
        description="By the model if it has speeds of its own, or else by stretching the audio; "
        "the pitch stays.",
    )
    stream_format: Literal["audio", "sse"] | None = Field(
        None,
        description="`audio`: the bytes as they are made. `sse`: server-sent events. "
        "Left out: the whole audio at once.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechOrder:
    """A checked request: the runtime's payload, and how to deliver the audio.

    `tempo` is how much faster than the model speaks it is to sound.
    """

    payload: Mapping[str, Any]
    tempo: float
    format: AudioFormat
    delivery: Delivery

    @property
    def inputs(self) -> frozenset[str]:
        """The modalities that come in: text, and audio if a field holds some."""
        heard = any(isinstance(value, bytes) for value in self.payload.values())
        return frozenset({"text", "audio"} if heard else {"text"})


def no_audio(task: Task, *, emitted: bool) -> OmniError:
    """The error of a request that gave no samples: with `emitted`, all its chunks were empty,
    and so it is the text that says nothing; without, the stage has forgotten its output."""
    if emitted:
        return InvalidRequestError("The model makes no audio of this text.", field="input")
    stage = next(output.stage for output in task.outputs if output.modality == "audio")
    return StageFailedError(
        f"Stage {stage!r} ended without emitting audio.",
        hint="Its process has to await job.emit(...) of float32 arrays, at least of an empty one.",
        field=stage,
    )


class SpeechForm:
    """The fields of one model's `speech` task; `aliases` are accepted as `model` too."""

    def __init__(self, model: str, task: Task, aliases: Collection[str] = ()) -> None:
        self._model = model
        self._names = {model, *aliases}
        self._task = task
        limit = Field(
            description="The text to speak.", min_length=1, max_length=task.max_characters
        )
        self._fields: type[SpeechFields] = create_model(
            "SpeechRequest",
            __base__=SpeechFields,
            input=(str, limit),
            **family_definitions(task, SpeechFields.model_fields),
        )
        self._known = {*SpeechFields.model_fields, *(field.name for field in task.fields)}

    def schema(self) -> dict[str, Any]:
        """The JSON schema, with an example that works."""
        schema = self._fields.model_json_schema()
        example = {"model": self._model, "input": "The quick brown fox."}
        voice = {"voice": self._task.voices[0]} if self._task.voices else {}
        return {**schema, "examples": [{**example, **voice}]}

    def read(self, data: Mapping[str, Any]) -> SpeechOrder:
        """Check a request. Raises InvalidRequestError or UnknownModelError."""
        # pydantic would list every one of very many unknown fields.
        unknown = next((name for name in data if name not in self._known), None)
        if unknown is not None:
            raise unknown_field(unknown, self._known)
        try:
            asked = self._fields.model_validate(data)
        except ValidationError as error:
            raise invalid_fields(error.errors(include_url=False)) from None
        if asked.model not in self._names:
            raise UnknownModelError(
                f"The model {quoted(asked.model)} does not exist.",
                hint=f"This server has '{self._model}'.",
                field="model",
            )
        speed = 1.0 if asked.speed is None else asked.speed
        by_model = "speed" in self._task.honours
        return SpeechOrder(
            payload={
                "text": _text(asked.input),
                "voice": self._voice(asked.voice),
                "instructions": self._honoured("instructions", asked.instructions or None),
                "speed": speed if by_model and speed != 1 else None,
                **family_values(self._task, asked),
            },
            tempo=1.0 if by_model else speed,
            format=_format(
                _DEFAULT_FORMAT if asked.response_format is None else asked.response_format
            ),
            delivery=asked.stream_format or "whole",
        )

    def _voice(self, name: str | None) -> str | None:
        voices = self._task.voices
        if name in voices:
            return name
        if name is None or name == DEFAULT_VOICE:
            return voices[0] if voices else None
        raise InvalidRequestError(
            f"There is no voice {quoted(name)}.",
            hint=f"Known voices: {', '.join(voices) or DEFAULT_VOICE}.",
            field="voice",
        )

    def _honoured(self, field: str, value: Any) -> Any:
        if value is not None and field not in self._task.honours:
            raise InvalidRequestError(
                f"The model '{self._model}' does not support '{field}'.",
                hint="Leave it out.",
                field=field,
            )
        return value


def _text(text: str) -> str:
    if not text.strip():
        raise InvalidRequestError("The input has no text to speak.", field="input")
    return text


def _format(name: str) -> AudioFormat:
    if name not in FORMATS:
        raise InvalidRequestError(
            f"The response_format {quoted(name)} is not available.",
            hint=f"Available: {', '.join(FORMATS)}.",
            field="response_format",
        )
    return FORMATS[name]
