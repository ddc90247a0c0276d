"""What is measured against peers, in one process, as ratios."""
