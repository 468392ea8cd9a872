"""The program: the installed `numaware`, and `python -m numaware`."""

import signal
import sys

# Ctrl-C while everything else is imported ends the program as it ends any other, without a traceback.
_is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _is_heard:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run() -> None:
    """What `[project.scripts]` names; from here on `main` hears of Ctrl-C."""
    from numaware.cli import main  # noqa: PLC0415 - what takes time to import comes after the above

    if _is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())


if __name__ == "__main__":
    run()
