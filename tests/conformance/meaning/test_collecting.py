"""What `collect` gathers from the pages of an API whose body has a `data` of its own, on a real stack."""

import pytest

from tests.conformance.stand.api import Api
from tests.conformance.stand.lab import Lab, playbook

pytestmark = pytest.mark.asyncio(loop_scope="module")


def paged(api: Api, *, path: str, more: str, most: int = 10) -> str:
    return playbook(f"""
    - step: start
      tool: {{kind: http, method: GET, url: "{api.url}/items", params: {{page: 1}}}}
      case:
        - when: "{{{{ event.name == 'call.done' and {more}.hasMore }}}}"
          then:
            collect: {{strategy: append, path: {path}, into: items}}
            retry: {{max_attempts: {most}, params: {{page: "{{{{ {more}.page + 1 }}}}"}}}}
        - when: "{{{{ event.name == 'call.done' and not {more}.hasMore }}}}"
          then:
            collect: {{strategy: append, path: {path}, into: items}}
            next: [{{step: done}}]
    - step: done
      tool: {{kind: noop, args: {{items: "{{{{ start }}}}"}}}}
    """)


@pytest.mark.parametrize(("path", "more"), [("data", "response.paging"), ("data.data", "response.data.paging")])
async def test_the_items_are_collected_however_the_author_counts_from(lab: Lab, api: Api, path: str, more: str) -> None:
    api.pages["/items"] = [[1, 2], [3, 4], [5]]
    ran = await lab.run(paged(api, path=path, more=more))
    assert (ran.status, ran.result()) == ("completed", {"items": [1, 2, 3, 4, 5]})


async def test_the_page_after_which_no_call_is_left_is_collected(lab: Lab, api: Api) -> None:
    api.pages["/items"] = [[1, 2], [3, 4], [5]]
    ran = await lab.run(paged(api, path="data", more="response.paging", most=2))
    assert (ran.status, ran.result(), len(api.asked)) == ("completed", [1, 2, 3, 4], 2)
