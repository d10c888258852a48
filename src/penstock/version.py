"""The version of Penstock, as recorded in the files it writes."""

VERSION = "0.3.0"
