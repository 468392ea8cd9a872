"""Findings, checks and recommendations in words, as a page for a terminal, JSON, HTML, SARIF or annotations."""
