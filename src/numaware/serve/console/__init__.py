"""The console: a page that shows every NUMA node, and the API it is made of."""
