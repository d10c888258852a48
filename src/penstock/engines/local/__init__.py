"""The embedded engine: blocks inside one Python process."""
