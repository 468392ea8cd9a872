"""What was, kept in a file: written beside the console's work, and looked at like the present."""
