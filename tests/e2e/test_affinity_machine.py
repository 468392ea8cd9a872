"""Two pods that talk, on a real kernel with two NUMA nodes: they end on one of them with their memory, at a capped pace."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from e2e.qemu_machine import Machine, between, boot
from support.numa_maps import bytes_by_node

pytestmark = pytest.mark.long

MACHINE = Machine(2, 2, 2, (1280, 1280), ((10, 21), (21, 10)))
SERVER, CLIENT = (f"{number}b6e4d3a-59c5-4f0e-9a34-0c3f6f1f2a77" for number in (1, 2))
MIB, MEGABYTES_A_SECOND = 256, 64
GROUPS = "/sys/fs/cgroup/kubepods/burstable"
SCRIPT = f"""
for module in inet_diag tcp_diag; do /bin/busybox insmod /$module.ko; done
# What brings pages after pods shall be the agent, not the kernel, which would do some of it in time.
echo 0 >/proc/sys/kernel/numa_balancing
mount -t cgroup2 none /sys/fs/cgroup
for group in /sys/fs/cgroup /sys/fs/cgroup/kubepods {GROUPS}; do
  mkdir -p $group
  echo "+cpu +memory +cpuset" >$group/cgroup.subtree_control
done
pod() {{ # name uid id command...
  mkdir -p {GROUPS}/pod$2 /var/log/pods/work_$1_$2
  echo "+cpu +memory +cpuset" >{GROUPS}/pod$2/cgroup.subtree_control
  echo 1 >{GROUPS}/pod$2/cpu.weight
  mkdir {GROUPS}/pod$2/$3
  group={GROUPS}/pod$2/$3
  shift 3
  sh -c "echo \\$\\$ >$group/cgroup.procs; exec $PYTHON /affinity_guest.py $*" &
}}
mkdir -p /tmp/kubelet/pod-resources /run
$PYTHON /affinity_guest.py kubelet /tmp/kubelet/pod-resources/kubelet.sock &
pod server {SERVER} {"a" * 64} server {MIB}
server=$!
sleep 12
pod client {CLIENT} {"b" * 64} client {MIB} /tmp/latencies
client=$!
sleep 15
echo BEFORE
cat /proc/$server/numa_maps
echo END-OF-BEFORE
$PYTHON -c 'import sys; from numaware.cli import main; main(sys.argv[1:])' agent --no-publish --node guest --no-metrics --kubelet-root /tmp/kubelet --affinity cgroup --affinity-period 1 --affinity-budget 100 \\
  --affinity-memory only --affinity-migrate {MEGABYTES_A_SECOND} >/tmp/agent.log 2>&1 &
agent=$!
both() {{ # until both have something in this file
  tries=0 one= other=
  until [ -n "$one" ] && [ -n "$other" ]; do
    read one <{GROUPS}/pod{SERVER}/{"a" * 64}/$1
    read other <{GROUPS}/pod{CLIENT}/{"b" * 64}/$1
    tries=$((tries + 1))
    if [ $tries -gt 900 ] || ! kill -0 $agent; then run affinity plan; break; fi
    sleep 0.1
  done
  read up idle </proc/uptime
}}
# From when on the agent is at work, what it costs to look counts as before.
tries=0
until [ -s /run/numaware/affinity.json ] || [ $tries -gt 600 ]; do tries=$((tries + 1)); sleep 0.1; done
both cpuset.cpus
begin=$up
both cpuset.mems
end=$up
sleep 20
echo SERVER
cat /proc/$server/numa_maps
echo END-OF-SERVER
echo CLIENT
cat /proc/$client/numa_maps
echo END-OF-CLIENT
echo CPUSETS
cat {GROUPS}/pod*/*/cpuset.cpus {GROUPS}/pod*/*/cpuset.mems
echo END-OF-CPUSETS
echo VERIFY
run affinity verify; echo exit $?
run affinity show
echo END-OF-VERIFY
# Both still run, so that what they get back is seen on processes.
kill $agent
wait $agent
echo RESTORED
cat {GROUPS}/pod*/*/cpuset.cpus {GROUPS}/pod*/*/cpuset.mems
echo END-OF-RESTORED
kill $client
wait $client
echo LATENCIES
$PYTHON /affinity_guest.py tell /tmp/latencies $begin $end
echo END-OF-LATENCIES
cat /tmp/agent.log
"""


def test_two_talking_pods_and_their_memory_end_on_one_numa_node(tmp_path: Path) -> None:
    said = boot(MACHINE, SCRIPT, tmp_path, 900, [Path(__file__).with_name("affinity_guest.py")])
    cpus = between(said, "CPUSETS", "END-OF-CPUSETS").split()
    assert len(cpus) == 4, said[-4000:]
    node = int(cpus[2])
    here = MACHINE.cpus_of(node)
    assert cpus == [f"{here[0]}-{here[-1]}"] * 2 + [str(node)] * 2
    before = bytes_by_node(between(said, "BEFORE", "END-OF-BEFORE"))
    assert min(before.values()) > 0.4 * (MIB << 20)
    for pod in ("SERVER", "CLIENT"):
        maps = between(said, pod, f"END-OF-{pod}")
        # A file's pages are those of both, and of the agent: they are one Python.
        own = bytes_by_node("\n".join(line for line in maps.splitlines() if " file=" not in line))
        every = bytes_by_node(maps)
        sys.stdout.write(f"\n{pod}: own bytes by NUMA node {own}, with files {every}")
        assert own[node] >= 0.98 * sum(own.values())
        assert every[node] >= 0.98 * sum(every.values())
    assert "exit 0\n" in between(said, "VERIFY", "END-OF-VERIFY")
    # Nothing was set before. The kernel lets no group in which something runs have nothing again, so it has all there is.
    everything = [f"0-{MACHINE.cpus - 1}"] * 2 + [f"0-{len(MACHINE.memory_mib) - 1}"] * 2
    assert between(said, "RESTORED", "END-OF-RESTORED").split() == everything
    phases = {
        line.split()[0]: [int(word) for word in line.split()[1:]]
        for line in between(said, "LATENCIES", "END-OF-LATENCIES").splitlines()
    }
    sys.stdout.write(
        f"\nmicroseconds {{phase: (number, median, P99)}}: {phases}\n{between(said, 'VERIFY', 'END-OF-VERIFY')}"
    )
    assert all(phases[name][0] > 50 for name in ("before", "during", "after")), phases
