"""The platforms that come with the host."""
