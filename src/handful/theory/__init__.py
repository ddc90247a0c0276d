"""The quantities in the paper's theory. There is one function per quantity, with the paper's name for it."""
