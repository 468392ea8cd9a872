"""The command line: one module per verb, imported only when that verb is called.

Exit codes are part of the contract: 0 fine, 1 the answer is "no" or something was found, 2 bad usage or bad
input, told in one line on stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from numaware import __version__
from numaware.errors import InputError

# Verb -> what it answers: the whole table of contents of the command line. cyclopts reads the help line from here, so
# `numaware --help` imports no verb.
VERBS = {
    "affinity": "See which pods of this node talk to each other, and sit together.",
    "agent": "Publish and export what is true of this node.",
    "checkpoint": "Read and verify the state files of a kubelet.",
    "console": "Open the console on a live cluster.",
    "diagnose": "Find out from logs and files what happened, why, and what to do.",
    "config": "Write a kubelet configuration for a machine, each line explained.",
    "device-plugin": "Offer devices of this node to the kubelet, with the NUMA node of each.",
    "doctor": "Examine a node or a cluster, read-only: what is wrong, worst first.",
    "explain": "Ask what the kubelet of a node will do with a pod, and why.",
    "install": "Install numaware into a cluster, or show what that would change.",
    "kubelet": "Switch the policies of this node's kubelet, safely, and back.",
    "lint": "Check manifests and kubelet configurations before they are applied.",
    "extender": "Answer kube-scheduler or Volcano: which nodes will admit a pod.",
    "ledger": "Look into predictions that a kubelet did not keep.",
    "nodes": "See the nodes of a live cluster: what is free to pin on each NUMA node.",
    "peers": "Replay recorded cases on the rules of other schedulers.",
    "pods": "See the pods of a live cluster: on which NUMA nodes each is.",
    "policy": "Order a kubelet policy for a pool of nodes, and see how far it is.",
    "scheduler": "Schedule the pods that name numaware as their scheduler.",
    "simulate": "Play a trace of pods on a cluster of twins, schedulers side by side.",
    "topology": "See a machine: NUMA nodes, CPUs, caches, memory, devices, distances.",
    "twin": "Replay recorded kubelets on the model, and compare.",
    "uninstall": "Remove what install has put into a cluster.",
    "up": "Open the console on the embedded lab.",
    "whatif": "Ask where on a cluster a pod would go, and why not elsewhere.",
    "why-pending": "Ask why a pod of a live cluster has no node.",
}


def build(called: str = "") -> App:
    """The command-line application, every verb registered by name only; the one `called` brings its own help."""
    app = App(
        name="numaware",
        help="NUMA-aware scheduling for Kubernetes: see every NUMA node, know what the kubelet will do, say why.",
        version=__version__,
        version_flags=["--version"],
        help_flags=["--help", "-h"],
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
    )
    for name, summary in VERBS.items():
        target = f"{__name__}.{name.replace('-', '_')}:app"
        app.command(target, name=name, **({} if name == called else {"help": summary}))
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never a traceback for what a user typed or handed in."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = build(given[0] if given else "")(
            given,
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
        sys.stdout.flush()
    except CycloptsError as error:
        return _fail(" ".join(str(error).split()), "see numaware --help")
    except InputError as error:
        return _fail(str(error))
    except BrokenPipeError:
        from numaware.cli.output import go_unheard  # noqa: PLC0415 - seldom needed

        # The reader (`| head`) has what it wanted.
        go_unheard(sys.stdout)
        return 0
    except OSError as error:
        return _fail(f"{error.filename or 'input'}: {error.strerror or error}")
    except KeyboardInterrupt:
        return 130
    return result if isinstance(result, int) else 0


def _fail(problem: str, hint: str = "") -> int:
    sys.stderr.write(f"numaware: {problem}{f' ({hint})' if hint else ''}\n")
    return 2
