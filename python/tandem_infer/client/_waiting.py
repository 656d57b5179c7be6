"""What waits, twice: the first of each pair is for asyncio (_async.py), the second for threads (_sync.py)."""
from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from typing import Any, Awaitable, Callable, Iterable, List, Optional, TypeVar

import httpx

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

AsyncSend = Callable[[], Awaitable[httpx.Response]]
Send = Callable[[], httpx.Response]

async_sleep = asyncio.sleep
sleep = time.sleep


def _request_id(response: Optional[httpx.Response]) -> str:
    return "" if response is None else str(response.headers.get("x-request-id", ""))


class AsyncAnswer:
    """A response whose request is sent when somebody first waits for it."""

    def __init__(self, send: AsyncSend) -> None:
        self._send = send
        self._response: Optional[httpx.Response] = None

    @property
    def request_id(self) -> str:
        return _request_id(self._response)

    async def response(self) -> httpx.Response:
        if self._response is None:
            self._response = await self._send()
        return self._response

    async def close(self) -> None:
        if self._response is not None:
            await self._response.aclose()


class Answer:
    """A response whose request is sent at once."""

    def __init__(self, send: Send) -> None:
        self._response = send()

    @property
    def request_id(self) -> str:
        return _request_id(self._response)

    def response(self) -> httpx.Response:
        return self._response

    def close(self) -> None:
        self._response.close()


class AsyncRoom:
    """Room for `count` requests. It belongs to the event loop that first uses it."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._semaphore: Optional[asyncio.Semaphore] = None

    async def __aenter__(self) -> None:
        if self._semaphore is None:
            self._semaphore = asyncio.Semaphore(self._count)
        await self._semaphore.acquire()

    async def __aexit__(self, *_: Any) -> None:
        if self._semaphore is not None:
            self._semaphore.release()


Room = threading.Semaphore


async def async_gather(call: Callable[[_Item], Awaitable[_Result]], items: Iterable[_Item], most: int) -> List[_Result]:
    """The results for all items, in their order. `most`: as gather(); AsyncRoom bounds these."""
    return list(await asyncio.gather(*(call(item) for item in items)))


def gather(call: Callable[[_Item], _Result], items: Iterable[_Item], most: int) -> List[_Result]:
    """The results for all items, in their order, by `most` threads."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=most) as pool:
        return list(pool.map(call, items))
