"""The Device Manager: which of a plugin's devices a container gets."""
