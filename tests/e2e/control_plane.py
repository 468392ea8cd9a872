"""A real Kubernetes control plane on loopback: etcd, kube-apiserver and, where wanted, kube-scheduler and
kube-controller-manager. Up in seconds, each part can be stopped, killed, frozen and started again in place.

The programs are those of `make kube-assets`. Each user has a token and its own kubeconfig, and may do what RBAC says: our
own programs are the service accounts of deploy/rbac, so what is shipped is what the tests run with.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import yaml

from e2e.api import Api
from e2e.program import Program, eventually

ROOT = Path(__file__).parents[2]
MANIFESTS = Path(__file__).parent / "manifests"
RBAC = ROOT / "deploy/rbac"
CRD = ROOT / "deploy/crd"

# Below where Linux takes ports for outgoing connections from, so that none is taken while its owner restarts.
_PORTS = range(20_000, 32_000)
# What makes pods, and what clears up after them. Nodes are not watched: fake kubelets send no heartbeats.
_CONTROLLERS = (
    "daemonset-controller",
    "deployment-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)
# What a whole cluster has besides, with real nodes in it.
_OF_WHOLE = ("disruption-controller", "node-lifecycle-controller", "root-ca-certificate-publisher-controller")
# Admission: nodes without a kubelet's heartbeat take pods, and pods need no account; or as kubeadm has it.
_BARE = ("--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",)
_WHOLE = ("--enable-admission-plugins=NodeRestriction", "--allow-privileged=true")
_DATA = "numaware-etcd-"
_CERTIFICATE = (
    *("openssl", "req", "-x509", "-nodes", "-days", "7", "-subj", "/CN=e2e"),
    *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
    # The last is what pods know it by.
    *("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost,IP:10.96.0.1"),
    *("-addext", "keyUsage=critical,digitalSignature,keyCertSign"),
)
# Nobody is held up by a limit on the client's side: what is compared is the work, not the politeness.
_QPS, _BURST = 5_000, 10_000


class User(NamedTuple):
    """Who a token stands for."""

    name: str
    groups: tuple[str, ...] = ()


def _account(name: str) -> User:
    return User(
        f"system:serviceaccount:numaware:{name}",
        ("system:serviceaccounts", "system:serviceaccounts:numaware", "system:authenticated"),
    )


def kubelet(node: str) -> User:
    """The user of a real kubelet."""
    return User(f"system:node:{node}", ("system:nodes", "system:authenticated"))


_USERS = {
    "admin": User("admin", ("system:masters",)),
    "kube-scheduler": User("system:kube-scheduler"),
    "kube-controller-manager": User("system:kube-controller-manager"),
    "numaware-scheduler": _account("numaware-scheduler"),
    "numaware-extender": _account("numaware-extender"),
    "numaware-agent": _account("numaware-agent"),
    "numaware-viewer": _account("numaware-viewer"),
    "numaware-console": _account("numaware-console"),
    "fake-kubelets": User("fake-kubelets", ("system:authenticated",)),
    "stranger": User("stranger", ("system:authenticated",)),
}


def assets(release: str = "") -> Path:
    """The folder with the Kubernetes programs; built now if `make kube-assets` has not been called yet.

    Of another `release`, such as v1.36, there is only what `make e2e-versions` needs.
    """
    script = ROOT / "scripts/kube-assets/build"
    done = subprocess.run([script, *filter(None, (release,))], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, "scripts/kube-assets/build failed; its message is above"
    return Path(done.stdout.splitlines()[-1])


def free_port() -> int:
    """A port that nobody listens on, far from the ones that others get by chance."""
    for _ in range(1000):
        port = secrets.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError(f"no free port in {_PORTS}")


class ControlPlane:
    """The running control plane; a context manager that leaves no process and no file behind but its logs."""

    def __init__(
        self,
        folder: Path,
        *,
        controllers: bool = False,
        scheduler: Mapping[str, Any] | None = None,
        users: Mapping[str, User] | None = None,
        server_flags: Iterable[str] = (),
        gates: Iterable[str] = (),
        release: str = "",
        whole: bool = False,
    ) -> None:
        """Logs and kubeconfigs go to `folder`; `scheduler` is a KubeSchedulerConfiguration without its connection.

        `gates` are features that are off by default, on everywhere; `release` is that of the API server, where it is another.
        A `whole` one is as a cluster is before numaware comes to it: nothing of ours is in it, nodes are watched, pods have
        accounts, and the API server is at the port that all pods know, which takes a network of one's own.
        """
        self.folder = folder
        self.users = {**_USERS, **(users or {})}
        self.ca = folder / "server.crt"
        self.key = folder / "server.key"
        self.programs: dict[str, Program] = {}
        self._wanted = (controllers, scheduler)
        gated = ",".join(f"{gate}=true" for gate in gates)
        self._gates = (f"--feature-gates={gated}",) if gated else ()
        self._server_flags = (*server_flags, *self._gates)
        self._whole = whole
        self._port = 443 if whole else free_port()
        self._tokens = {name: secrets.token_hex(16) for name in self.users}
        self._apis: dict[tuple[str, str], Api] = {}
        self._data = _data_folder()
        self._assets = assets()
        self._apiserver = assets(release) / "kube-apiserver"

    # Life

    def __enter__(self) -> Self:
        try:
            self._prepare()
            self._start_etcd()
            self._start_apiserver()
            controllers, scheduler = self._wanted
            if controllers:
                self.start_controllers()
            if scheduler is not None:
                self.start_scheduler(scheduler)
            if not self._whole:
                self.kubectl("apply", "--server-side", "-f", CRD, "-f", RBAC, "-f", MANIFESTS)
                self.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
            for program in self.programs.values():
                self.wait_ready(program.name)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for api in self._apis.values():
            api.close()
        for program in reversed(self.programs.values()):
            # Nothing is kept, so nothing needs to be put in order first.
            program.kill()
        shutil.rmtree(self._data, ignore_errors=True)

    # Use

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    def token(self, user: str) -> str:
        return self._tokens[user]

    def api(self, user: str = "admin", url: str | None = None) -> Api:
        """Requests as this user; `url` where they go through a proxy."""
        where = url or self.url
        if (user, where) not in self._apis:
            self._apis[user, where] = Api(where, self.ca, self._tokens[user])
        return self._apis[user, where]

    def agent_on(self, node: str, pod: str = "") -> str:
        """The user that an agent is on this node: its token is bound to that pod, else to the Node itself."""
        bound = {"apiVersion": "v1", "kind": "Pod" if pod else "Node", "name": pod or node}
        answer = self.api().create(
            "/api/v1/namespaces/numaware/serviceaccounts/numaware-agent/token",
            {"spec": {"expirationSeconds": 7200, "boundObjectRef": bound}},
        )
        user = f"numaware-agent-{pod or node}"
        self._tokens[user] = answer["status"]["token"]
        return user

    def kubeconfig(self, user: str, url: str | None = None) -> Path:
        """A kubeconfig file for this user; `url` where it goes through a proxy."""
        where = url or self.url
        path = self.folder / f"{user}-{where.rpartition(':')[2]}.kubeconfig"
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [
                        {
                            "name": "e2e",
                            "cluster": {"server": where, "certificate-authority": str(self.ca)},
                        }
                    ],
                    "users": [{"name": user, "user": {"token": self._tokens[user]}}],
                    "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
                    "current-context": "e2e",
                }
            ),
            encoding="utf-8",
        )
        path.chmod(0o600)
        return path

    def kubectl(self, *arguments: str | Path, user: str = "admin") -> str:
        """What kubectl prints; an error of kubectl's is an error of the test."""
        # Its memory of what the server can do is of no use to the next server.
        known = ("--kubeconfig", self.kubeconfig(user), "--cache-dir", self.folder / "kubectl")
        command: list[str | Path] = [self._assets / "kubectl", *known, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(map(str, arguments))}: {done.stderr}"
        return done.stdout

    def etcd_bytes(self) -> int:
        """What its data takes, without what a defragmentation would give back."""
        url = f"http://127.0.0.1:{self._ports['etcd']}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        name = "etcd_mvcc_db_total_size_in_use_in_bytes "
        return int(float(next(line for line in lines if line.startswith(name)).split()[1]))

    # Parts: etcd, apiserver, scheduler, controllers

    def stop(self, part: str) -> None:
        self.programs[part].stop()

    def kill(self, part: str) -> None:
        self.programs[part].kill()

    def start(self, part: str) -> None:
        """A part that was stopped, on its old ports and data; returns when it works."""
        self.programs[part].start()
        self.wait_ready(part)

    def restart(self, part: str) -> None:
        self.stop(part)
        self.start(part)

    def pause(self, part: str) -> None:
        self.programs[part].pause()

    def resume(self, part: str) -> None:
        self.programs[part].resume()

    def wait_ready(self, part: str, seconds: float = 60) -> None:
        program = self.programs[part]
        if part == "etcd":
            port = self._ports["etcd"]
            eventually(lambda: _listens(port), "etcd listens", seconds, program)
        elif part == "apiserver":
            api = self.api()
            eventually(lambda: api.get("/readyz"), "the API server is ready", seconds, program)
        else:
            health = self._health[part]
            eventually(lambda: health.get("/healthz"), f"{part} is healthy", seconds, program)

    def start_scheduler(
        self,
        config: Mapping[str, Any] | None = None,
        name: str = "scheduler",
        program: Path = Path("kube-scheduler"),
    ) -> Program:
        """The real kube-scheduler; another one beside it needs another name, one with more plugins is another program."""
        path = self.folder / f"{name}.yaml"
        whole = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **(config or {}),
            "clientConnection": {
                "kubeconfig": str(self.kubeconfig("kube-scheduler")),
                "qps": _QPS,
                "burst": _BURST,
            },
        }
        path.write_text(yaml.safe_dump(whole), encoding="utf-8")
        return self.start_scheduler_from(path, name, program)

    def start_scheduler_from(
        self, path: Path, name: str = "scheduler", program: Path = Path("kube-scheduler")
    ) -> Program:
        """The real kube-scheduler with a file as it stands."""
        return self._serve(name, program, f"--config={path}", *self._gates)

    def start_controllers(self) -> Program:
        """The real kube-controller-manager with the controllers that pods come from."""
        return self._serve(
            "controllers",
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig('kube-controller-manager')}",
            f"--controllers={','.join((*_CONTROLLERS, *(_OF_WHOLE if self._whole else ())))}",
            # Without it Deployments make no pods, and nobody says why.
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self.key}",
            f"--root-ca-file={self.ca}",
            f"--kube-api-qps={_QPS}",
            f"--kube-api-burst={_BURST}",
            "--leader-elect=false",
            *self._gates,
        )

    # Start

    def _prepare(self) -> None:
        """One certificate that vouches for itself serves all: who trusts it, trusts the API server."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._ports: dict[str, int] = {}
        self._health: dict[str, Api] = {}
        done = subprocess.run(
            [*_CERTIFICATE, "-keyout", self.key, "-out", self.ca], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        lines = [
            f'{self._tokens[name]},{user.name},{name},"{",".join(user.groups)}"\n'
            for name, user in self.users.items()
        ]
        (self.folder / "tokens.csv").write_text("".join(lines), encoding="utf-8")

    def _start_etcd(self) -> None:
        client, peer = free_port(), free_port()
        etcd = self._assets / "etcd"
        found = etcd if etcd.exists() else shutil.which("etcd")
        assert found, "etcd is missing; on Debian and Ubuntu: apt-get install etcd-server"
        self._ports["etcd"] = client
        self._run(
            "etcd",
            found,
            f"--data-dir={self._data}",
            # What is in memory is lost with the machine anyway.
            "--unsafe-no-fsync",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            "--quota-backend-bytes=4294967296",
        )
        self.wait_ready("etcd")

    def _start_apiserver(self) -> None:
        self._run(
            "apiserver",
            self._apiserver,
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            # Pods come from other networks than its own.
            f"--bind-address={'0.0.0.0' if self._whole else '127.0.0.1'}",  # noqa: S104 - in a network of the tests' own
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={self.ca}",
            f"--tls-private-key-file={self.key}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--anonymous-auth=false",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.ca}",
            f"--service-account-signing-key-file={self.key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            # Endpoints on loopback are no endpoints.
            "--endpoint-reconciler-type=none",
            *(_WHOLE if self._whole else _BARE),
            # Told to stop, it ends watches instead of waiting a minute for their readers to leave.
            "--shutdown-watch-termination-grace-period=1s",
            "--profiling=false",
            *self._server_flags,
        )
        self.wait_ready("apiserver")

    def _serve(self, name: str, program: str | Path, *flags: str) -> Program:
        """A component that tells its health on a port of its own."""
        port = free_port()
        self._health[name] = Api(f"https://127.0.0.1:{port}", self.ca, self._tokens["admin"])
        self._apis[name, str(port)] = self._health[name]
        return self._run(
            name,
            self._assets / program,
            *flags,
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.ca}",
            f"--tls-private-key-file={self.key}",
            "--authorization-always-allow-paths=/healthz,/metrics",
        )

    def _run(self, name: str, program: str | Path, *flags: str) -> Program:
        if name in self.programs:
            self.programs[name].stop()
        started = Program(name, [program, *flags], self.folder / f"{name}.log")
        self.programs[name] = started
        started.start()
        return started


def _data_folder() -> Path:
    """A folder for etcd, in memory where there is a file system in memory; those of tests that were killed go first."""
    memory = Path("/dev/shm")
    base = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    for left in base.glob(f"{_DATA}*"):
        if not Path("/proc", left.name.removeprefix(_DATA).partition("-")[0]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"{_DATA}{os.getpid()}-", dir=base))


def _listens(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
