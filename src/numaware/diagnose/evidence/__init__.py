"""What was handed in, read: logs, objects, state files, texts of kubectl; each becomes facts with the line they came from."""
