import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from dagster_sparkscale.clusters.agents import credentials
from dagster_sparkscale.driver.begin.options import Options, parse

TOKEN = "0123456789abcdef-token"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text("pass\n")
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "short").write_text("abc")
    return tmp_path


def command(files: Path, *more: str, **changed: str) -> list[str]:
    given = {
        "--stream": "clicks",
        "--epoch": "4",
        "--interval-ms": "10000",
        "--initial-executors": "2",
        "--token-file": str(files / "token"),
    }
    given.update({f"--{name.replace('_', '-')}": value for name, value in changed.items()})
    return [word for pair in given.items() for word in pair] + [str(files / "app.py"), *more]


def refusal(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    with pytest.raises(SystemExit) as refused:
        parse(words)
    assert refused.value.code == 2
    return capsys.readouterr().err


def test_a_command_is_read(files: Path) -> None:
    options = parse(command(files, "--port", "1", "-v"))
    assert isinstance(options, Options)
    assert (options.stream, options.epoch, options.interval_ms) == ("clicks", 4, 10000)
    assert (options.initial_executors, options.max_executors) == (2, None)
    assert (options.bind, options.port, options.announce) == ("127.0.0.1", 0, None)
    assert (options.token, options.term_seconds, options.outwait) == (TOKEN, 30, 0)
    assert options.program == files / "app.py"
    assert options.arguments == ("--port", "1", "-v")  # the program's, though ours has one too


@pytest.mark.parametrize(
    "own",
    [
        ("--in", "/data"),  # two options of ours begin so
        ("--", "--epoch", "9"),
        ("--stream=other", "--tok", "x", "-h"),
        ("-", "", "--epoch"),
    ],
)
def test_the_programs_own_arguments_are_never_taken_for_ours(
    files: Path, own: tuple[str, ...]
) -> None:
    options = parse(command(files, *own))
    assert (options.stream, options.epoch, options.arguments) == ("clicks", 4, own)


def test_an_option_may_have_its_value_after_an_equals_sign(files: Path) -> None:
    options = parse(["--port=7", *command(files, "--port=8")])
    assert (options.port, options.arguments) == (7, ("--port=8",))


def test_an_option_is_never_guessed_from_its_beginning(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--adv" in refusal(capsys, ["--adv", "host", *command(files)])


def test_the_token_does_not_show_when_options_are_printed(files: Path) -> None:
    assert TOKEN not in repr(parse(command(files)))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"epoch": "-1"}, "'-1': must be a whole number of at least 0"),
        ({"epoch": "1.5"}, "'1.5': must be a whole number of at least 0"),
        ({"interval_ms": "0"}, "'0': must be a whole number of at least 1"),
        ({"initial_executors": "0"}, "'0': must be a whole number of at least 1 and at most 10000"),
        ({"max_executors": "10001"}, "'10001': must be a whole number of at least 1 and at most"),
        ({"outwait": "-1"}, "'-1': must be a whole number of at least 0 and at most 600"),
        ({"term_seconds": "0"}, "'0': must be a whole number of at least 1 and at most 86400"),
        ({"port": "65536"}, "'65536': must be a whole number of at least 0 and at most 65535"),
        ({"announce": "/no/such/folder/agent.json"}, "its folder does not exist"),
        ({"token_file": "/no/such/token"}, "--token-file: /no/such/token: No such file"),
    ],
)
def test_what_is_wrong_is_said(
    files: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, str], said: str
) -> None:
    assert said in refusal(capsys, command(files, **changed))


def test_a_short_token_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(capsys, command(files, token_file=str(files / "short")))
    assert "at least 16 characters" in said
    assert "abc" not in said


def test_a_missing_program_is_told(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = command(files)
    words[-1] = "/no/such/app.py"
    assert "program: /no/such/app.py: no such file" in refusal(capsys, words)


def test_with_a_certificate_and_its_key_the_agent_speaks_tls(files: Path) -> None:
    made = credentials.make("clicks", 4)
    (files / "certificate").write_text(made.certificate)
    (files / "key").write_text(made.key)
    given = {"certificate": str(files / "certificate"), "key": str(files / "key")}
    assert parse(command(files)).tls is None
    context = parse(command(files, **given)).tls
    assert context is not None and context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_what_no_tls_can_be_spoken_by_is_refused(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, other = credentials.make("clicks", 4), credentials.make("clicks", 5)
    key = serialization.load_pem_private_key(made.key.encode(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    contents = {"ours": made.certificate, "its": made.key, "foreign": other.key, "none": "?"}
    for name, content in {**contents, "locked": locked.decode()}.items():
        (files / name).write_text(content)

    def said(**given: str) -> str:
        at = {option: str(files / name) for option, name in given.items()}
        return refusal(capsys, command(files, **at))

    both = "--certificate and --key: must be given both, or neither"
    assert both in said(certificate="ours")
    assert both in said(key="its")
    assert "--key: " in (missing := said(certificate="ours", key="missing"))
    assert "missing: No such file" in missing
    for certificate, key_file in (("ours", "foreign"), ("ours", "locked"), ("none", "its")):
        text = said(certificate=certificate, key=key_file)
        assert "must be a certificate and its key, PEM" in text
        assert "PRIVATE" not in text
