"""What `noetlctl init` writes."""

PLAYBOOK = """\
# yaml-language-server: $schema=./{schema}
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: {name}
  path: {name}
workload:
  who: world
workflow:
  - step: start
    tool:
      - name: greet
        kind: python
        args:
          who: "{{{{ workload.who }}}}"
        code: |
          result = f"Hello, {{who}}!"
    next:
      arcs:
        - step: end
  - step: end
"""

TEST = """\
# yaml-language-server: $schema=./{schema}
apiVersion: noetl.io/v2
kind: Test
playbook: ./{name}.yaml
cases:
  - name: someone is greeted
    payload: {{ who: Ada }}
    run: [python] # the program itself; without this, a mock has to answer
    expect:
      path: [start, end]
      result: Hello, Ada!

  - name: a greeting that fails ends the execution
    mocks:
      - step: start
        error: {{ kind: python, message: nobody is there }}
    expect:
      status: failed
      error: {{ step: start, message: /nobody/ }}
"""

_GITHUB = """\
# Tests of the playbooks in this repository: no server is started and no tool is called.
name: playbooks
on: [push, pull_request]
permissions:
  contents: read
jobs:
  playbooks:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip install noetl-jetstream
      - run: noetlctl test . --coverage --faults crash,dup,reorder --junit playbooks.xml
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: playbooks
          path: playbooks.xml
"""

_GITLAB = """\
# Tests of the playbooks in this repository: no server is started and no tool is called.
playbooks:
  image: python:3.12
  script:
    - pip install noetl-jetstream
    - noetlctl test . --coverage --faults crash,dup,reorder --junit playbooks.xml
  artifacts:
    when: always
    reports:
      junit: playbooks.xml
"""

CI = {"github": (".github/workflows/playbooks.yml", _GITHUB), "gitlab": (".gitlab-ci.yml", _GITLAB)}
