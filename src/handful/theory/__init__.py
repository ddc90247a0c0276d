"""The quantities of the paper's theory, one function per quantity, with the names of the paper."""
