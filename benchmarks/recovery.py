"""How long the engine takes to recover from each fault: seconds to the first result accepted after it, and to the last
of the tasks that ran when it hit. The lease is 3 s, and the sweep comes every 5 s.
"""

import argparse
import asyncio
import os
import statistics
from pathlib import Path

from anabranch.bench.cluster import make_temporary_folder
from anabranch.logs import configure_logs
from benchmarks.run import say
from tests.support.campaign import Campaign, Fault, open_campaign
from tests.support.faults import DESCRIPTORS, FAILOVER, KILLS, NETWORK, RESTORE, SERVER

PLUGINS = Path(__file__).parents[1] / "tests" / "faults" / "plugins"
TIMED = (*KILLS, *SERVER, *NETWORK, *FAILOVER, *RESTORE, *DESCRIPTORS)


async def measure(fault: Fault, times: int, seed: int) -> None:
    """One campaign of one fault, on a server of its own."""
    with make_temporary_folder() as folder:
        async with open_campaign(fault.__name__, seed, folder, PLUGINS) as campaign:
            # Handlers that a cancel does not end keep their slots for the grace of 30 s, whatever hits.
            campaign.kinds = tuple(kind for kind in campaign.kinds if kind != "idle")
            campaign.start()
            for _ in range(times):
                await campaign.strike(fault)
            show_recoveries(campaign)


def show_recoveries(campaign: Campaign) -> None:
    """A line for each fault: how often it hit, and the median and the longest of both times."""
    for kind, found in sorted(campaign.recoveries.items()):
        first, last = sorted(one.first for one in found), sorted(one.last for one in found)
        say(
            f"| {kind} | {len(found)} | {statistics.median(first):.1f} | {first[-1]:.1f}"
            f" | {statistics.median(last):.1f} | {last[-1]:.1f} |",
        )


def main() -> None:
    """Read the options, and run."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=5)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--fault", action="append", help="only this one")
    given = options.parse_args()
    configure_logs("error", "console")
    say(f"cores {os.cpu_count()}, load {os.getloadavg()[0]:.1f} at the start")
    say("| fault | times | first, median s | longest | last, median s | longest |\n|---|---|---|---|---|---|")
    for fault in TIMED:
        if not given.fault or fault.__name__ in given.fault:
            asyncio.run(measure(fault, given.times, given.seed))


if __name__ == "__main__":
    main()
