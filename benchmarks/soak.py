"""`make soak`: faults of every kind hit a stack of real processes under load, for as long as is asked.

Prints a line each minute, and at the end what became of all jobs; it fails when anything is lost, doubled, stuck or
wrong. Faults that leave no record that compares (a stepped clock) come with all others.
"""

import argparse
import asyncio
import time
from pathlib import Path

from anabranch.bench.cluster import make_temporary_folder
from anabranch.logs import configure_logs
from benchmarks.recovery import show_recoveries
from benchmarks.run import say
from tests.support.campaign import Campaign, open_campaign
from tests.support.faults import CLOCK, DESCRIPTORS, FAILOVER, KILLS, NETWORK, RESTORE, SERVER

PLUGINS = Path(__file__).parents[1] / "tests" / "faults" / "plugins"
ALL = (*KILLS, *SERVER, *NETWORK, *FAILOVER, *RESTORE, *DESCRIPTORS, *CLOCK)


async def soak(minutes: float, seed: int) -> None:
    """One campaign, until the time is up."""
    with make_temporary_folder() as folder:
        async with open_campaign("soak", seed, folder, PLUGINS, workers=3, proxies=3) as campaign:
            campaign.start()
            telling = asyncio.create_task(tell(campaign))
            until = time.monotonic() + minutes * 60
            while time.monotonic() < until:
                for fault in campaign.draw(ALL, len(ALL)):
                    if time.monotonic() < until:
                        await campaign.strike(fault)
            telling.cancel()
            try:
                await campaign.finish()
            finally:
                show_recoveries(campaign)


async def tell(campaign: Campaign) -> None:
    """A line each minute."""
    began = time.monotonic()
    while True:
        await asyncio.sleep(60)
        say(f"{(time.monotonic() - began) / 60:4.0f} min  {campaign.summary()}")


def main() -> None:
    """Read the options, and run."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--seed", type=int, default=int(time.time()))
    given = options.parse_args()
    say(f"seed {given.seed}")
    configure_logs("error", "console")
    asyncio.run(soak(given.minutes, given.seed))


if __name__ == "__main__":
    main()
