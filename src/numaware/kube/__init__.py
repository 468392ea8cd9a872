"""Kubernetes on the wire: the only room that talks to an API server, and what its objects look like."""
