"""Draws findings: tables, charts, the page, and the picture of samplers. It does not import what made them."""
