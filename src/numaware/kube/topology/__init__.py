"""How nodes tell their topology: the objects that publishers write, ours among them."""
