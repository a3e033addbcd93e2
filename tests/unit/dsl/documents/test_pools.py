"""`kind: Pool` as people write it: what is taken, and what is told about the rest."""

import pytest

from shared.dsl.documents.compile import compile_pool, kind_in
from shared.dsl.documents.pools import MAX_WORKERS, Autoscaling, Pool, plain
from shared.dsl.read.capabilities import MAX_CAPABILITIES

HEAD = "apiVersion: noetl.io/v2\nkind: Pool\nmetadata: {name: etl, labels: {team: data}}\n"


def told(spec: str, head: str = HEAD) -> list[str]:
    compiled = compile_pool(head + spec, kinds=("shell", "http"), file="p")
    assert (compiled.document is None) == bool(compiled.diagnostics)
    return [str(each) for each in compiled.diagnostics]


def test_a_pool_with_everything() -> None:
    source = HEAD + (
        "spec: {backend: process, workers: 2, slots: 8, provides: [gpu, eu, gpu], tools_disabled: [shell],\n"
        "       drain_s: 5, silent_s: 25}\n"
    )
    assert compile_pool(source, kinds=("shell",)).document == Pool(
        name="etl", backend="process", workers=2, slots=8, provides=("eu", "gpu"), tools_disabled=("shell",),
        drain_s=5.0, silent_s=25.0, labels={"team": "data"},
    )
    assert kind_in(source) == "Pool"


def test_what_is_left_out_has_a_default() -> None:
    assert compile_pool(HEAD + "spec: {}\n").document == Pool("etl", labels={"team": "data"})


@pytest.mark.parametrize(("spec", "said"), [
    ("spec: {worker: 2}", "p:4:8: error DSL201: unknown key 'worker' in spec (did you mean workers?)"),
    ("spec: {workers: many}", "p:4:17: error DSL203: spec.workers must be a whole number, not text "
                              "(a whole number from 0 to 256)"),
    (f"spec: {{workers: {MAX_WORKERS + 1}}}", "p:4:17: error DSL204: spec.workers is 257, outside 0 to 256 "
                                              "(a whole number from 0 to 256)"),
    ("spec: {backend: nomad}", "p:4:17: error DSL204: spec.backend cannot be 'nomad' "
                               "(one of: process, external, kubernetes)"),
    ("spec: {autoscaling: {min: 1, target: 3}}", "p:4:8: error DSL202: autoscaling has no max (add max: 10)"),
    ("spec: {workers: 2, autoscaling: {max: 4, target: 9}}",
     "p:4:8: error DSL204: workers has no meaning with autoscaling "
     "(leave it out: min and max bound the number of workers)"),
    ("spec: {autoscaling: {min: 5, max: 4, target: 9}}",
     "p:4:27: error DSL204: min is 5, over max, which is 4 (min is at most max)"),
    ("spec: {autoscaling: {max: 4, target: 0}}",
     "p:4:38: error DSL204: spec.autoscaling.target is 0, outside 1 to 1000000 (a whole number from 1 to 1000000)"),
    ("spec: {autoscaling: {max: 4, target: 9, calm_s: 90000}}",
     "p:4:49: error DSL204: calm_s is over 86400 (at most 86400 seconds)"),
    ("spec: {autoscaling: {mode: keda}}", "p:4:28: error DSL204: KEDA scales Deployments (write backend: kubernetes)"),
    ("spec: {backend: kubernetes, autoscaling: {mode: keda, max: 4}}",
     "p:4:55: error DSL204: max has no meaning with mode keda (leave it out and set it in the ScaledObject)"),
    ("spec: {backend: external, autoscaling: {max: 4, target: 9}}",
     "p:4:27: error DSL204: autoscaling has no meaning with backend external: others run the workers "
     "(leave it out and set it where the workers run, or write backend: process)"),
    ("spec: {backend: external, workers: 2}",
     "p:4:27: error DSL204: workers has no meaning with backend external: others run the workers "
     "(leave it out and set it where the workers run, or write backend: process)"),
    ("spec: {provides: gpu}", "p:4:18: error DSL203: spec.provides must be a list, not text "
                              "(write a list, as in [gpu, eu])"),
    ("spec: {provides: [a b]}", "p:4:19: error DSL205: a capability cannot be called 'a b' "
                                "(letters, digits, _ and -, at most 64 characters, as in [gpu, eu])"),
    ("spec: {tools_disabled: [shel]}", "p:4:25: error DSL405: there is no tool kind 'shel' (did you mean shell?)"),
    ("spec: {drain_s: 4000}", "p:4:17: error DSL204: drain_s is over 3600 (at most 3600 seconds)"),
    ("spec: {silent_s: 4}", "p:4:18: error DSL204: silent_s is outside 10 to 3600 (10 to 3600 seconds)"),
    ("", "p:1:1: error DSL202: the pool has no spec (add spec: {…})"),
])
def test_every_mistake_is_told_with_its_place_and_fix(spec: str, said: str) -> None:
    assert told(spec) == [said]


def test_capabilities_are_bounded() -> None:
    names = ", ".join(f"c{n}" for n in range(MAX_CAPABILITIES + 1))
    assert "over the limit of 32" in told(f"spec: {{provides: [{names}]}}")[0]


def test_a_plain_document_says_what_it_was_given() -> None:
    pool = compile_pool(plain("gpu", 3, slots=2, provides=["eu"])).document
    assert pool == Pool("gpu", "process", 3, 2, ("eu",))
    assert compile_pool(plain("far", backend="external")).document == Pool("far", "external")


def test_autoscaling_is_ours_or_kedas() -> None:
    native = compile_pool(HEAD + "spec: {autoscaling: {min: 1, max: 4, target: 9, calm_s: 60}}\n").document
    assert native is not None
    assert native.scales == Autoscaling("native", 1, 4, 9, 60.0)
    assert native.ours
    keda = compile_pool(HEAD + "spec: {backend: kubernetes, autoscaling: {mode: keda}}\n").document
    assert keda is not None
    assert (keda.scales, keda.ours) == (None, False)


def test_a_document_says_whose_it_is() -> None:
    head = "apiVersion: noetl.io/v2\nkind: Pool\nmetadata: {name: etl, owner: %s}\nspec: {}\n"
    found = compile_pool(head % "helm/noetl").document
    assert found is not None
    assert found.owner == "helm/noetl"
    wrong = [str(each) for each in compile_pool(head % "me", file="p").diagnostics]
    assert wrong == ["p:3:30: error DSL205: the owner cannot be 'me' (write who and which one, as in helm/noetl)"]


@pytest.mark.parametrize(("name", "near"), [
    ("GPU", "write gpu: "), ("etl_eu", "write etl-eu: "), ("Etl__EU-", "write etl-eu: "), ("_", ""),
    ("a" * 64, "write "),
])
def test_a_name_that_kubernetes_would_not_take_is_refused_with_the_nearest_one(name: str, near: str) -> None:
    compiled = compile_pool(plain(name), file="p")
    assert compiled.document is None
    assert [(each.code, each.fix.startswith(near or "small letters")) for each in compiled.diagnostics] == [
        ("DSL205", True)]
    stored = compile_pool(plain(name), stored=True).document
    assert stored is not None
    assert stored.name == name
