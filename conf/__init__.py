"""Typed settings, logging, and the systemd unit."""
