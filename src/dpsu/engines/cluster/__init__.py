"""A release on any cluster: steps that an engine maps, and messages that it brings together."""
