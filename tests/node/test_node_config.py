from pathlib import Path

import pytest

from icefloe.errors import TerminalError
from icefloe.node.node_config import CONFIG_VARIABLE, configured_node, load_node_config

MEMBER = "version: 1\ncertificate: /c\nkey: /k\nauthority: /a\n"
KEEPS = f"{MEMBER}address: worker-1:4995\nfolder: /outputs\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "node.yaml"
    path.write_text(text)
    return path


def test_a_machine_that_keeps_outputs_names_its_folder_and_its_address(tmp_path: Path) -> None:
    config = load_node_config(written(tmp_path, f"{KEEPS}keep: 12h\n"))
    assert (config.address, config.port, config.folder) == ("worker-1:4995", 4995, Path("/outputs"))
    assert (config.scheme, config.keep, config.requests_at_once) == ("grpc+tls", 43_200.0, 32)


def test_storages_are_a_list_of_urls(tmp_path: Path) -> None:
    config = load_node_config(written(tmp_path, f"{KEEPS}storages: [s3://lake/icefloe, gs://other]\n"))
    assert config.storages == ("s3://lake/icefloe", "gs://other")


def test_only_an_explicit_key_switches_encryption_off(tmp_path: Path) -> None:
    assert load_node_config(written(tmp_path, "version: 1\nplain: true\n")).scheme == "grpc+tcp"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\n", "certificate, key and authority are missing"),
        (f"{MEMBER}plain: true\n", "plain: true uses no certificate"),
        (f"{MEMBER}address: worker-1:4995\n", "address and folder belong together"),
        (f"{MEMBER}folder: /outputs\naddress: worker-1\n", "address must be a host and a port"),
        (f"{MEMBER}folder: /outputs\naddress: worker-1:65536\n", "the port of address must be from 1 to 65535"),
        (f"{KEEPS}listen: '::'\n", "listen must be a host or an address such as 0.0.0.0 or [::]"),
        (f"{MEMBER}folder: outputs\naddress: worker-1:4995\n", "folder must be an absolute path"),
        (f"{KEEPS}requests_at_once: 0\n", "requests_at_once and keep must be above 0"),
        (f"{KEEPS}keep: soon\n", "a duration such as 30s"),
        (f"{KEEPS}status: 4996\n", "wrong at status"),
        (f"{KEEPS}status: 0.0.0.0:70000\n", "status must be a host and a port such as 127.0.0.1:4996, not"),
        (f"{KEEPS}statsd: statsd\n", "statsd must be a host and a port"),
        (f"{KEEPS}storages: s3://lake\n", "wrong at storages"),
        (f"{KEEPS}port: 4995\n", "wrong at port"),
        ("version: [", "cannot be read"),
        ("version: !!timestamp soon", "cannot be read"),
        (f"version: {'9' * 5000}", "cannot be read"),
        (f"version: {'[' * 1000}{']' * 1000}", "cannot be read"),
        (f"{MEMBER}keep: {'x' * 200_000}", "wrong at keep"),
        (f"{MEMBER}{'x' * 500}: 1\n", "wrong at xxx"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TerminalError) as caught:
        load_node_config(written(tmp_path, text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert str(tmp_path / "node.yaml") in str(caught.value)


def test_a_process_without_a_configuration_gets_the_variable_to_set(tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match=CONFIG_VARIABLE):
        configured_node({})
    with pytest.raises(TerminalError, match="cannot be read"):
        configured_node({CONFIG_VARIABLE: str(tmp_path / "missing.yaml")})
