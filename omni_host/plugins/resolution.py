"""Resolution: from what the operator typed to a folder and the plugin that owns it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from omni_host.errors import (
    AmbiguousClaimError,
    ConfigError,
    ModelError,
    OmniError,
    PluginError,
    UnclaimedError,
)
from omni_host.offers import Claim, ModelRef
from omni_host.plugins.calls import HookCalls
from omni_host.plugins.claims import Claims
from omni_host.plugins.faults import close_matches, did_you_mean
from omni_host.plugins.model_sources import config_names, is_folder, is_hub_name, is_path, locate
from omni_host.plugins.results import optional
from omni_host.plugins.unusable import Unusable

__all__ = ["ModelResolver", "ResolvedModel"]

MODELS = "omni_host.models"
DEFAULT = "default"
"""The alias that stands for a model where none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedModel:
    """A model with the plugin that owns it, and that plugin's distribution.

    `aliases` are the names that the owner claims for this very model.
    """

    model: ModelRef
    owner: str
    distribution: str
    aliases: tuple[str, ...] = ()


class ModelResolver:
    """Resolves references with the claims and hooks of the loaded plugins."""

    def __init__(self, calls: HookCalls, claims: Claims, unusable: Unusable) -> None:
        self._calls = calls
        self._claims = claims
        self._unusable = unusable

    def resolve(
        self, reference: str, revision: str | None, owner: str | None
    ) -> tuple[ResolvedModel, str]:
        """Read the model's `config.json` and decide whose it is; no weights are fetched.

        Returns the model, and the folder or hub name it was found under.

        An alias goes before a folder of that name; `./name` is always the folder.
        """
        if owner is not None:
            self._require_owner(owner)
        place = self._place(reference, revision, owner)
        model = locate(reference, place, revision)
        if owner is None:
            owner = self._static_owner(model)
        if owner is None:
            owner, claim = self._claiming_owner(model)
            if claim.path is not None:
                place = claim.path
                model = locate(reference, place, revision)
        distribution = self._calls.plugins[owner].distribution.name
        resolved = ResolvedModel(
            model=model,
            owner=owner,
            distribution=distribution,
            aliases=tuple(self._aliases(owner, model, place)),
        )
        return resolved, place

    def _aliases(self, owner: str, model: ModelRef, place: str) -> Iterator[str]:
        """What else of the owner's claims leads to `place`, in order."""
        claimed = {c.name for c in self._claims.entries if c.group == MODELS and c.plugin == owner}
        for name in sorted(claimed.difference(config_names(model.config))):
            named = ModelRef(reference=name, revision=model.revision)
            # A name that cannot be asked about is no alias, and nobody has asked for it.
            with suppress(OmniError):
                claim = self._calls.ask(owner, "claim_model", optional(Claim), model=named)
                if claim is not None and claim.path is not None and _same(claim.path, place):
                    yield name

    def _place(self, reference: str, revision: str | None, owner: str | None) -> str:
        """The folder or hub name that an alias stands for, or the reference itself."""
        claimers = self._claims.plugins_for(MODELS, reference)
        if not claimers:
            self._refuse_no_default(reference)
            self._refuse_misspelt_alias(reference)
            return reference
        usable = [name for name in claimers if name in self._calls.plugins]
        if not usable:
            raise self._unusable.error(claimers, f"the model '{reference}'")
        if owner in usable:
            usable = [owner]
        if len(usable) > 1:
            raise self._ambiguous(f"the alias '{reference}'", usable)
        model = ModelRef(reference=reference, revision=revision)
        claim = self._calls.ask(usable[0], "claim_model", optional(Claim), model=model)
        if claim is None or claim.path is None:
            raise ModelError(
                f"'{reference}' is claimed by {self._calls.plugins[usable[0]]}, but as the name "
                "of an architecture or type: it stands for no model of its own.",
                hint="name a folder or a hub name",
                field="model",
            )
        return claim.path

    def _refuse_no_default(self, reference: str) -> None:
        if reference == DEFAULT and not is_folder(reference):
            raise UnclaimedError(
                f"No model was named, and no installed plugin claims '{DEFAULT}'."
                f"{self._unusable.summary()}",
                hint=f"pip install omni-demo, or any plugin that claims '{DEFAULT}'",
                field="model",
            )

    def _refuse_misspelt_alias(self, reference: str) -> None:
        if is_path(reference) or is_hub_name(reference):
            return
        meant = did_you_mean(reference, self._claims.names(MODELS))
        if meant:
            try:
                locate(reference, reference, None)
            except ModelError as error:
                raise ModelError(
                    f"{error.message}{meant}", hint=error.hint, field="model"
                ) from None

    def _static_owner(self, model: ModelRef) -> str | None:
        claimers = self._claims.plugins_for(MODELS, *config_names(model.config))
        usable = [name for name in claimers if name in self._calls.plugins]
        if len(usable) > 1:
            raise self._ambiguous(f"{model.path}", usable)
        if claimers and not usable:
            raise self._unusable.error(claimers, f"the model '{model.reference}'")
        return usable[0] if usable else None

    def _claiming_owner(self, model: ModelRef) -> tuple[str, Claim]:
        answers = self._calls.ask_all("claim_model", optional(Claim), model=model)
        claims = {plugin: claim for plugin, claim in answers if claim is not None}
        if len(claims) > 1:
            raise self._ambiguous(f"{model.path}", list(claims))
        for plugin, claim in claims.items():
            return plugin, claim
        raise self._unclaimed(model)

    def _require_owner(self, owner: str) -> None:
        if owner in self._unusable.names:
            raise self._unusable.error([owner], f"model.owner = '{owner}'")
        builders = self._calls.implementers("build_stages")
        if owner not in builders:
            raise ConfigError(
                f"model.owner names '{owner}', which is no plugin that builds models."
                f"{did_you_mean(owner, builders)}",
                hint=f"plugins that build models: {', '.join(builders) or 'none'}",
                field="model.owner",
            )

    def _ambiguous(self, what: str, plugins: Sequence[str]) -> PluginError:
        named = " and ".join(str(self._calls.plugins[name]) for name in plugins)
        return AmbiguousClaimError(
            f"Several plugins claim {what}: {named}.",
            hint=" or ".join(f"--set model.owner={name}" for name in plugins),
            field="model.owner",
        )

    def _unclaimed(self, model: ModelRef) -> UnclaimedError:
        names = config_names(model.config)
        claimed = self._claims.names(MODELS)
        close = [match for name in names for match in close_matches(name, claimed)[:1]]
        meant = f" The closest claim is '{close[0]}'." if close else ""
        return UnclaimedError(
            f"No installed plugin claims {model.path}: its config.json says "
            f"{_said(model.config)}.{meant} Installed: {self._installed() or 'no model plugin'}."
            f"{self._unusable.summary()}",
            hint="pip install the plugin of this model's family; omni list-plugins shows all",
            field="model",
        )

    def _installed(self) -> str:
        """`demo (omni-demo 0.1.0) for default, demo; ...`."""
        names: dict[str, list[str]] = {}
        for claim in self._claims.entries:
            if claim.group == MODELS and claim.plugin in self._calls.plugins:
                names.setdefault(claim.plugin, []).append(claim.name)
        return "; ".join(
            f"{plugin} ({self._calls.plugins[plugin].distribution}) for {', '.join(claimed)}"
            for plugin, claimed in sorted(names.items())
        )


def _same(first: str, second: str) -> bool:
    if is_folder(first) and is_folder(second):
        return Path(first).samefile(second)
    return first == second


def _said(config: Mapping[str, object]) -> str:
    """`architectures ["X"] and model_type "y"`, or that it says neither."""
    parts = [f"{key} {config[key]!r}" for key in ("architectures", "model_type") if config.get(key)]
    return " and ".join(parts) or "neither architectures nor model_type"
