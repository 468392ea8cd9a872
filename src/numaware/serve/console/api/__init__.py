"""The console's REST API: its operations, what they take, what they answer, and live changes as a stream."""
