"""The names a template sees. Read precedence of a bare name: args → ctx → iter → workload → step
results (DSL2 §3.6, FS §2.3); the namespaces themselves always win over data of the same name."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.plan import EVERYTHING, Needs
from shared.dsl.view import view
from shared.events.model import Scope
from shared.events.outcome import Result


def visible(
    execution_id: str,
    scope: Scope,
    args: Mapping[str, Any],
    iter_: Mapping[str, Any] | None = None,
    **names: Any,
) -> dict[str, Any]:
    """The flat dict a template is rendered with."""
    found: dict[str, Any] = {name: view(result) for name, result in scope.steps.items()}
    found.update(scope.workload)
    if iter_ is not None:
        found.update(iter_)
    found.update(scope.ctx)
    found.update(args)
    found["workload"] = scope.workload
    found["ctx"] = scope.ctx
    found["args"] = args
    found["execution_id"] = execution_id
    found["job"] = {"uuid": execution_id}
    if iter_ is not None:
        found["iter"] = iter_
        if "index" in iter_:
            found["loop_index"] = iter_["index"]
    found.update(names)
    return found


def narrow(
    needs: Needs, workload: Mapping[str, Any], ctx: Mapping[str, Any], steps: Mapping[str, Result]
) -> Scope:
    """Only what the step's templates can name, so that commands and the log stay small."""
    return Scope(
        workload=_pick(workload, needs.workload, needs.names),
        ctx=_pick(ctx, needs.ctx, needs.names),
        steps={name: steps[name] for name in sorted(needs.names) if name in steps},
    )


def _pick(data: Mapping[str, Any], keys: frozenset[str], names: frozenset[str]) -> dict[str, Any]:
    if EVERYTHING in keys:
        return dict(data)
    return {key: value for key, value in data.items() if key in keys or key in names}
