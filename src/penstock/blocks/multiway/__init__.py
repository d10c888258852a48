"""Joins of three and more inputs."""
