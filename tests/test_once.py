"""Results that all readers of a process share are computed once, whoever comes first."""

import contextlib
import threading
import time

from sequence_extension.page.once import once


def test_readers_who_arrive_together_compute_once() -> None:
    calls: list[int] = []

    @once
    def slow() -> list[int]:
        calls.append(len(calls))
        time.sleep(0.05)
        return [7]

    results: list[list[int]] = []
    threads = [threading.Thread(target=lambda: results.append(slow())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [0]
    assert [result is results[0] for result in results] == [True] * 8


def test_a_failure_is_not_kept() -> None:
    """The first reader's accident is not everybody's."""
    attempts: list[int] = []

    @once
    def flaky() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise OSError("busy")
        return "there"

    with contextlib.suppress(OSError):
        flaky()
    assert flaky() == "there"
