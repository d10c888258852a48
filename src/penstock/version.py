"""The version of Penstock, as recorded in the files it writes."""

VERSION = "0.2.0"
