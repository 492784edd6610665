"""The command line, run in this process."""

from click.testing import CliRunner

from nmt.cli.main import main


def run(*arguments: object, text: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(a) for a in arguments], input=text)
    return result.exit_code, result.output
