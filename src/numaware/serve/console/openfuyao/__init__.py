"""openFuyao's own interfaces: its endpoints and envelope, Prometheus, Volcano's configuration, runtime affinity."""
