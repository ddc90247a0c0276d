"""The quantities of the paper's theory: each is one function, named as in the paper."""
