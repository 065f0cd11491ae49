"""`raygrove eval`: runs evaluation sets, and prints their scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from runtime.frontends.console import options, runtimes
from runtime.frontends.console.output import FAILED, print_json, print_table

if TYPE_CHECKING:
    from runtime.frontends.evaluation.criteria import Criterion
    from runtime.frontends.evaluation.evaluate import CaseResult

EvalSets = Annotated[
    list[str], typer.Argument(metavar="EVALSET...", help="A JSON file, FILE:CASE,CASE, or a folder with *.test.json.")
]
CasesJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON, one case a line.")]
Config = Annotated[str | None, typer.Option(help="The file with the criteria; by default test_config.json beside each set.")]


def evaluate_sets(
    path: options.AppPath,
    evalsets: EvalSets,
    config: Config = None,
    json: CasesJson = False,
    app_name: options.AppName = None,
    store: Annotated[str, typer.Option(help="URL of the session store; by default nothing is kept.")] = "sqlite://",
    ray: options.Ray = False,
    address: options.RunAddress = None,
) -> None:
    """Run ADK's evaluation sets, and compare tool calls and answers with the expected ones.

    Exit codes: 0 all cases passed, 1 some did not, 2 wrong usage or a wrong file.
    """
    import sys
    from pathlib import Path

    from actors.errors import RequestError
    from runtime.frontends.evaluation.criteria import load_criteria
    from runtime.frontends.evaluation.eval_sets import load_eval_sets
    from runtime.frontends.evaluation.evaluate import evaluate

    sets = [each for given in evalsets for each in load_eval_sets(given)]
    jobs = [(each, load_criteria(Path(config) if config else None, each.file)) for each in sets]
    all_criteria = [criterion for _, criteria in jobs for criterion in criteria]
    for metric in dict.fromkeys(each.metric for each in all_criteria if each.score is None):
        print(f"not run: {metric} needs a model that judges, or code of its own", file=sys.stderr)
    for each, criteria in jobs:
        if all(criterion.score is None for criterion in criteria):
            raise RequestError(f"no score of {each.file} can be computed: name tool_trajectory_avg_score or response_match_score")
    rows, passed = [], True
    with runtimes.open_app(runtimes.Where(path, app_name, [store], ray, address)) as rt:
        for each, criteria in jobs:
            for result in evaluate(rt, each, criteria):
                passed = passed and result.passed
                if json:
                    print_json([result])
                rows += _rows(result, criteria)
    if not json:
        print_table(("set", "case", "metric", "score", "threshold", "result"), rows)
    raise typer.Exit(0 if passed else FAILED)


def _rows(result: CaseResult, criteria: list[Criterion]) -> list[tuple[str, ...]]:
    if result.error:
        return [(result.eval_set, result.eval_id, "", "", "", f"failed: {result.error}")]
    return [
        (
            result.eval_set,
            result.eval_id,
            each.metric,
            f"{result.scores[each.metric]:.2f}",
            f"{each.threshold:.2f}",
            "passed" if result.scores[each.metric] >= each.threshold else "failed",
        )
        for each in criteria
        if each.metric in result.scores
    ]
