"""The demo voice keeps what the host asks of every plugin."""

from omni_host.testing import ModelPluginContract


class TestContract(ModelPluginContract):
    model = "demo"
    requests = (
        {"text": "Good morning. It is 9:30am!"},
        {"text": "One thing at a time, and that done well.", "speed": 1.4, "seed": 7},
    )
