"""From a join predicate to keys, constraints and generated loops."""
