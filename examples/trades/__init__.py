"""The trades of Oge et al. 2013, out of order, and four queries over them."""
