"""Draws findings: tables, charts and the page. It does not import the studies."""
