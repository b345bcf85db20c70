"""Where the code of a plugin is, what it raised there, and who can put it right."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from omni_host.plugins.faults import as_sentence, did_you_mean, upgrade_or_block

__all__ = ["PluginSource", "raised"]

INSTALLED = frozenset({"site-packages", "dist-packages"})
_KEYWORD = re.compile(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSource:
    """`file` is that of the plugin's module, `root` the package or module it is part of."""

    package: str
    file: Path
    root: Path

    @classmethod
    def of(cls, module: str) -> PluginSource | None:
        """Found without running any of its code; None if it is nowhere, or in no file."""
        package, *rest = module.split(".")
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            return None
        if spec is None:
            return None
        if not spec.submodule_search_locations:
            file = Path(spec.origin or "")
            return cls(package=package, file=file, root=file) if file.is_file() else None
        root = Path(next(iter(spec.submodule_search_locations)))
        below = root.joinpath(*rest)
        files = (below.with_suffix(".py"), below / "__init__.py")
        file = next((file for file in files if file.is_file()), None)
        return cls(package=package, file=file, root=root) if file else None

    @property
    def installed(self) -> bool:
        """False where its author works on it: an editable installation, or `PYTHONPATH`."""
        return bool(INSTALLED.intersection(self.file.parts))

    def line_of(self, error: BaseException) -> tuple[Path, int] | None:
        """The innermost line of the plugin's own that `error` came through."""
        if isinstance(error, SyntaxError) and error.filename and error.lineno:
            file = Path(error.filename)
            if file.is_relative_to(self.root):
                return file, error.lineno
        found = None
        frame: TracebackType | None = error.__traceback__
        while frame is not None:
            file = Path(frame.tb_frame.f_code.co_filename)
            if file.is_relative_to(self.root):
                found = file, frame.tb_lineno
            frame = frame.tb_next
        return found

    def shown_line(self, error: BaseException) -> str:
        """` (omni_beep/plugin.py:12)`, or nothing if the error came from elsewhere."""
        line = self.line_of(error)
        return f" ({line[0].relative_to(self.root.parent)}:{line[1]})" if line else ""

    def fix(self, plugin: str, distribution: str, error: BaseException | None = None) -> str:
        """What can be done: by its author at the line at fault, else by the operator."""
        if self.installed:
            return upgrade_or_block(plugin, distribution)
        if isinstance(error, ModuleNotFoundError) and error.name:
            missing = error.name.partition(".")[0]
            if missing != self.package:
                return f"pip install {missing}"
        line = self.line_of(error) if error else None
        place = f"{line[0]}:{line[1]}" if line else str(self.file)
        return f"edit {place}, or leave it out: --plugins-block {plugin}"


def raised(error: BaseException) -> str:
    """The error's type and text; for a misspelt argument of the API also what was meant."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    meant = _meant_argument(str(error)) if isinstance(error, TypeError) else ""
    return f"{as_sentence(text)}{meant}" if meant else text


def _meant_argument(text: str) -> str:
    from omni_host import api  # noqa: PLC0415 - plugins load it; a host without any need not

    match = _KEYWORD.search(text)
    kind = vars(api).get(match[1]) if match else None
    if match is None or not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        return ""
    return did_you_mean(match[2], [field.name for field in dataclasses.fields(kind)])
