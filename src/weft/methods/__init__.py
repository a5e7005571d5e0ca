"""The recipes: each method is one short file that reads like the paper it comes from."""

from weft.methods.base import Method, make_method

__all__ = ["Method", "make_method"]
