"""Uploads for diagnosis: kept on disk while they come, and read in processes of their own, a few at a time.

All uploads together have one budget, so that however many are begun and never ended, neither memory nor disk runs out. A
process ends with its answer, with its time, or with the caller: who has left is not worked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import Coroutine
from typing import IO, Any

from starlette.requests import ClientDisconnect, Request

from numaware.diagnose.texts import Lang
from numaware.errors import InputError
from numaware.machine.words import printable
from numaware.sentence import Sentence
from numaware.serve.console.api import diagnose
from numaware.serve.console.api.operations import Packed, zipped
from numaware.serve.problems import ProblemError

_AT_ONCE = 2
_MOST_UPLOADS = 16
_MOST_KEPT = 256 << 20
# A reader that does not mind its own time is ended.
_SECONDS = 45


class Uploads:
    """All uploads of one console."""

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._uploads = 0
        self._kept = 0

    async def diagnosis(self, request: Request, name: str, lang: Lang) -> Packed:
        """The body of a request, diagnosed: a `Diagnosis`, encoded; `ProblemError` 503 where there is no room for it."""
        if self._uploads >= _MOST_UPLOADS:
            raise _full()
        self._uploads += 1
        sizes: list[int] = []
        try:
            with tempfile.TemporaryFile() as spooled:
                async for part in request.stream():
                    sizes.append(len(part))
                    self._kept += len(part)
                    if self._kept > _MOST_KEPT:
                        raise _full()
                    spooled.write(part)
                spooled.seek(0)
                return await _while_there(request, self._read(spooled, name, lang))
        except OSError as error:
            problem = Sentence("the upload cannot be kept: {problem}", problem=error.strerror or str(error))
            raise ProblemError(503, problem) from None
        finally:
            self._uploads -= 1
            self._kept -= sum(sizes)

    async def _read(self, spooled: IO[bytes], name: str, lang: Lang) -> Packed:
        async with self._slots:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", diagnose.__name__, printable(name, 200), lang),
                stdin=spooled,
                stdout=asyncio.subprocess.PIPE,
                # Ctrl-C is the console's, which ends its readers itself.
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(_SECONDS):
                    data, _ = await process.communicate()
            except TimeoutError:
                data = b""
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
        if process.returncode == 0:
            return await asyncio.to_thread(zipped, data, 1)
        if process.returncode == 1:
            raise RuntimeError("the reader of an upload failed; what it said stands above")
        costly = Sentence("takes more time or memory to read than there is for an upload")
        raise InputError(printable(name, 200), costly, hint=Sentence("numaware diagnose has no such bound"))


async def _while_there(request: Request, work: Coroutine[Any, Any, Packed]) -> Packed:
    """What comes of the work, unless the caller leaves before: then it is cancelled."""
    task = asyncio.ensure_future(work)
    # After the body nothing comes but the word that the caller is gone.
    gone = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


def _full() -> ProblemError:
    return ProblemError(503, Sentence("too many uploads at once"), headers={"retry-after": "5"})
