from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from numaware.kube.loader import loader
found = loader()
assert found.kubeconfig.KubeConfigLoader and found.account.InClusterConfigLoader and found.configuration()
print(len([name for name in sys.modules if name.startswith("kubernetes_asyncio")]))
import kubernetes_asyncio.client
print(kubernetes_asyncio.client.V1Pod.__name__)
"""


def test_the_loader_comes_without_the_rest_of_its_library_which_stays_whole_for_others() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "V1Pod"]


def test_the_loader_of_a_library_that_is_there_already_is_used_as_it_is() -> None:
    program = (
        "import kubernetes_asyncio.client as client\n"
        "from numaware.kube.loader import loader\n"
        "assert loader().configuration is client.Configuration\n"
        "import kubernetes_asyncio\n"
        "assert kubernetes_asyncio.client is client\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
