"""The agent: reads what is true of one node, publishes it, and lets Prometheus ask."""
