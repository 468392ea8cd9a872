"""The one error a user's input can cause.

Every reader raises `InputError` and nothing else, so that the command line can turn any bad file into a
single line (`numaware: FILE: what is wrong`) and exit code 2, and a library user has one type to catch.
"""

from __future__ import annotations

from functools import partial

from numaware.sentence import Sentence


class InputError(ValueError):
    """Something a person handed us cannot be read: which source, what is wrong, and how to fix it.

    `line` is that of the whole file, for who shows it; 0 where none is to blame, or nobody asks.
    """

    def __init__(
        self, source: str, problem: Sentence | str, *, hint: Sentence | str = "", line: int = 0
    ) -> None:
        self.source = source
        self.problem = problem
        self.hint = hint
        self.line = line
        super().__init__(str(self.sentence))

    def __reduce__(self) -> tuple[object, ...]:
        """All of it, for another process; by default only the text would go there, and nothing could be made of it."""
        return partial(InputError, hint=self.hint, line=self.line), (self.source, self.problem)

    @property
    def sentence(self) -> Sentence:
        """All of it, for a reader of any language."""
        said = Sentence("{source}: {problem}", source=self.source, problem=self.problem)
        return Sentence("{problem} ({hint})", problem=said, hint=self.hint) if self.hint else said
