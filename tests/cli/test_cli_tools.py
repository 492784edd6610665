"""`nmt doctor`."""

from commands import run


def test_doctor_prints_versions_and_hardware() -> None:
    code, output = run("doctor")
    assert code == 0 and "torch" in output and "threads" in output
