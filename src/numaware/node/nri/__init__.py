"""The Node Resource Interface of container runtimes: the wire, the messages, and a plug-in."""
