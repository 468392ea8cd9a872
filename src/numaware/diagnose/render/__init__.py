"""One finding, many pages: a terminal, JSON, a report, an annotation."""
