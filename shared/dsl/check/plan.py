"""Checks beyond the shape: what a playbook that compiles would still do wrong. They run on the finished
plan, and only when nothing else is wrong: a mistyped arc would make every step after it look unreachable. Literals and
programs are looked at all the same: what is wrong with one has nothing to do with the rest."""

from collections.abc import Collection, Mapping

from shared.dsl.check.credentials import check_credentials
from shared.dsl.check.data import check_data
from shared.dsl.check.names import check_names
from shared.dsl.check.pipeline import check_pipelines
from shared.dsl.check.plan_paths import Sites
from shared.dsl.check.pools import check_pools
from shared.dsl.check.programs import check_programs
from shared.dsl.check.routing import check_failures, check_net
from shared.dsl.model.plan import Plan
from shared.dsl.model.tool_spec import ToolSpec
from shared.dsl.read.reader import Reader
from shared.dsl.source.nodes import Path


def check_plan(reader: Reader, plan: Plan, steps: Mapping[str, Path], kinds: Mapping[str, ToolSpec],
               pools: Collection[str] | None, *, strict: bool = False, programs: bool = False,
               credentials: Collection[str] | None = None) -> None:
    """`steps` says where each step of the plan stands in the reader's document; `strict` tells what an earlier edition
    of the language took otherwise."""
    sites, sound = Sites(reader.document.data, steps), not reader.errors and plan.start in plan.steps
    if programs:
        check_programs(reader, plan, sites, kinds)
    if not sound:
        return
    check_net(reader, plan, sites)
    if strict:
        check_failures(reader, plan, sites)
    check_pipelines(reader, plan, sites, kinds)
    check_names(reader, plan, sites, kinds)
    check_data(reader, plan, sites, kinds)
    if pools is not None:
        check_pools(reader, plan, sites, pools)
    if credentials is not None:
        check_credentials(reader, plan, sites, credentials)
