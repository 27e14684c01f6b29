"""Thirty readers at one `marimo run`, who arrive within one second; on loopback.

    uv run python tests/load.py [--readers 30] [--seconds 15] [--waves 2]

Each reader is a session of its own, over websocket and HTTP as the browser would be. It waits for
the first figure and for the whole page; then it writes a token into section 2 that no other reader
ever writes, waits for the answer, thinks for a moment, and writes the next. Checked: every edit is
answered with its own token, no answer holds the token of another reader, no cell fails. Reported:
times to the first figure, to the whole page and from edit to answer, memory per reader, and what
is given back after all have left; a second wave shows whether memory grows with readers gone by.

Exit code 1 when an edit was lost, a cell failed or readers saw each other.
"""

import argparse
import asyncio
import json
import re
import statistics
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import websockets
from browser import PATIENCE_S, Server, copy_project, mounted, serve

# Tokens of readers start here; scenarios use small ids only.
BASE = 2_000_000_000
STRIDE = 10_000
THINK_S = 1.0
# At most, of the server's time, for opening one page.
OPENING_S = 30.0
# All arrive within this time.
ARRIVAL_S = 1.0


@dataclass
class Tally:
    """What all readers together saw."""

    seconds: list[float] = field(default_factory=list)
    figures: list[float] = field(default_factory=list)
    openings: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    crossed: list[str] = field(default_factory=list)


def resident_mb(pid: int) -> float:
    """Resident memory of a process; 0 where there is no /proc."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text(encoding="utf-8"))
    return int(found[1]) / 1000 if found else 0.0


class LoadReader:
    """One reader: a websocket that listens, and requests that edit."""

    def __init__(self, number: int, server: Server, token: str, tally: Tally) -> None:
        self.number = number
        self.server = server
        self.tally = tally
        self.session = f"s_{uuid.uuid4().hex[:6]}"
        self.headers = {"Marimo-Session-Id": self.session, "Marimo-Server-Token": token}
        self.outputs = ""
        self.model = ""
        self.state: dict[str, Any] = {}
        self.arrived = 0.0
        self.has_figure = False

    async def until_answered(self, socket: Any, patience: float = PATIENCE_S) -> None:
        """Read messages up to the end of a run; keeps the outputs, notes failed cells."""
        self.outputs = ""
        while True:
            message = json.loads(await asyncio.wait_for(socket.recv(), patience))
            if message["op"] == "completed-run":
                return
            if message["op"] == "model-lifecycle":
                self.note_model(message["data"])
            if message["op"] != "cell-op":
                continue
            output = message["data"].get("output")
            if not output:
                continue
            if output["channel"] == "marimo-error":
                self.tally.failures.append(f"reader {self.number}: {output['data']}")
            self.outputs += str(output["data"])
            if not self.has_figure and "vega" in f"{output['mimetype']}{output['data']}":
                self.has_figure = True
                self.tally.figures.append(time.perf_counter() - self.arrived)

    async def read(self, seconds: float, all_in: asyncio.Barrier) -> None:
        """Open the app, wait for the others, then edit until the time is over.

        marimo parses the notebook for one reader while another reader's cells are compiled. In
        Python 3.11 that can fail ("AST constructor recursion depth mismatch") and closes the
        connection; the page then connects again, and so does this reader.
        """
        try:
            for attempt in range(3):
                try:
                    await self.visit(seconds, all_in)
                    return
                except websockets.ConnectionClosed:
                    if self.outputs or attempt == 2:
                        raise
        except asyncio.BrokenBarrierError:
            pass  # another reader has failed and says why
        except Exception as error:
            self.tally.failures.append(f"reader {self.number}: {error!r}")
            await all_in.abort()  # nobody waits for one who will not come

    async def visit(self, seconds: float, all_in: asyncio.Barrier) -> None:
        await asyncio.sleep(ARRIVAL_S * self.number / all_in.parties)
        url = self.server.url.replace("http://", "ws://") + f"ws?session_id={self.session}"
        self.arrived = self.arrived or time.perf_counter()
        async with (
            websockets.connect(url, max_size=None, ping_timeout=None, open_timeout=None) as socket,
            httpx.AsyncClient(
                base_url=self.server.url, headers=self.headers, timeout=PATIENCE_S
            ) as client,
        ):
            # all who come at once wait for each other: one process opens one page after the other
            await self.until_answered(socket, PATIENCE_S + OPENING_S * all_in.parties)
            self.tally.openings.append(time.perf_counter() - self.arrived)
            if not self.model:
                raise RuntimeError("No editor on the page.")
            await all_in.wait()
            end = time.perf_counter() + seconds
            count = 0
            while time.perf_counter() < end:
                await self.edit(client, socket, BASE + STRIDE * self.number + count)
                count += 1
                await asyncio.sleep(THINK_S)

    def note_model(self, data: dict[str, Any]) -> None:
        """Keep the editor's id and state; what it shows counts as output."""
        message = data["message"]
        state = message.get("state", {})
        if message["method"] == "open" and "drafts" in state.get("state", {}):
            self.model, self.state = data["model_id"], state["state"]
        if data["model_id"] == self.model:
            self.outputs += json.dumps(state.get("view"))

    async def edit(self, client: httpx.AsyncClient, socket: Any, own: int) -> None:
        """Write one token that nobody else writes, and look at the answer."""
        sent = time.perf_counter()
        first, *others = self.state["drafts"]
        drafts = [{**first, "ac": f"200 {own}"}, *others]
        self.state = {**self.state, "serial": self.state["serial"] + 1, "drafts": drafts}
        update = {"method": "update", "state": {"state": self.state}, "bufferPaths": []}
        answer = await client.post(
            "api/kernel/set_model_value",
            json={"modelId": self.model, "message": update, "buffers": []},
        )
        answer.raise_for_status()
        await self.until_answered(socket)
        self.tally.seconds.append(time.perf_counter() - sent)
        who = f"reader {self.number}, token {own}"
        if str(own) not in self.outputs:
            self.tally.lost.append(who)
        seen = {int(text) for text in re.findall(r"(?<![\w-])20\d{8}(?![\w-])", self.outputs)}
        foreign = {
            token for token in seen if (token - BASE) // STRIDE != self.number and token >= BASE
        }
        if foreign:
            self.tally.crossed.append(f"{who}: saw {sorted(foreign)[:3]}")


async def wave(server: Server, readers: int, seconds: float) -> tuple[Tally, float]:
    """All readers at once; returns what they saw, and the server's memory at its highest."""
    async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
        token = str(mounted((await client.get(server.url)).text, "serverToken"))
    tally = Tally()
    barrier = asyncio.Barrier(readers)
    tasks = [
        asyncio.create_task(LoadReader(number, server, token, tally).read(seconds, barrier))
        for number in range(readers)
    ]
    highest = 0.0
    while not all(task.done() for task in tasks):
        highest = max(highest, resident_mb(server.pid))
        await asyncio.wait(tasks, timeout=0.5)
    await asyncio.gather(*tasks)
    return tally, highest


async def settled_mb(server: Server) -> float:
    """Memory once sessions have been closed and it no longer falls."""
    lowest = resident_mb(server.pid)
    still = 0
    while still < 6:
        await asyncio.sleep(1)
        now = resident_mb(server.pid)
        still = 0 if now < lowest - 1 else still + 1
        lowest = min(lowest, now)
    return lowest


async def load(readers: int, seconds: float, waves: int) -> bool:
    """Run waves of readers against one server, print what was found; true when all is well."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serve("run", copy_project(Path(folder)), "--session-ttl", "1") as server,
    ):
        await wave(server, 1, 0)  # imports are shared by all readers
        before = await settled_mb(server)
        print(f"memory of the server after one reader came and went: {before:.0f} MB")
        sound = True
        left = before
        for number in range(1, waves + 1):
            tally, highest = await wave(server, readers, seconds)
            after = await settled_mb(server)
            times = sorted(tally.seconds)
            print(f"wave {number}: {readers} readers, {len(times)} edits in {seconds:.0f} s")
            print(
                f"  first figure: median {statistics.median(tally.figures):.1f} s, "
                f"last {max(tally.figures):.1f} s; whole page: median "
                f"{statistics.median(tally.openings):.1f} s, last {max(tally.openings):.1f} s"
            )
            if times:  # none where a reader failed before all were in
                print(
                    f"  edit to answer: median {statistics.median(times):.2f} s, "
                    f"95th percentile {times[int(0.95 * (len(times) - 1))]:.2f} s, "
                    f"longest {times[-1]:.2f} s"
                )
            print(f"  memory per reader: {(highest - left) / readers:.1f} MB")
            given_back = (highest - after) / (highest - left) if highest > left else 1.0
            print(f"  given back after they left: {given_back:.0%} ({after:.0f} MB stay)")
            for what, found in (
                ("failed cells", tally.failures),
                ("lost edits", tally.lost),
                ("readers who saw another", tally.crossed),
            ):
                print(f"  {what}: {len(found)}", *found[:3], sep="\n    " if found else "")
                sound = sound and not found
            if tally.failures:
                print(server.output[-4_000:])
            left = after
        return sound


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--readers", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=15, help="of editing, per wave")
    parser.add_argument("--waves", type=int, default=2, help="how often all come and go")
    chosen = parser.parse_args()
    sound = asyncio.run(load(chosen.readers, chosen.seconds, chosen.waves))
    sys.exit(0 if sound else 1)


if __name__ == "__main__":
    main()
