"""A deployment explained: as text, as data for JSON, and as a Mermaid chart."""

from omni_host.explanation.chart import as_chart
from omni_host.explanation.data import as_data
from omni_host.explanation.text import as_text

__all__ = ["as_chart", "as_data", "as_text"]
