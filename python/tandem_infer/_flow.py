"""Many requests of one call: how many are sent at one time, whose answer is next, the bar that shows it."""
from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from ._errors import RequestError, error_of, numbered
from ._library import Inbox, News
from ._requests import Request

Make = Callable[[], Request]
POLL_MS = 50  # Ctrl-C waits no longer


def window_of(options: Mapping[str, Any]) -> int:
    """Requests that are sent at one time: enough that the engine never waits for one."""
    sequences = options.get("max_num_seqs")
    return 4 * (sequences if isinstance(sequences, int) and sequences > 0 else 256)


def checked_window(window: Optional[int], default: int) -> int:
    if window is not None and window < 1:
        raise RequestError(f"window: {window} is not 1 or more", param="window")
    return window or default


class Flow:
    """Requests of one call: which are sent, and which answers wait for their turn."""

    def __init__(self, inbox: Inbox, made: Iterator[Make], window: int, ordered: bool, several: bool,
                 prompt_of: Callable[[int], int]) -> None:
        self._inbox = inbox
        self._made: Optional[Iterator[Make]] = made
        self._window = window
        self._ordered = ordered
        self._several = several  # errors say which prompt
        self._prompt_of = prompt_of  # the index of a request's prompt
        self._sent = 0  # requests so far
        self._open = 0  # of these, without an answer
        self._next = 0  # whose turn it is
        self._done: Dict[int, Any] = {}  # answers whose turn has not come
        self._failed: List[Tuple[int, Exception]] = []  # before they were sent

    def fill(self) -> bool:
        """Sends while there is room. Whether there is anything to wait for."""
        while self._made is not None and self._open + len(self._done) + len(self._failed) < self._window:
            make = next(self._made, None)
            if make is None:
                self._made = None
                break
            index = self._sent
            self._sent += 1
            try:
                request = make()
                self._inbox.submit(index, request.text, request.sound)
                self._open += 1
            except RequestError as error:
                self._failed.append((index, numbered(error, self._prompt_of(index), self._several)))
        return self._open > 0 or bool(self._failed)

    def wait(self, together: int) -> Iterator[Tuple[int, Optional[News], Optional[Exception]]]:
        """Answers that have come; for `together` of them it waits a moment."""
        failed, self._failed = self._failed, []
        for index, error in failed:
            yield index, None, error
        if failed or not self._open:
            return
        for news in self._inbox.poll(POLL_MS, min(together, self._open)):
            if not news.last:
                continue
            self._open -= 1
            body = news.body.get("error")
            yield news.number, news, None if body is None else error_of(body, self._prompt_of(news.number), self._several)

    def put(self, index: int, answer: Any) -> None:
        self._done[index] = answer

    def ready(self) -> Iterator[Any]:
        if not self._ordered:
            while self._done:
                yield self._done.pop(next(iter(self._done)))
        while self._next in self._done:
            yield self._done.pop(self._next)
            self._next += 1

    def close(self) -> None:
        self._inbox.close()


def progress(wanted: Optional[bool], total: Optional[int]) -> Any:
    """tqdm's bar, where it is wanted and there is tqdm."""
    if wanted is None:
        wanted = (total or 0) > 1 and sys.stderr is not None and sys.stderr.isatty()
    if not wanted:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(total=total, desc="Prompts", unit="it", dynamic_ncols=True)
