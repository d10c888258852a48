"""The binder, from statements to a plan: it resolves names, types and window clauses."""
