"""The operator's configuration: a TOML file, the environment, `--set` and flags.

`sources` reads and merges, `settings` validates. Reading imports no pydantic.
"""
