"""Show findings as tables, charts and HTML pages. This package does not import the studies."""
