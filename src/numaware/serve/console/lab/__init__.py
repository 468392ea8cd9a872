"""The embedded cluster behind `numaware up`: a world of twins in which pods come and go."""
