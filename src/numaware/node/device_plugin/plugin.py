"""The device plugin as a program: look at the machine, announce what is there, keep the kubelet informed, answer Prometheus.

Three things go on side by side: a look every few seconds, errors of GPUs as the driver reports them, and the registration.
Before the first socket is made the first look has to succeed, so that a configuration that does not fit leaves nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import msgspec
import structlog
from starlette.applications import Starlette

from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.node.device_plugin.config import Config
from numaware.node.device_plugin.health import Announced, Fault, judged, standing
from numaware.node.device_plugin.inventory import Resource, Survey, take_stock
from numaware.node.device_plugin.metrics import registry_of
from numaware.node.device_plugin.nvml import NvmlError
from numaware.node.device_plugin.offer import Offer
from numaware.node.device_plugin.registration import Registration
from numaware.node.device_plugin.server import ResourceServer
from numaware.node.device_plugin.surveyor import Surveyor, driver_problem
from numaware.node.troubles import Troubles
from numaware.web import serving, status_routes

log = structlog.get_logger("numaware.device-plugin")

# A look that takes longer than this hangs in a driver.
_MOST_SECONDS = 30.0


class PluginOptions(msgspec.Struct, frozen=True):
    """What a user says about the plugin; without `listen` it has no metrics."""

    config: Config
    folder: Path
    root: str = "/"
    nvml: bool = True
    listen: str | None = None
    seconds: float = 5.0


async def run_plugin(options: PluginOptions) -> None:
    """Announce and hand out until cancelled."""
    surveyor = Surveyor(options.config, options.root, nvml=options.nvml)
    plugin = DevicePlugin(options, surveyor)
    try:
        async with contextlib.AsyncExitStack() as stack:
            await plugin.begin()
            if options.listen is not None:
                app = Starlette(routes=[*status_routes(registry_of(plugin), plugin.unready)])
                log.info("listening", address=await stack.enter_async_context(serving(app, options.listen)))
            await plugin.run()
    finally:
        surveyor.close()


class DevicePlugin:
    """All resources of one node."""

    def __init__(self, options: PluginOptions, surveyor: Surveyor) -> None:
        self.troubles = Troubles("numaware.device-plugin")
        self.servers: dict[str, ResourceServer] = {}
        self.announced: dict[str, dict[str, Announced]] = {}
        self._options = options
        self._surveyor = surveyor
        self._registration = Registration(options.folder, self.troubles)
        self._faults: dict[Fault, bool] = {}
        self._survey: Survey | None = None
        self._looking: asyncio.Future[Survey] | None = None

    def unready(self) -> str:
        missing = self._registration.unregistered
        return f"the kubelet does not know {', '.join(missing)}" if missing else ""

    async def begin(self) -> None:
        """The first look, which has to succeed, unless it is the driver that fails and that is to be waited for."""
        if not self._options.folder.is_dir():
            hint = "the kubelet makes it; --device-plugins names another"
            raise InputError(str(self._options.folder), "there is no such folder", hint=hint)
        config = self._options.config
        survey = await asyncio.to_thread(self._surveyor.look)
        problem = driver_problem(config, survey)
        if problem and config.flags.fail_on_init_error:
            hint = "failOnInitError: false waits for them, and serves the other resources meanwhile"
            raise InputError("GPUs", problem, hint=hint)
        await self._take(survey)
        log.info("looked", gpus=self._surveyor.source, resources=sorted(self.servers))

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registration.run())
            group.create_task(self._look_again())
            group.create_task(self._hear_faults())

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(self._options.seconds)
            await self.look()

    async def look(self) -> None:
        """Another look; where it fails, what is announced stays as it was."""
        # One that hangs is waited for again, and no second one is sent after it.
        looking = self._looking or asyncio.ensure_future(asyncio.to_thread(self._surveyor.look))
        done, _ = await asyncio.wait({looking}, timeout=_MOST_SECONDS)
        self._looking = None if done else looking
        if not done:
            self.troubles.raised("survey", "hung", f"no end of it in {_MOST_SECONDS:g} s")
            return
        try:
            await self._take(looking.result())
        except InputError as error:
            self.troubles.raised("survey", "unusable", str(error))
        else:
            self.troubles.cleared("survey")

    async def _hear_faults(self) -> None:
        while True:
            try:
                heard = await asyncio.to_thread(self._surveyor.faults)
            except NvmlError as error:
                self.troubles.raised("driver", "no-events", str(error))
                heard = []
            if heard and self._survey is not None:
                for fault in heard:
                    log.warning("error of a GPU", address=fault.address, xid=fault.xid)
                self._faults |= dict.fromkeys(heard, False)
                await self._take(self._survey)
            await asyncio.sleep(1)

    async def _take(self, survey: Survey) -> None:
        """Announce what a look has shown: all resources of it, or an InputError and none."""
        config = self._options.config
        stock = take_stock(config, survey)
        self._survey = survey
        self._faults = standing(self._faults, survey)
        repairs = {address for address, gpu in survey.gpus.items() if gpu.repair}
        if problem := driver_problem(config, survey):
            self.troubles.raised("driver", "unusable", problem)
        else:
            self.troubles.cleared("driver")
        for name in sorted(stock.keys() | self.announced.keys()):
            resource = stock.get(name)
            before = self.announced.get(name, {})
            if survey.driver_problem and any(one.unit.visible for one in before.values()):
                continue
            after = judged(before, resource, survey.machine, self._faults, repairs)
            if after == before and name in self.servers:
                continue
            self.announced[name] = after
            self._tell(name, before, after)
            await self._offer(name, resource, survey)

    async def _offer(self, name: str, resource: Resource | None, survey: Survey) -> None:
        """A resource is served from its first device on, and then for good."""
        server = self.servers.get(name)
        rule = resource.rule if resource else server.offer.resource.rule if server else None
        if rule is None or not self.announced[name]:
            return
        offer = Offer.of(rule, self.announced[name], survey, self._options.config.flags)
        if server is None:
            server = self.servers[name] = ResourceServer(offer, self._options.folder, self._registration.wake)
            self._registration.serve(server)
        else:
            await server.announce(offer)

    def _tell(self, name: str, before: dict[str, Announced], after: dict[str, Announced]) -> None:
        """One line for each device that has changed, and one for all that are new and on no NUMA node."""
        for unit, one in after.items():
            known = before.get(unit)
            if one.problem and (known is None or known.problem != one.problem):
                log.warning(
                    "unhealthy", resource=name, device=unit, address=one.unit.address, problem=one.problem
                )
            elif known is not None and known.problem and not one.problem:
                log.info("healthy again", resource=name, device=unit)
        lost = [unit for unit, one in after.items() if one.unit.numa is None and unit not in before]
        if lost:
            log.warning(
                "no NUMA node is known (numa_node is -1 in sysfs), so the kubelet cannot align them",
                resource=name,
                devices=len(lost),
                first=printable(lost[0], 100),
            )
