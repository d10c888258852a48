"""How join cores share one sliding-window join, each flow under the name it was published."""
