"""The embedded default of omni-host: an English voice that runs on any CPU.

`plugin` says what it is, `text`, `acoustic` and `vocoder` are its three stages, and
`hibari_adapter` is the one module that touches the package which holds the voice.
"""

__version__ = "0.1.0"
