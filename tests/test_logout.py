"""Whether a logout takes names away, read as systemd reads it (FAULTS M6)."""

import pwd

import pytest

from zerosys import logout


def machine(root, **files):
    """A machine under *root* where logind runs; files by path, with __ for / and _DOT_ for a dot."""
    (root / "run/systemd/seats").mkdir(parents=True)
    for path, text in files.items():
        file = root / path.replace("__", "/").replace("_DOT_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def told(root, uid=1000):
    return logout.takes_names(uid, root=root)


def test_without_logind_nothing_is_taken(tmp_path):
    assert told(tmp_path) is None


def test_by_default_names_are_taken_and_the_remedy_is_told(tmp_path):
    assert "RemoveIPC=no" in told(machine(tmp_path))


@pytest.mark.parametrize("uid", [0, 65, 999])
def test_system_users_keep_their_names(tmp_path, uid):
    assert told(machine(tmp_path), uid) is None


def test_the_border_of_system_users_is_the_machine_s(tmp_path):
    machine(tmp_path, etc__login_DOT_defs="# SYS_UID_MAX 1\nSYS_UID_MAX\t\t 499 # here\n")
    assert told(tmp_path, 499) is None and told(tmp_path, 500)


MAIN = "etc__systemd__logind_DOT_conf"
DROP = "etc__systemd__logind_DOT_conf_DOT_d__{}_DOT_conf"
OURS = "usr__lib__systemd__logind_DOT_conf_DOT_d__{}_DOT_conf"


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        ({MAIN: "[Login]\nRemoveIPC=no\n"}, False),
        ({MAIN: "[Login]\n RemoveIPC = off \n"}, False),
        ({MAIN: "[Login]\n#RemoveIPC=no\n"}, True),
        ({MAIN: "[Other]\nRemoveIPC=no\n"}, True),
        ({MAIN: "RemoveIPC=no\n"}, True),
        ({MAIN: "[Login]\nRemoveIPC=perhaps\n"}, True),
        ({MAIN: "[Login]\nRemoveIPC=no\nRemoveIPC=yes\n"}, True),
        ({MAIN: "[Login]\nRemoveIPC=yes\n", DROP.format("a"): "[Login]\nRemoveIPC=0\n"}, False),
        ({DROP.format("a"): "[Login]\nRemoveIPC=no\n", DROP.format("b"): "[Login]\nRemoveIPC=yes\n"}, True),
        ({DROP.format("a"): "[Login]\nRemoveIPC=yes\n", OURS.format("a"): "[Login]\nRemoveIPC=no\n"}, True),
        ({MAIN: "[Login]\nRemoveIPC=yes\n", OURS.format("z"): "[Login]\nRemoveIPC=no\n"}, False),
    ],
)
def test_settings_are_read_in_systemd_s_order(tmp_path, files, taken):
    assert bool(told(machine(tmp_path, **files))) == taken


def test_who_lingers_keeps_names(tmp_path):
    user = pwd.getpwuid(65534)
    machine(tmp_path, **{f"var__lib__systemd__linger__{user.pw_name}": ""})
    assert told(tmp_path, user.pw_uid) is None
