"""Tool kinds for the compiler's tests: plain data, so that no tool is needed to test the language."""

from shared.dsl.model.tool_spec import KeySpec, ToolSpec

KINDS = {
    spec.kind: spec
    for spec in (
        ToolSpec("noop", "Does nothing.", {"args": KeySpec("What it answers with.")}, pure=True),
        ToolSpec("http", "One request.", {
            "method": KeySpec("GET unless given."),
            "url": KeySpec("Absolute address.", required=True),
            "headers": KeySpec("Request headers."),
            "params": KeySpec("Query parameters."),
        }, knobs={"verify": KeySpec("Check certificates.")}, defaults={"timeout": {"connect": 10}}),
        ToolSpec("postgres", "SQL.", {"command": KeySpec("Statements.", required=True, sql=True)},
                 knobs={"pool_size": KeySpec("Connections.")}),
        ToolSpec("duckdb", "SQL.", {"command": KeySpec("Statements.", required=True, sql=True)}),
        ToolSpec("python", "A program.", {
            "code": KeySpec("Taken as written.", required=True, template=False, python=True),
            "libs": KeySpec("Modules."),
        }, aliases=True),
        ToolSpec("shell", "A program.", {"cmds": KeySpec("Texts.", required=True, shell=True)}),
    )
}
