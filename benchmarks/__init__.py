"""What developers measure. Users measure with ``handful bench``."""
