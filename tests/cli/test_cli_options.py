"""Types of options."""

import pytest
from commands import run


@pytest.mark.parametrize(("command", "option"), [(["reproduce", "scenes"], "--minutes"), (["serve", "m"], "--rate")])
@pytest.mark.parametrize("value", ["nan", "0", "-1", "x"])
def test_an_amount_is_a_number_above_0(command: list[str], option: str, value: str) -> None:
    code, output = run(*command, option, value)
    assert code == 2 and option in output and value in output and "Traceback" not in output
