"""What stays up: the scheduler, the extender, and the pages and endpoints they are seen through."""
