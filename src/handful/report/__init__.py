"""Draws findings: tables, charts, the page, and the picture of samplers. It knows nothing of what made them."""
