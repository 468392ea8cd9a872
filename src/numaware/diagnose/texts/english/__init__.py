"""Findings, messages and reasons in English."""
