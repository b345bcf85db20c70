from __future__ import annotations

from omni_host import builtin
from omni_host.platforms import cpu
from omni_host.plugins.hook_checks import hook_problem


def test_the_host_keeps_its_own_rules():
    assert hook_problem(builtin) is None


def test_the_cpu_is_always_there():
    probe = cpu.probe()
    assert (probe.name, probe.devices, probe.priority) == ("cpu", ("cpu",), 0)
    assert all(memory > 2**20 for memory in probe.memory_bytes)
    assert "cores" in probe.notes[0]
