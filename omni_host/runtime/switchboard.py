"""A process' transports, its codec, and the tokens they exchange with their peers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omni_host.deployment import Deployment
from omni_host.runtime import messages as m
from omni_host.runtime.dotted import make_offered
from omni_host.runtime.mailbox import Mailbox
from omni_host.runtime.wire import PayloadCodec
from omni_host.transports import Transport, TransportContext

__all__ = ["Switchboard"]


class Switchboard:
    """Builds the transports and has what they release sent with the next messages."""

    def __init__(
        self, deployment: Deployment, run: str, mailbox: Mailbox, *, torch: bool = True
    ) -> None:
        self._mailbox = mailbox
        self._transports: dict[str, Transport] = {}
        for spec in deployment.transports:
            settings = deployment.transport_settings.get(spec.name, {})
            context = TransportContext(process=mailbox.endpoint, run=run, settings=settings)
            made = make_offered(f"transport {spec.name}", spec.target, context)
            self._transports[spec.name] = made
        self.codec = PayloadCodec(mailbox.endpoint, self._transports, torch=torch)
        mailbox.before_flush = self._post_releases

    def released(self, _sender: str, transport: str, tokens: Iterable[Any]) -> None:
        """A peer has let go of what was shared with it."""
        self._transports[transport].released(tokens)

    def forget(self, endpoint: str) -> None:
        for transport in self._transports.values():
            transport.forget(endpoint)

    def close(self) -> None:
        for transport in self._transports.values():
            transport.close()

    def _post_releases(self) -> None:
        for name, transport in self._transports.items():
            for owner, tokens in transport.releases().items():
                self._mailbox.post(owner, (m.RELEASED, name, tokens))
