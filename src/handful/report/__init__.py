"""Draws findings: tables, charts and the page. It does not import what made them."""
