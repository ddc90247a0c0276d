"""Figures and tables made from records."""
