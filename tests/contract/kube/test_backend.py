"""Pools as Deployments: what the service does with exactly the rights of its Role, and that it needs each of them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.kube import stories, world
from tests.contract.kube.stories import Story
from tests.contract.kube.world import CREATE, ROLE, Cluster
from tests.support.waiting import until


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with world.cluster(tmp_path) as one:
        yield one


@pytest.mark.parametrize("story", stories.DECLARED, ids=lambda story: story.__name__)
async def test_a_pool_of_the_chart_needs_no_right_on_deployments(cluster: Cluster, story: Story) -> None:
    await cluster.allow(ROLE)
    await story(cluster)


@pytest.mark.parametrize("story", stories.MADE, ids=lambda story: story.__name__)
async def test_a_pool_that_nobody_declared(cluster: Cluster, story: Story) -> None:
    await cluster.allow(ROLE | CREATE)
    await story(cluster)


@pytest.mark.parametrize("right", sorted(stories.MISSED), ids="-".join)
async def test_every_verb_of_the_role_is_needed(cluster: Cluster, right: tuple[str, str]) -> None:
    """Without it the story does not come to its end, and the pool says what is forbidden."""
    await cluster.allow((ROLE | CREATE) - {right})
    story = asyncio.ensure_future(stories.MISSED[right](cluster))
    try:
        said = await until(lambda: story.done() or cluster.backend.missing(cluster.pool), "a refusal", 20.0,
                           so=lambda found: found is True or "forbidden" in found)
        assert said is not True, "it came to its end"
        assert right[0].partition("/")[0] in said
        await asyncio.sleep(10 * world.EVERY_S)
        assert not story.done()
    finally:
        story.cancel()
        await asyncio.gather(story, return_exceptions=True)


async def test_what_another_manages_is_left_alone_until_the_pool_is_taken_over(cluster: Cluster) -> None:
    await cluster.allow(ROLE | CREATE)
    await cluster.declare(2)
    cluster.another(create=True)
    cluster.look()
    await until(lambda: cluster.backend.missing(cluster.pool), "a conflict", so=lambda said: "conflict" in said)
    cluster.forced = True
    await cluster.reconciled(2)
    env = (await cluster.found())["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "NOETL_POOL", "value": "etl"} in env


async def test_a_pool_with_an_owner_is_never_applied(cluster: Cluster) -> None:
    await cluster.allow(ROLE | CREATE)
    cluster.pool = world.Pool("etl", "kubernetes", owner="helm/contract")
    cluster.another(create=True)
    cluster.look()
    said = "there is no Deployment contract-worker-etl: helm/contract makes it"
    await until(lambda: cluster.backend.missing(cluster.pool), said, so=lambda found: found == said)
    await cluster.declare(1)
    before = await cluster.found()
    await cluster.reconciled(1)
    assert (await cluster.found())["spec"] == before["spec"]


async def test_what_somebody_scales_by_hand_goes_back_to_what_the_document_wants(cluster: Cluster) -> None:
    await cluster.declare(2)
    await cluster.reconciled(2)
    await cluster.scale(6)
    await until(cluster.look, "six are seen", so=lambda found: len(found) == 6)
    await cluster.reconciled(2)
    assert len(await cluster.names()) == 2


@pytest.mark.parametrize(("text", "said"), [
    (None, "cannot be read"), ("a: [", "is not YAML"), ("kind: Pod", "is not a Deployment"),
    ("kind: Deployment\nspec: {template: {spec: {containers: []}}}", "is not a Deployment"),
])
async def test_a_template_that_is_none_is_trouble(cluster: Cluster, text: str | None, said: str) -> None:
    await cluster.allow(ROLE | CREATE)
    cluster.another(create=True)
    cluster.file.unlink() if text is None else cluster.file.write_text(text)
    cluster.look()
    await until(lambda: cluster.backend.missing(cluster.pool), said, so=lambda found: said in found)
