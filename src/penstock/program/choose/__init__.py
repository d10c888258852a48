"""The planner's choices, with reasons: kernels, flows, EXPLAIN."""
