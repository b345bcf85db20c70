"""The plugin layer: discovery, loading, resolution, the lock and the report."""
