"""From evidence to findings: what each piece proves, alone and together, and what is wrong with a file before it is applied."""
