"""noetlctl init: a playbook to begin with, its test, the schemas their editor headers name, and a job for CI."""

import shlex
from pathlib import Path

import click

from services.cli.commands.schema import text as schema_text
from services.cli.console import exits
from services.cli.console.exits import CliError
from services.cli.playbooks import examples, init_templates


@click.command("init", epilog="Example: noetlctl init orders --ci github && noetlctl test")
@click.argument("name", required=False)
@click.option(
    "--example", type=click.Choice(examples.names()), metavar="EXAMPLE",
    help=f"Write one of the examples instead of a playbook of your own: {', '.join(examples.names())}.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Where to write; here unless given.",
)
@click.option(
    "--ci", type=click.Choice([*init_templates.CI, "none"]), default="github", show_default=True,
    help="Whose CI gets a job that runs the tests.",
)
def command(name: str | None, example: str | None, folder: Path, ci: str) -> int:
    """Write a playbook that runs, a test that passes, and a job for CI; or an example.

    Their first lines name schemas for editors, which are written too. What is there already is left alone.
    """
    if (name is None) == (example is None):
        raise CliError("give the name of a new playbook, or --example and one of: " + ", ".join(examples.names()),
                       exits.USAGE)
    return _example(example, folder) if example is not None else _playbook(str(name), folder, ci)


def _example(name: str, folder: Path) -> int:
    files = list(examples.files(name))
    for file in files:
        if (folder / file.name).exists():
            raise CliError(f"{folder / file.name} exists already; choose another --folder", exits.USAGE)
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        _write(folder / file.name, file.read_text(encoding="utf-8"))
    inside = "" if folder == Path() else f"cd {shlex.quote(str(folder))} && "
    click.echo(f"wrote {', '.join(file.name for file in files)}; try: {inside}{examples.command(name)}")
    return exits.OK


def _playbook(name: str, folder: Path, ci: str) -> int:
    from shared.dsl.authoring.schema import FILE, TEST_FILE
    from shared.dsl.read.reader import NAME_FIX, is_name  # late: `--help` does without the compiler

    if not is_name(name):
        raise CliError(f"{name!r} is not a name for a playbook: {NAME_FIX}", exits.USAGE)
    file, test = folder / f"{name}.yaml", folder / f"{name}.test.yaml"
    for each in (file, test):
        if each.exists():
            raise CliError(f"{each} exists already; choose another name", exits.USAGE)
    folder.mkdir(parents=True, exist_ok=True)
    _write(file, init_templates.PLAYBOOK.format(schema=FILE, name=name))
    _write(test, init_templates.TEST.format(schema=TEST_FILE, name=name))
    (folder / FILE).write_text(schema_text(), encoding="utf-8")
    (folder / TEST_FILE).write_text(schema_text("test"), encoding="utf-8")
    job = _job(folder, ci)
    click.echo(f"wrote {file} and {test}, with {FILE} and {TEST_FILE} for editors{job}; "
               f"try: noetlctl run {file}, noetlctl test {test}")
    return exits.OK


def _write(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise CliError(f"{file} exists already; choose another name", exits.USAGE) from None


def _job(folder: Path, ci: str) -> str:
    """What was done about CI, in words."""
    if ci == "none":
        return ""
    place, text = init_templates.CI[ci]
    file = _root(folder) / place
    if file.exists():
        return f", and left {file} as it is"
    file.parent.mkdir(parents=True, exist_ok=True)
    _write(file, text)
    return f", and {file}"


def _root(folder: Path) -> Path:
    """That of the repository around the folder; the folder itself where there is none."""
    here = folder.resolve()
    found = next((each for each in (here, *here.parents) if (each / ".git").exists()), None)
    return folder if found is None or found == here else found
