"""From a plan to a program, and which program may follow another."""
