"""A process that runs an experiment and waits forever at its fourth example, for a test that kills it."""

from __future__ import annotations

import asyncio
import sys

import clew
from clew.workbench.experiments.examples import Example
from clew.workbench.experiments.experiments import ExperimentPlan
from clew.workbench.experiments.results import ExperimentResult, exact
from clew.workbench.experiments.runner import ExperimentOptions, run_experiment

PLAN = ExperimentPlan(dataset="sums", subject="a calculator", scorer="exact")


async def double(example: Example) -> str:
    if example.question == "3":
        await asyncio.Event().wait()
    return str(2 * int(example.question))


def report_result(result: ExperimentResult) -> None:
    sys.stdout.write(f"kept {result.question}\n")
    sys.stdout.flush()


async def main(url: str) -> None:
    async with clew.open(url) as db:
        await run_experiment(
            db,
            "first",
            PLAN,
            double,
            exact,
            ExperimentOptions(at_once=1),
            notify=report_result,
        )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
