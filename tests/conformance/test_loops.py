"""Loops within loops, the loop of a task, tolerance and `stop_when`: on a real stack."""

import pytest

from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_cities_and_hotels_in_parallel_and_the_rooms_of_each_page_by_page(lab: Lab, api: Api) -> None:
    """V10 §11: cities and hotels are distributed, the rooms of a hotel are paged in order by one worker."""
    api.pages = {"/ulm/a": [["a1", "a2"], ["a3"]], "/ulm/b": [["b1"]], "/bern/c": [["c1"], ["c2"], ["c3"]]}
    api.broken[("/bern/c", 2)] = [503]
    workflow = """
    - step: start
      loop:
        in: "{{ workload.cities }}"
        iterator: city
        spec: {mode: parallel, max_in_flight: 5}
        loop:
          in: "{{ iter.city.hotels }}"
          iterator: hotel
          spec: {mode: parallel}
      tool:
        - name: first
          kind: noop
          spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {page: 1, found: []}}}}]}}
        - name: fetch_page
          kind: http
          method: GET
          url: "{{ workload.api_url }}/{{ iter.parent.city.name }}/{{ iter.hotel }}"
          params: {page: "{{ iter.page }}"}
          spec:
            policy:
              rules:
                - when: "{{ outcome.status == 'error' and outcome.http.status == 503 }}"
                  then: {do: retry, attempts: 3, delay: 0.01}
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - else:
                    then:
                      do: continue
                      set_iter:
                        found: "{{ iter.found + outcome.result.data.data }}"
                        more: "{{ outcome.result.data.paging.hasMore }}"
        - name: store_room
          kind: noop
          loop: {in: "{{ fetch_page.data.data }}", iterator: room}
          args: {at: "{{ city.name }}/{{ iter.parent.hotel }}/{{ iter.room }}/{{ iter.parent.parent.index }}"}
          spec:
            policy:
              rules: [{else: {then: {do: continue, set_ctx: {stored: {$append: "{{ outcome.result.at }}"}}}}}]
        - name: paginate
          kind: noop
          spec:
            policy:
              rules:
                - when: "{{ iter.more }}"
                  then: {do: jump, to: fetch_page, set_iter: {page: "{{ iter.page + 1 }}"}}
                - else: {then: {do: break, result: "{{ iter.found }}"}}
      next: {arcs: [{step: end}]}
    - step: end
      tool: {kind: noop, args: {rooms: "{{ start.results }}", count: "{{ start.count }}"}}
    """
    cities = "[{name: ulm, hotels: [a, b]}, {name: linz, hotels: []}, {name: bern, hotels: [c]}]"
    source = playbook(workflow, workload=f"{{cities: {cities}, api_url: ''}}")
    ran = await lab.run(source, {"api_url": api.url})
    assert ran.status == "completed", ran.error
    assert ran.result() == {"rooms": [[["a1", "a2", "a3"], ["b1"]], [], [["c1", "c2", "c3"]]], "count": 3}
    assert sorted(ran.summary.ctx["stored"]) == [
        "bern/c/c1/2", "bern/c/c2/2", "bern/c/c3/2", "ulm/a/a1/0", "ulm/a/a2/0", "ulm/a/a3/0", "ulm/b/b1/0",
    ]
    assert [page for path, page in api.asked if path == "/bern/c"] == [1, 2, 2, 3]


async def test_three_levels_of_loops_are_one_run(lab: Lab) -> None:
    workflow = """
    - step: start
      loop:
        in: [1, 2]
        iterator: a
        spec: {mode: parallel}
        loop:
          in: "{{ range(iter.a) | list }}"
          iterator: b
          loop: {in: ["x", "y"], iterator: c}
      tool: {kind: noop, args: {v: "{{ iter.c }}{{ iter.parent.b }}{{ iter.parent.parent.a }}{{ a }}{{ b }}{{ c }}"}}
    """
    ran = await lab.run(playbook(workflow))
    assert ran.status == "completed", ran.error
    found = [[[room["v"] for room in b] for b in a] for a in ran.result()]
    assert found == [[["x0110x", "y0110y"]], [["x0220x", "y0220y"], ["x1221x", "y1221y"]]]


async def test_a_task_loops_over_large_results_and_gives_their_list(lab: Lab) -> None:
    workflow = """
    - step: start
      tool:
        - name: make
          kind: python
          loop: {in: [1, 2, 3], iterator: n}
          args: {n: "{{ iter.n }}"}
          code: "result = str(n) * 200000"
        - {name: sizes, kind: noop, args: {v: "{{ make | map('length') | list }}", first: "{{ make.results[2][0] }}"}}
    """
    ran = await lab.run(playbook(workflow))
    assert ran.status == "completed", ran.error
    assert ran.result() == {"v": [200000] * 3, "first": "3"}
    done = ran.of("task.done", task="make")
    assert [(each["element"], each["of"], "ref" in each["outcome"]) for each in done] == [
        (0, 3, True), (1, 3, True), (2, 3, True)]


async def test_a_list_of_large_element_results_is_read_by_a_later_step(lab: Lab) -> None:
    workflow = """
    - step: start
      loop: {in: [1, 2], iterator: k, spec: {mode: parallel}}
      tool:
        kind: python
        loop: {in: [3, 4], iterator: n}
        args: {n: "{{ iter.n * iter.parent.k }}"}
        code: "result = str(n) * 150000"
      next: {arcs: [{step: after}]}
    - step: after
      tool: {kind: noop, args: {v: "{{ start.results[1][1][0] }}", n: "{{ start.results[0] | length }}"}}
    """
    ran = await lab.run(playbook(workflow))
    assert ran.status == "completed", ran.error
    assert ran.result() == {"v": "8", "n": 2}


async def test_a_loop_tolerates_as_many_failures_as_it_says(lab: Lab) -> None:
    workflow = """
    - step: start
      spec: {policy: {failure: {tolerate: "50%"}}}
      loop: {in: [1, 0, 2, 0], iterator: n, spec: {mode: parallel}}
      tool: {kind: python, args: {n: "{{ iter.n }}"}, code: "result = 10 // n"}
      next: {arcs: [{step: after, args: {failed: "{{ event.payload.failed }}"}}]}
    - step: after
      tool: {kind: noop, args: {failed: "{{ args.failed }}", results: "{{ start.results }}"}}
    """
    ran = await lab.run(playbook(workflow))
    assert ran.status == "completed", ran.error
    assert ran.result() == {"failed": 2, "results": [10, None, 5, None]}
    ran = await lab.run(playbook(workflow.replace("50%", "25%")))
    assert (ran.status, ran.error["failed"], ran.error["tolerated"]) == ("failed", 2, 1)


async def test_a_loop_starts_no_iteration_after_its_condition_to_stop(lab: Lab) -> None:
    workflow = """
    - step: start
      loop:
        in: "{{ range(1000) | list }}"
        iterator: n
        spec: {mode: parallel, max_in_flight: 4, stop_when: "{{ last.v == 20 }}"}
      tool: {kind: noop, args: {v: "{{ iter.n }}"}}
      next: {arcs: [{step: after, args: {stopped: "{{ event.payload.stopped }}", n: "{{ event.payload.count }}"}}]}
    - step: after
      tool: {kind: noop, args: {stopped: "{{ args.stopped }}", n: "{{ args.n }}", found: "{{ start[20].v }}"}}
    """
    ran = await lab.run(playbook(workflow))
    assert ran.status == "completed", ran.error
    result = ran.result()
    assert (result["stopped"], result["found"]) == (True, 20)
    assert result["n"] == len(ran.of("loop.iteration.done")) <= 28
    assert len(ran.of("loop.stopped", index=20)) == 1


async def test_a_large_collection_is_frozen_by_reference_and_read_by_the_loop_alone(lab: Lab) -> None:
    workflow = """
    - step: start
      loop: {in: "{{ workload.items }}", iterator: item, spec: {mode: parallel}}
      tool: {kind: noop, args: {v: "{{ item | length + workload.more }}"}}
      next: {arcs: [{step: after}]}
    - step: after
      tool: {kind: noop, args: {n: "{{ start.results | map(attribute='v') | sum }}"}}
    """
    ran = await lab.run(playbook(workflow, workload="{items: [], more: 1}"), {"items": ["x" * 999] * 220})
    assert ran.status == "completed", ran.error
    assert ran.result() == {"n": 220_000}
    (started,) = ran.of("loop.started")
    assert started["items_ref"]["size"] > 220_000
    assert started.get("items", []) == []
