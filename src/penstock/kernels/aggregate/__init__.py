"""The loops of aggregates: panes, groups, exact sums, extremes."""
