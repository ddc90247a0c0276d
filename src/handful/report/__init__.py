"""Draw findings: tables, charts and the page. This package does not import the studies."""
