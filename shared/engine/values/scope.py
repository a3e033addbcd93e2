"""The names a template sees. Read precedence of a bare name: args → ctx → iter → workload → step
results (DSL2 §3.6, FS §2.3); the namespaces themselves always win over data of the same name. `iter` is the
current iteration and `iter.parent` the one around it (V10 §6.4), whose element is bound by its name too."""

from collections.abc import Mapping
from typing import Any

from shared.dsl.model.plan import EVERYTHING, Needs
from shared.dsl.templates.result_view import pointer, view
from shared.events.model import Scope
from shared.events.outcome import Result

NOTHING = Scope()


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
        if "parent" in iter_:
            _bind(found, iter_["parent"])
        found.update(iter_)
    found.update(scope.ctx)
    found.update(args)
    found["workload"] = scope.workload
    found["ctx"] = scope.ctx
    found["args"] = args
    found["execution_id"] = execution_id
    found["job"] = {"uuid": execution_id}
    if iter_ is not None or scope.caller:
        iter_ = iter_ or {}
        found["iter"] = within(iter_, scope.caller) if scope.caller else iter_
        if "index" in iter_:
            found["loop_index"] = iter_["index"]
    found.update(names)
    return found


def _bind(found: dict[str, Any], around: Mapping[str, Any]) -> None:
    """The elements of the loops around the current one, by their names."""
    if "parent" in around:
        _bind(found, around["parent"])
    found.update((name, value) for name, value in around.items() if name not in ("index", "count", "parent"))


def within(iter_: Mapping[str, Any], caller: Mapping[str, Any]) -> dict[str, Any]:
    """The iteration that started this execution is the parent of all of its own."""
    if "parent" in iter_:
        return {**iter_, "parent": within(iter_["parent"], caller)}
    return {**iter_, "parent": caller}


def narrow(
    needs: Needs,
    workload: Mapping[str, Any],
    ctx: Mapping[str, Any],
    steps: Mapping[str, Result],
    caller: dict[str, Any] | None = None,
) -> Scope:
    """Only what the step's templates can name, so that commands and the log stay small."""
    if not (needs.names or needs.ctx or needs.workload or needs.caller):
        return NOTHING
    return Scope(
        workload=_pick(workload, needs.workload, needs.names),
        ctx=_pick(ctx, needs.ctx, needs.names),
        steps={name: _part(steps[name], needs.parts.get(name)) for name in sorted(needs.names) if name in steps},
        caller=caller if caller and (needs.caller or "iter" in needs.names) else {},
    )


def _part(result: Result, keys: frozenset[str] | None) -> Result:
    """A stored result of which only selected parts are read need not be loaded (`output_select`)."""
    if result.ref is None or not result.fields or keys is None:
        return result
    known = {**pointer(result.ref), **result.fields}
    return Result(known) if keys <= known.keys() else result


def _pick(data: Mapping[str, Any], keys: frozenset[str], names: frozenset[str]) -> dict[str, Any]:
    if EVERYTHING in keys:
        return dict(data)
    return {key: value for key, value in data.items() if key in keys or key in names}
