"""Who gets slots and pages, who is prefilled, who decodes, and who has to give way."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from omni_host.engines.engine import CacheUse
from omni_host.engines.ledger import Entry
from omni_host.engines.torch_engine.pages import Pages
from omni_host.engines.torch_engine.prefix_cache import CachedPage, PrefixCache
from omni_host.engines.torch_engine.tenant import Chunk, Tenant
from omni_host.errors import InvalidRequestError

__all__ = ["Room", "Scheduler"]


class Room:
    """The pages of the cache: free, held by requests, or kept for their prefixes."""

    def __init__(self, pages: int, page_size: int, *, prefix_cache: bool) -> None:
        self.page_size = page_size
        self.pages = Pages(pages)
        self.prefixes = PrefixCache(page_size) if prefix_cache else None

    @property
    def _idle(self) -> int:
        return self.prefixes.idle if self.prefixes else 0

    @property
    def available(self) -> int:
        """Pages that can be had without taking one from a request."""
        return self.pages.free + self._idle

    def take(self) -> int | None:
        """A page, evicted from the prefix cache if need be; None if requests hold them all."""
        if not self.pages.free:
            if not self._idle or self.prefixes is None:
                return None
            self.pages.give_back([self.prefixes.evict()])
        return self.pages.take()

    def find(self, entry: Entry, rows: int) -> list[CachedPage]:
        """Cached pages for an entry's first rows; the last row is always left to compute."""
        if self.prefixes is None or entry.prompt.keys is None:
            return []
        wanted = () if entry.prefilled else entry.prompt.wanted
        return self.prefixes.match(entry.prompt.keys, rows - 1, wanted)

    def keep(self, tenant: Tenant) -> None:
        """Share the prompt's whole pages, now that they are filled."""
        keys = tenant.entry.prompt.keys
        if self.prefixes is None or keys is None:
            return
        nodes, given = self.prefixes.insert(keys, tenant.held, tenant.pages, tenant.page_states)
        tenant.held.extend(nodes)
        tenant.own -= given
        tenant.page_states.clear()

    def release(self, tenant: Tenant) -> None:
        """Take back all that a request holds."""
        self.pages.give_back(sorted(tenant.own, reverse=True))
        if self.prefixes:
            self.prefixes.release(tenant.held)

    def use(self) -> CacheUse:
        total, free, cached = self.pages.count, self.pages.free, self._idle
        size = self.page_size
        return CacheUse(
            total=total * size,
            free=free * size,
            cached=cached * size,
            active=(total - free - cached) * size,
        )


class Scheduler:
    """Queue, slots and pages. The oldest request always gets on."""

    def __init__(self, room: Room, *, max_running: int, chunk_rows: int) -> None:
        self.room = room
        self.tenants: dict[str, Tenant] = {}
        self._queue: list[Entry] = []
        self._slots = list(range(max_running - 1, -1, -1))
        self._chunk_rows = chunk_rows

    @property
    def inside(self) -> int:
        return len(self.tenants) + len(self._queue)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self.tenants or any(
            entry.request.id == request_id for entry in self._queue
        )

    def enqueue(self, entry: Entry) -> None:
        """Queue a request in its order of arrival, which a retracted one keeps.

        Raises InvalidRequestError if the whole cache could not hold it.
        """
        total = self.room.pages.count * self.room.page_size
        if entry.most_rows > total:
            raise InvalidRequestError(
                f"{entry.prompt.length} prompt rows and {entry.request.max_frames} frames are "
                f"more than the {total} rows of the KV cache",
                field="max_frames",
                hint="ask for fewer frames, or give the cache more memory",
            )
        insort(self._queue, entry, key=lambda queued: queued.order)

    def cancel(self, request_id: str) -> bool:
        """Forget a request and free what it holds; False if it is not inside."""
        if (tenant := self.tenants.get(request_id)) is not None:
            self.leave(tenant)
            return True
        left = [entry for entry in self._queue if entry.request.id != request_id]
        found = len(left) < len(self._queue)
        self._queue = left
        return found

    def admissible(self) -> Entry | None:
        """The head of the queue, if a slot and pages for all its rows can be had.

        One page is left over for each running request, so that they do not run dry at once.
        """
        if not self._queue or not self._slots:
            return None
        entry = self._queue[0]
        cached = self.room.find(entry, entry.rows)
        idle = sum(not node.holders for node in cached)
        needed = -(-entry.rows // self.room.page_size) - len(cached)
        fits = needed + len(self.tenants) <= self.room.available - idle
        return entry if fits else None

    def admit(self, entry: Entry) -> Tenant:
        """Give the head of the queue its slot and pages; its rows are the caller's to set."""
        self._queue.remove(entry)
        held = self.room.find(entry, entry.rows)
        if self.room.prefixes:
            self.room.prefixes.hold(held)
        count = -(-entry.rows // self.room.page_size)
        own = [page for _ in range(count - len(held)) if (page := self.room.take()) is not None]
        reused = len(held) * self.room.page_size
        tenant = Tenant(
            entry=entry,
            slot=self._slots.pop(),
            rows=entry.prompt.rows,
            positions=entry.prompt.positions,
            pages=[*(node.page for node in held), *own],
            held=held,
            own=set(own),
            filled=reused,
            reused=reused,
        )
        self.tenants[entry.request.id] = tenant
        return tenant

    def leave(self, tenant: Tenant) -> None:
        """Take back a request's slot and pages."""
        del self.tenants[tenant.entry.request.id]
        self.room.release(tenant)
        self._slots.append(tenant.slot)

    def retract(self, tenant: Tenant) -> None:
        """Send a request back to the queue; what it produced and fed stays in its books."""
        self.leave(tenant)
        insort(self._queue, tenant.entry, key=lambda queued: queued.order)

    def chunks(self) -> list[Chunk]:
        """What to prefill next, the oldest first."""
        left = self._chunk_rows
        chunks: list[Chunk] = []
        for tenant in self._by_age(self.tenants.values()):
            taken = min(left, len(tenant.rows) - tenant.filled)
            if taken:
                start = tenant.filled
                chunks.append(Chunk(tenant=tenant, start=start, stop=start + taken))
                left -= taken
        return chunks

    def grow(self, tenants: Iterable[Tenant]) -> tuple[list[Tenant], list[Tenant]]:
        """A place in the cache for the next row of each, the youngest giving way if need be.

        Returns: who can decode, and which of them got a new page at the end of theirs.
        """
        grown: list[Tenant] = []
        able: list[Tenant] = []
        for tenant in self._by_age(tenants):
            while tenant.entry.request.id in self.tenants:
                if tenant.entry.rows < len(tenant.pages) * self.room.page_size:
                    able.append(tenant)
                    break
                page = self.room.take()
                if page is None:
                    self.retract(max(self.tenants.values(), key=lambda it: it.entry.order))
                    continue
                tenant.pages.append(page)
                tenant.own.add(page)
                grown.append(tenant)
        inside = set(self.tenants.values())
        return [it for it in able if it in inside], [it for it in grown if it in inside]

    @staticmethod
    def _by_age(tenants: Iterable[Tenant]) -> list[Tenant]:
        return sorted(tenants, key=lambda tenant: tenant.entry.order)
